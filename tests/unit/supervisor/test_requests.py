"""What a running supervisor is asked and OTP's answers; multiple restarts, dynamic children, auto_shutdown, updates."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from supervisor.events import (
    Boot,
    Call,
    Command,
    Down,
    Ending,
    Exited,
    Forget,
    Halt,
    Ignored,
    Ready,
    Reply,
    Report,
    Start,
    StartFailed,
    Stop,
    Up,
)
from supervisor.requests import (
    Answer,
    CountChildren,
    Counts,
    Cycle,
    DeleteChild,
    Done,
    GetChildspec,
    Listed,
    No,
    Refusal,
    Request,
    RestartChild,
    Row,
    Spec,
    StartChild,
    StartDynamic,
    TerminateChild,
    Update,
    WhichChildren,
)
from supervisor.spec import AutoShutdown, ChildSpec, ChildType, Restart, Strategy, SupervisorSpec
from supervisor.tree import Tree

PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


class World:
    """A tree whose children start at once and stop as asked, unless they are held."""

    def __init__(self, *children: ChildSpec, **flags: Any) -> None:
        self.tree = Tree(SupervisorSpec(children=children, **{"intensity": 5} | flags), jitter=lambda: 0.0)
        self.runs: dict[str, int] = {}
        self.log: list[str] = []
        self.replies: dict[int, Answer] = {}
        self.failing: set[str] = set()
        self.ignoring: set[str] = set()
        self.held: set[str] = set()
        self.reports: list[tuple[str, str]] = []
        self.down: str | None = None
        self._numbers = itertools.count(1)
        self.feed(Boot())

    def feed(self, event: Any) -> None:
        for command in self.tree.handle(event, 0.0):
            self.perform(command)

    def perform(self, command: Command) -> None:
        if isinstance(command, Start):
            self.runs[command.id] = command.run
            self.log.append(f"start {command.id}")
            if command.id not in self.held:
                self.come_up(command.id)
        elif isinstance(command, Stop):
            self.log.append(f"stop {command.id}")
            self.feed(Exited(command.id, command.run, "stopped", Ending.SHUTDOWN))
        elif isinstance(command, Reply):
            self.replies[command.ref] = command.answer
        elif isinstance(command, Report):
            self.reports.append((command.context, command.offender))
        elif isinstance(command, Down):
            self.down = command.reason
        elif isinstance(command, Forget):
            self.log.append(f"forget {command.id}")

    def come_up(self, name: str) -> None:
        run = self.runs[name]
        if name in self.failing:
            self.feed(StartFailed(name, run, "boom"))
        else:
            self.feed(Ignored(name, run) if name in self.ignoring else Ready(name, run))

    def die(self, name: str, ending: Ending = Ending.ABNORMAL) -> list[str]:
        self.log.clear()
        self.feed(Exited(name, self.runs[name], "died", ending))
        return self.log

    def ask(self, request: Request, supervisor: str = "root") -> Answer | None:
        number = next(self._numbers)
        self.feed(Call(number, supervisor, request))
        return self.replies.get(number)

    def listed(self) -> list[str]:
        answer = self.ask(WhichChildren())
        assert isinstance(answer, Listed)
        return [row.id for row in answer.children]


def child(name: str, restart: Restart = PERMANENT, **spec: Any) -> ChildSpec:
    return ChildSpec(name, "m:f", restart=restart, **spec)


def three(**flags: Any) -> World:
    return World(child("a"), child("b"), child("c"), **flags)


# Strategies


def test_one_for_all_stops_everything_in_reverse_and_starts_it_in_order() -> None:
    world = three(strategy=Strategy.ONE_FOR_ALL)
    assert world.die("b") == ["stop c", "stop a", "start a", "start b", "start c"]


def test_rest_for_one_takes_those_that_were_started_later() -> None:
    world = three(strategy=Strategy.REST_FOR_ONE)
    assert world.die("b") == ["stop c", "start b", "start c"]


def test_temporary_siblings_of_a_multiple_restart_are_dropped_for_good() -> None:
    world = World(child("a"), child("b", TEMPORARY), child("c"), strategy=Strategy.ONE_FOR_ALL)
    assert world.die("a") == ["stop c", "stop b", "forget b", "start a", "start c"]
    assert world.listed() == ["c", "a"]


def test_multiple_restart_starts_also_what_was_terminated_by_hand() -> None:
    world = three(strategy=Strategy.ONE_FOR_ALL)
    world.ask(TerminateChild("a"))
    assert world.die("b") == ["stop c", "start a", "start b", "start c"]


def test_failed_start_in_a_multiple_restart_counts_again_from_there() -> None:
    world = three(strategy=Strategy.REST_FOR_ONE, intensity=2)
    world.failing = {"c"}
    assert world.die("b") == ["stop c", "start b", "start c", "start c", "stop b", "stop a"]
    assert world.down == "reached_max_restart_intensity"


# Auto shutdown


@pytest.mark.parametrize(
    ("auto", "ends", "down"),
    [
        (AutoShutdown.ANY_SIGNIFICANT, ["a"], True),
        (AutoShutdown.ALL_SIGNIFICANT, ["a"], False),
        (AutoShutdown.ALL_SIGNIFICANT, ["a", "b"], True),
        (AutoShutdown.ANY_SIGNIFICANT, ["c"], False),
    ],
)
def test_end_of_significant_children_shuts_down(auto: AutoShutdown, ends: list[str], down: bool) -> None:
    significant = [child(name, TRANSIENT, significant=True) for name in "ab"]
    world = World(*significant, child("c", TRANSIENT), auto_shutdown=auto)
    for name in ends:
        world.die(name, Ending.NORMAL)
    assert (world.down == "auto_shutdown") is down


def test_significant_child_terminated_by_hand_shuts_nothing_down() -> None:
    world = World(child("a", TRANSIENT, significant=True), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    assert world.ask(TerminateChild("a")) == Done()
    assert world.down is None


# Answers


def test_start_child_adds_it_at_the_end() -> None:
    world = World(child("a"))
    assert world.ask(StartChild(child("b"))) == Done("b", world.runs["b"])
    assert world.listed() == ["b", "a"]


def test_start_child_of_a_known_id_says_whether_it_runs() -> None:
    world = World(child("a"))
    assert world.ask(StartChild(child("a"))) == No(Refusal.ALREADY_STARTED, f"run {world.runs['a']}")
    world.ask(TerminateChild("a"))
    assert world.ask(StartChild(child("a"))) == No(Refusal.ALREADY_PRESENT)


def test_start_child_that_fails_is_not_added() -> None:
    world = World()
    world.failing = {"a"}
    assert world.ask(StartChild(child("a"))) == No(Refusal.START_FAILED, "boom")
    assert world.listed() == []


def test_start_child_with_nothing_to_do_is_kept_unless_temporary() -> None:
    world = World()
    world.ignoring = {"a", "b"}
    assert world.ask(StartChild(child("a"))) == Done()
    assert world.ask(StartChild(child("b", TEMPORARY))) == Done()
    assert world.listed() == ["a"]


def test_start_child_that_is_significant_without_auto_shutdown_is_invalid() -> None:
    answer = World().ask(StartChild(child("a", TRANSIENT, significant=True)))
    assert isinstance(answer, No)
    assert answer.refusal is Refusal.INVALID
    assert answer.detail.startswith("a: significant is True; allowed: only with auto_shutdown any_significant or")


def test_start_child_with_an_id_of_another_supervisor_is_refused() -> None:
    inner = SupervisorSpec("s", children=(child("a"),))
    world = World(ChildSpec("s", type=ChildType.SUPERVISOR, shutdown="infinity", nested=inner))
    assert world.ask(StartChild(child("a"))) == No(Refusal.ID_TAKEN, "a")
    assert world.ask(StartChild(child("root")), "s") == No(Refusal.ID_TAKEN, "root")


def test_restart_and_delete_of_a_running_or_unknown_child_are_refused() -> None:
    world = World(child("a"))
    for request in (RestartChild, DeleteChild):
        assert world.ask(request("a")) == No(Refusal.RUNNING)
        assert world.ask(request("z")) == No(Refusal.NOT_FOUND)
    assert world.ask(TerminateChild("z")) == No(Refusal.NOT_FOUND)


def test_terminated_child_can_be_restarted_or_deleted() -> None:
    world = World(child("a"))
    assert world.ask(TerminateChild("a")) == Done()
    assert world.ask(RestartChild("a")) == Done("a", world.runs["a"])
    world.ask(TerminateChild("a"))
    assert world.ask(DeleteChild("a")) == Done()
    assert world.listed() == []


def test_restart_child_that_fails_leaves_it_stopped() -> None:
    world = World(child("a"))
    world.ask(TerminateChild("a"))
    world.failing = {"a"}
    assert world.ask(RestartChild("a")) == No(Refusal.START_FAILED, "boom")
    assert world.ask(CountChildren()) == Counts(1, 0, 0, 1)


def test_request_waits_while_a_child_starts_and_sees_it_restarting() -> None:
    world = World(child("a"), intensity=9)
    world.held = {"a"}
    world.die("a")
    first = next(world._numbers)
    world.feed(Call(first, "root", RestartChild("a")))
    assert first not in world.replies
    world.feed(StartFailed("a", world.runs["a"], "boom"))
    assert world.replies[first] == No(Refusal.RESTARTING)


def test_which_and_count_children_tell_kinds_and_states() -> None:
    inner = SupervisorSpec("s", children=(child("x"),))
    nested = ChildSpec("s", type=ChildType.SUPERVISOR, shutdown="infinity", nested=inner)
    world = World(child("a"), nested, child("b"))
    world.ask(TerminateChild("b"))
    rows = world.ask(WhichChildren())
    assert isinstance(rows, Listed)
    assert rows.children[0] == Row("b", 0, False, ChildType.WORKER)
    assert [(row.id, row.type) for row in rows.children] == [("b", "worker"), ("s", "supervisor"), ("a", "worker")]
    assert world.ask(CountChildren()) == Counts(specs=3, active=2, supervisors=1, workers=2)
    assert world.ask(GetChildspec("a")) == Spec(child("a"))


def test_cycle_replaces_a_running_child_without_a_report() -> None:
    world = three()
    before = world.runs["b"]
    world.log.clear()
    answer = world.ask(Cycle("b"))
    assert answer == Done("b", world.runs["b"])
    assert world.runs["b"] != before
    assert (world.log, world.reports) == (["stop b", "start b"], [])


def test_cycle_that_fails_goes_the_way_of_every_restart() -> None:
    world = three(intensity=0)
    world.failing = {"b"}
    assert world.ask(Cycle("b")) == No(Refusal.START_FAILED, "boom")
    assert world.down == "reached_max_restart_intensity"


def test_request_of_a_supervisor_that_goes_down_is_answered_gone() -> None:
    world = World(child("a", shutdown=10), eager=True)
    world.held = {"b"}
    assert world.ask(StartChild(child("b", shutdown=10))) is None
    world.feed(Halt())
    assert world.replies == {1: No(Refusal.GONE)}
    assert world.ask(CountChildren()) == No(Refusal.GONE)
    assert world.ask(CountChildren(), "nobody") == No(Refusal.GONE)


# Dynamic children


def dynamic(restart: Restart = PERMANENT, **flags: Any) -> World:
    return World(child("t", restart), strategy=Strategy.DYNAMIC, **flags)


def started(world: World, **args: Any) -> str:
    answer = world.ask(StartDynamic(args))
    assert isinstance(answer, Done)
    assert answer.id is not None
    return answer.id


def test_dynamic_supervisor_starts_nothing_by_itself_and_children_on_demand() -> None:
    world = dynamic()
    assert world.log == []
    first, second = started(world), started(world)
    assert first != second
    assert first.startswith("t-")
    assert world.ask(CountChildren()) == Counts(specs=1, active=2, supervisors=0, workers=2)


def test_dynamic_child_gets_its_arguments_over_the_templates() -> None:
    world = World(child("t", args={"x": 1, "y": 1}), strategy=Strategy.DYNAMIC)
    answer = world.ask(GetChildspec(started(world, y=2)))
    assert isinstance(answer, Spec)
    assert answer.spec.args == {"x": 1, "y": 2}


def test_dynamic_child_that_dies_is_restarted_alone_under_its_id() -> None:
    world = dynamic()
    first, _second = started(world), started(world)
    assert world.die(first) == [f"start {first}"]


def test_dynamic_children_stop_all_at_once() -> None:
    world = dynamic()
    names = [started(world) for _ in range(3)]
    out = [command.id for command in world.tree.handle(Halt(), 0) if isinstance(command, Stop)]
    assert out == names[::-1]


def test_dynamic_child_terminated_is_gone_and_terminating_it_again_is_fine() -> None:
    world = dynamic()
    name = started(world)
    assert world.ask(TerminateChild(name)) == Done()
    assert world.listed() == []
    assert world.ask(TerminateChild(name)) == Done()


def test_dynamic_child_of_another_incarnation_is_left_alone() -> None:
    world = dynamic()
    name = started(world)
    old = world.runs[name]
    world.die(name)
    assert world.ask(TerminateChild(name, old)) == Done()
    assert world.listed() == [name]


@pytest.mark.parametrize("request_", [StartChild(child("x")), RestartChild("t"), DeleteChild("t"), TerminateChild("t")])
def test_dynamic_supervisor_refuses_requests_by_spec_or_template(request_: Request) -> None:
    assert dynamic().ask(request_) == No(Refusal.DYNAMIC)


def test_dynamic_supervisor_has_at_most_max_children() -> None:
    world = dynamic(max_children=1)
    started(world)
    assert world.ask(StartDynamic()) == No(Refusal.MAX_CHILDREN, "1")


def test_dynamic_template_may_be_a_supervisor_with_ids_of_its_own() -> None:
    inner = SupervisorSpec("t", children=(child("x"),))
    template = ChildSpec("t", type=ChildType.SUPERVISOR, shutdown="infinity", nested=inner)
    world = World(template, strategy=Strategy.DYNAMIC)
    first, second = started(world), started(world)
    assert world.log == [f"start x-{first[2:]}", f"start x-{second[2:]}"]


# Update in place


def test_update_keeps_what_runs_adds_stopped_ones_first_and_keeps_what_is_missing() -> None:
    world = three()
    world.log.clear()
    new = SupervisorSpec(children=(child("d"), child("b", TRANSIENT)), intensity=5)
    assert world.ask(Update(new)) == Done()
    assert world.log == []
    assert world.listed() == ["c", "a", "b", "d"]
    assert world.ask(CountChildren()) == Counts(4, 3, 0, 4)
    assert world.die("b", Ending.NORMAL) == []


def test_update_of_flags_counts_earlier_restarts() -> None:
    world = three(intensity=5)
    world.die("a")
    world.die("a")
    world.ask(Update(SupervisorSpec(children=(child("a"),), intensity=2)))
    world.die("a")
    assert world.down == "reached_max_restart_intensity"


def test_update_cannot_turn_a_supervisor_into_a_dynamic_one() -> None:
    answer = three().ask(Update(SupervisorSpec(children=(child("a"),), strategy=Strategy.DYNAMIC)))
    assert answer == No(
        Refusal.INVALID, "root: strategy is 'dynamic'; allowed: no change from or to dynamic while it runs"
    )


# Nested supervisors and force


def tree_with(shutdown: Any) -> tuple[Tree, int]:
    inner = SupervisorSpec("s", children=(child("a"), child("b")))
    nested = ChildSpec("s", type=ChildType.SUPERVISOR, shutdown=shutdown, nested=inner)
    made = Tree(SupervisorSpec(children=(nested,)), jitter=lambda: 0.0)
    made.handle(Boot(), 0)
    made.handle(Ready("a", 2), 0)
    assert Up() in made.handle(Ready("b", 3), 0)
    return made, 1


def test_nested_supervisor_to_be_killed_is_killed_with_everything_below_it_at_once() -> None:
    made, _run = tree_with("brutal_kill")
    assert made.handle(Halt(), 0) == [Stop("b", 3, "brutal_kill"), Stop("a", 2, "brutal_kill")]
    assert made.handle(Exited("a", 2, "killed", Ending.KILLED), 0) == []
    assert made.handle(Exited("b", 3, "killed", Ending.KILLED), 0) == [Down("shutdown")]


def test_nested_supervisor_over_its_budget_is_killed() -> None:
    from supervisor.events import SetTimer, Timer

    made, run = tree_with(50)
    timer = SetTimer(("shutdown", "s", run), 0.05)
    assert made.handle(Halt(), 0) == [timer, Stop("b", 3, 5000)]
    assert made.handle(Timer(timer.key), 0.05) == [Stop("b", 3, "brutal_kill"), Stop("a", 2, "brutal_kill")]
    made.handle(Exited("b", 3, "killed", Ending.KILLED), 0.05)
    out = made.handle(Exited("a", 2, "killed", Ending.KILLED), 0.05)
    assert out == [Report("root", "shutdown_error", "killed", "s", run), Down("shutdown")]
