"""Nesting and giving up."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.children import ChildState
from supervisor.events import (
    Boot,
    Command,
    Down,
    Ending,
    Exited,
    GiveUp,
    Halt,
    Ready,
    Report,
    SetTimer,
    Start,
    Stop,
    Timer,
    Up,
)
from supervisor.spec import ChildSpec, ChildType, OnExcess, Restart, SpecError, SupervisorSpec
from supervisor.tree import Tree


def forest(**flags: Any) -> ChildSpec:
    shards = tuple(ChildSpec(f"forest-{n}", "m:f") for n in range(2))
    nested = SupervisorSpec("forest", children=shards, **flags)
    return ChildSpec("forest", type=ChildType.SUPERVISOR, shutdown="infinity", nested=nested)


def tree(*, essential: tuple[str, ...] = (), on_excess: OnExcess = OnExcess.ESCALATE, **flags: Any) -> Tree:
    children = (ChildSpec("keeper", "m:f"), forest(**flags), ChildSpec("edge", "m:f"))
    spec = SupervisorSpec(children=children, intensity=3, period_s=5, on_excess=on_excess)
    return Tree(spec, jitter=lambda: 0.0, essential=essential, give_up_s=300)


def orders(commands: list[Command]) -> list[Command]:
    return [command for command in commands if not isinstance(command, Report | SetTimer)]


def stopped_as_asked(command: Stop) -> Exited:
    return Exited(command.id, command.run, "stopped", Ending.SHUTDOWN)


def boot(made: Tree) -> dict[str, int]:
    """Bring everything up; return the runs."""
    runs: dict[str, int] = {}
    todo = made.handle(Boot(), 0)
    while todo:
        command = todo.pop(0)
        if isinstance(command, Start):
            runs[command.id] = command.run
            todo += made.handle(Ready(command.id, command.run), 0)
    return runs


def test_boot_starts_nested_children_in_place() -> None:
    made = tree()
    started, todo = [], made.handle(Boot(), 0)
    while todo:
        command = todo.pop(0)
        started.append(getattr(command, "id", "up"))
        todo += made.handle(Ready(command.id, command.run), 0) if isinstance(command, Start) else []
    assert started == ["keeper", "forest-0", "forest-1", "edge", "up"]


def test_halt_stops_nested_children_in_place_reversed() -> None:
    made = tree()
    boot(made)
    stopped, todo = [], made.handle(Halt(), 1)
    while todo:
        command = todo.pop(0)
        stopped.append(getattr(command, "id", "down"))
        todo += (
            made.handle(Exited(command.id, command.run, "stopped", Ending.SHUTDOWN), 1)
            if isinstance(command, Stop)
            else []
        )
    assert stopped == ["edge", "forest-1", "forest-0", "keeper", "down"]


def test_nested_child_that_dies_is_restarted_by_its_own_supervisor() -> None:
    made = tree()
    runs = boot(made)
    out = made.handle(Exited("forest-1", runs["forest-1"], "killed"), 1)
    assert isinstance(out[0], Report)
    assert out[0].supervisor == "forest"
    assert [c.id for c in orders(out) if isinstance(c, Start)] == ["forest-1"]


def test_nested_supervisor_that_goes_down_is_restarted_whole_and_counts_in_its_parent() -> None:
    made = tree(intensity=0)
    runs = boot(made)
    out = orders(made.handle(Exited("forest-0", runs["forest-0"], "killed"), 1))
    assert out == [Stop("forest-1", runs["forest-1"], 5000)]
    out = orders(made.handle(Exited("forest-1", runs["forest-1"], "stopped", Ending.SHUTDOWN), 1))
    assert [type(c) for c in out] == [Start]
    assert [getattr(c, "id", None) for c in out] == ["forest-0"]


def test_nested_supervisor_that_is_transient_stays_down_after_giving_up() -> None:
    shard = ChildSpec("shard", "m:f")
    nested = SupervisorSpec("forest", children=(shard,), intensity=0)
    child = ChildSpec("forest", restart=Restart.TRANSIENT, type=ChildType.SUPERVISOR, nested=nested)
    made = Tree(SupervisorSpec(children=(child,)), jitter=lambda: 0.0)
    runs = boot(made)
    assert orders(made.handle(Exited("shard", runs["shard"], "killed"), 1)) == []


def test_nested_escalations_over_the_parents_intensity_take_the_whole_tree_down() -> None:
    made = tree(intensity=0)
    runs = boot(made)
    for _ in range(3):
        serve(made, runs, fail_forest(made, runs))
    assert orders(fail_forest(made, runs)) == [Stop("edge", runs["edge"], 5000)]
    assert orders(made.handle(Exited("edge", runs["edge"], "stopped", Ending.SHUTDOWN), 1)) == [
        Stop("keeper", runs["keeper"], 5000)
    ]
    out = made.handle(Exited("keeper", runs["keeper"], "stopped", Ending.SHUTDOWN), 1)
    assert orders(out) == [Down("reached_max_restart_intensity")]


def fail_forest(made: Tree, runs: dict[str, int]) -> list[Command]:
    made.handle(Exited("forest-0", runs["forest-0"], "killed"), 1)
    return made.handle(Exited("forest-1", runs["forest-1"], "stopped", Ending.SHUTDOWN), 1)


def serve(made: Tree, runs: dict[str, int], todo: list[Command]) -> None:
    while starts := [c for c in todo if isinstance(c, Start)]:
        runs[starts[0].id] = starts[0].run
        todo = made.handle(Ready(starts[0].id, starts[0].run), 1)


def test_essential_supervisor_stands_for_its_processes() -> None:
    assert tree(essential=("forest",)).essential == {"forest-0", "forest-1"}


def test_essential_of_an_unknown_child_is_refused() -> None:
    with pytest.raises(SpecError, match="essential is 'x'; allowed: keeper, forest, forest-0, forest-1, edge"):
        tree(essential=("x",))


def test_essential_child_that_does_not_come_back_makes_the_tree_give_up_once() -> None:
    made = tree(essential=("keeper",))
    runs = boot(made)
    out = made.handle(Exited("keeper", runs["keeper"], "killed"), 10)
    timer = next(c for c in out if isinstance(c, SetTimer))
    assert timer.after_s == 300
    assert made.handle(Timer(timer.key), 310) == [GiveUp("essential child keeper was not ready for 300 s")]


def test_essential_child_that_came_back_is_forgiven() -> None:
    made = tree(essential=("keeper",))
    runs = boot(made)
    out = made.handle(Exited("keeper", runs["keeper"], "killed"), 10)
    timer = next(c for c in out if isinstance(c, SetTimer))
    start = next(c for c in out if isinstance(c, Start))
    made.handle(Ready("keeper", start.run), 11)
    made.handle(Exited("keeper", start.run, "killed"), 290)
    assert made.handle(Timer(timer.key), 310) == []


def test_essential_child_that_never_starts_is_waited_for_from_its_first_start() -> None:
    made = tree(essential=("keeper", "edge"))
    timers = [c.key[1] for c in made.handle(Boot(), 0) if isinstance(c, SetTimer)]
    assert timers == ["keeper"]


def test_standings_before_a_supervisor_is_up_show_its_children_stopped() -> None:
    made = tree()
    made.handle(Boot(), 0)
    assert [(s.id, s.state) for s in made.standings()] == [
        ("keeper", ChildState.STARTING),
        ("forest-0", ChildState.STOPPED),
        ("forest-1", ChildState.STOPPED),
        ("edge", ChildState.STOPPED),
    ]


def test_up_and_down_of_the_whole_tree_reach_the_runner() -> None:
    made = Tree(SupervisorSpec(), jitter=lambda: 0.0)
    assert made.handle(Boot(), 0) == [Up()]
    assert made.handle(Halt(), 0) == [Down("shutdown")]
