"""One supervisor, as tables of events and the commands they must yield."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from supervisor.children import ChildState
from supervisor.events import (
    Boot,
    Command,
    Down,
    Ending,
    Exited,
    Forget,
    Halt,
    Ready,
    Report,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.machine import Phase
from supervisor.spec import Backoff, ChildSpec, OnExcess, Restart, SupervisorSpec
from supervisor.strategy import Supervisor


def machine(*ids: str, restart: Restart = Restart.PERMANENT, shutdown: int = 5000, **flags: Any) -> Supervisor:
    children = tuple(ChildSpec(name, "m:f", restart=restart, shutdown=shutdown) for name in ids)
    return Supervisor(SupervisorSpec(children=children, **flags), runs=itertools.count(1), jitter=lambda: 0.0)


def patient(*ids: str, intensity: int = 2, period_s: float = 60) -> Supervisor:
    return machine(
        *ids, eager=True, on_excess=OnExcess.SLOW_RETRY, backoff=Backoff(), intensity=intensity, period_s=period_s
    )


def up(*ids: str, **flags: Any) -> Supervisor:
    made = machine(*ids, **flags)
    boot(made)
    return made


def boot(made: Supervisor) -> None:
    made.handle(Boot(), 0)
    for run, child in enumerate(made.spec.children, 1):
        made.handle(Ready(child.id, run), 0)


def orders(commands: list[Command]) -> list[Command]:
    return [command for command in commands if not isinstance(command, Report | Forget)]


def test_boot_starts_each_child_after_its_elder_is_ready() -> None:
    made = machine("a", "b")
    assert made.handle(Boot(), 0) == [Start("a", 1)]
    assert made.handle(Ready("a", 1), 0) == [Start("b", 2)]
    assert made.handle(Ready("b", 2), 0) == [Up()]


def test_boot_without_children_is_up_at_once() -> None:
    assert machine().handle(Boot(), 0) == [Up()]


def test_halt_stops_each_child_after_the_younger_is_gone() -> None:
    made = up("a", "b")
    assert made.handle(Halt(), 0) == [Stop("b", 2, 5000)]
    assert made.handle(Exited("b", 2, "stopped", Ending.SHUTDOWN), 0) == [Stop("a", 1, 5000)]
    assert made.handle(Exited("a", 1, "stopped", Ending.SHUTDOWN), 0) == [Down("shutdown")]


def test_halt_during_the_ordered_start_stops_what_was_started_and_starts_no_more() -> None:
    made = machine("a", "b", "c", eager=True, shutdown=100)
    made.handle(Boot(), 0)
    made.handle(Ready("a", 1), 0)
    assert made.handle(Halt(), 0) == [Stop("b", 2, 100)]
    assert made.handle(Ready("b", 2), 0) == []
    assert made.handle(Exited("b", 2, "stopped", Ending.SHUTDOWN), 0) == [Stop("a", 1, 100)]


def test_plain_halt_during_the_ordered_start_waits_for_it() -> None:
    made = machine("a", "b")
    made.handle(Boot(), 0)
    assert made.handle(Halt(), 0) == []
    assert made.handle(Ready("a", 1), 0) == [Start("b", 2)]
    assert made.handle(Ready("b", 2), 0) == [Up(), Stop("b", 2, 5000)]


def test_halt_before_boot_is_down_at_once() -> None:
    assert machine("a").handle(Halt(), 0) == [Down("shutdown")]


def test_halt_with_kill_hastens_a_stop_under_way_and_kills_all_at_once() -> None:
    made = up("a", "b")
    made.handle(Halt(), 0)
    assert made.handle(Halt(kill=True), 0) == [Stop("b", 2, "brutal_kill"), Stop("a", 1, "brutal_kill")]
    assert made.handle(Exited("b", 2, "killed"), 0) == []
    assert made.handle(Exited("a", 1, "killed"), 0) == [Down("killed")]


def test_child_that_dies_while_another_stops_gets_no_command() -> None:
    made = up("a", "b")
    made.handle(Halt(), 0)
    assert made.handle(Exited("a", 1, "killed"), 0) == []
    assert made.handle(Exited("b", 2, "stopped", Ending.SHUTDOWN), 0) == [
        Report("root", "shutdown_error", "killed", "a", 1),
        Down("shutdown"),
    ]


@pytest.mark.parametrize(
    ("restart", "normal", "expected"),
    [
        (Restart.PERMANENT, True, [Start("b", 4)]),
        (Restart.PERMANENT, False, [Start("b", 4)]),
        (Restart.TRANSIENT, False, [Start("b", 4)]),
        (Restart.TRANSIENT, True, []),
        (Restart.TEMPORARY, False, []),
    ],
)
def test_exit_restarts_that_child_alone_by_its_restart_type(
    restart: Restart, normal: bool, expected: list[Command]
) -> None:
    made = up("a", "b", "c", restart=restart)
    assert orders(made.handle(Exited("b", 2, "exit", Ending.NORMAL if normal else Ending.ABNORMAL), 1)) == expected


def test_exit_is_reported_with_supervisor_context_reason_and_offender() -> None:
    made = up("a")
    assert made.handle(Exited("a", 1, "exit 1"), 1)[0] == Report("root", "child_terminated", "exit 1", "a", 1)


def test_event_of_an_earlier_run_is_ignored() -> None:
    made = up("a")
    made.handle(Exited("a", 1, "exit 1"), 1)
    assert made.handle(Exited("a", 1, "exit 1"), 1) == []
    assert made.handle(Ready("a", 1), 1) == []
    assert made.standings()[0].state is ChildState.STARTING


def test_event_about_an_unknown_child_is_ignored() -> None:
    assert up("a").handle(Exited("z", 9, "exit 1"), 1) == []


def test_restart_over_the_intensity_stops_all_and_goes_down() -> None:
    made = up("a", "b", intensity=1, period_s=5)
    assert orders(made.handle(Exited("a", 1, "exit 1"), 1)) == [Start("a", 3)]
    made.handle(Ready("a", 3), 1)
    out = made.handle(Exited("b", 2, "exit 1"), 2)
    assert out[1:] == [
        Report("root", "shutdown", "reached_max_restart_intensity", "b", 2),
        Stop("a", 3, 5000),
    ]
    assert made.handle(Exited("a", 3, "stopped", Ending.SHUTDOWN), 2) == [Down("reached_max_restart_intensity")]


def test_failed_restart_counts_as_another_restart() -> None:
    made = up("a", intensity=2, period_s=5)
    assert orders(made.handle(Exited("a", 1, "exit 1"), 1)) == [Start("a", 2)]
    assert orders(made.handle(StartFailed("a", 2, "exit 1"), 1)) == [Start("a", 3)]
    assert orders(made.handle(StartFailed("a", 3, "exit 1"), 1)) == [Down("reached_max_restart_intensity")]


def test_first_start_that_fails_rolls_back_the_elders() -> None:
    made = machine("a", "b", "c")
    made.handle(Boot(), 0)
    made.handle(Ready("a", 1), 0)
    assert orders(made.handle(StartFailed("b", 2, "exit 1"), 0)) == [Stop("a", 1, 5000)]
    assert made.handle(Exited("a", 1, "stopped", Ending.SHUTDOWN), 0) == [Down("failed to start child b: exit 1")]


def test_elder_that_dies_during_the_ordered_start_is_restarted_beside_it() -> None:
    made = machine("a", "b", eager=True, shutdown=100)
    made.handle(Boot(), 0)
    made.handle(Ready("a", 1), 0)
    assert orders(made.handle(Exited("a", 1, "exit 1"), 0)) == [Start("a", 3)]
    assert made.handle(Ready("b", 2), 0) == [Up()]


def test_first_crash_restarts_at_once_and_the_next_ones_back_off() -> None:
    made = patient("a", intensity=10)
    boot(made)
    assert orders(made.handle(Exited("a", 1, "killed"), 10)) == [Start("a", 2)]
    assert orders(made.handle(StartFailed("a", 2, "exit 1"), 10)) == [SetTimer(("restart", "a", 2), 0.1)]
    assert made.handle(Timer(("restart", "a", 2)), 10.1) == [Start("a", 3)]
    assert orders(made.handle(StartFailed("a", 3, "exit 1"), 10.2)) == [SetTimer(("restart", "a", 3), 0.2)]


def test_child_that_had_settled_restarts_at_once_again() -> None:
    made = patient("a", intensity=10)
    boot(made)
    for run in range(1, 6):
        now = run * 4.0
        assert orders(made.handle(Exited("a", run, "killed"), now)) == [Start("a", run + 1)]
        made.handle(Ready("a", run + 1), now)


def test_child_over_its_intensity_is_retried_slowly_while_siblings_live_on() -> None:
    made = patient("a", "b", intensity=1)
    boot(made)
    made.handle(Exited("a", 1, "exit 1"), 10)
    out = made.handle(StartFailed("a", 3, "exit 1"), 10)
    assert orders(out) == [SetTimer(("restart", "a", 3), 5.0)]
    assert Report("root", "slow_retry", "reached_max_restart_intensity", "a", 3) in out
    assert [(s.state, s.slow) for s in made.standings()] == [(ChildState.BACKOFF, True), (ChildState.READY, False)]
    assert orders(made.handle(Exited("b", 2, "killed"), 11)) == [Start("b", 4)]


def test_slow_retry_grows_to_a_minute() -> None:
    made = patient("a", intensity=0)
    made.handle(Boot(), 0)
    delays, now = [], 0.0
    for run in range(1, 7):
        timers = orders(made.handle(StartFailed("a", run, "exit 1"), now))
        assert isinstance(timers[0], SetTimer) or run == 1
        timer = next(c for c in timers if isinstance(c, SetTimer))
        delays.append(timer.after_s)
        now += timer.after_s
        made.handle(Timer(timer.key), now)
    assert delays == [5, 10, 20, 40, 60, 60]


def test_ordered_start_goes_on_without_a_child_in_slow_retry() -> None:
    made = patient("a", "b", intensity=0)
    made.handle(Boot(), 0)
    assert orders(made.handle(StartFailed("a", 1, "exit 1"), 0)) == [SetTimer(("restart", "a", 1), 5.0), Start("b", 2)]
    assert made.handle(Ready("b", 2), 0) == [Up()]
    assert made.handle(Timer(("restart", "a", 1)), 5) == [Start("a", 3)]


def test_halt_during_backoff_starts_nothing_when_the_timer_runs_out() -> None:
    made = patient("a", intensity=0)
    made.handle(Boot(), 0)
    made.handle(StartFailed("a", 1, "exit 1"), 0)
    assert made.handle(Halt(), 1) == [Down("shutdown")]
    assert made.handle(Timer(("restart", "a", 1)), 5) == []
    assert made.phase is Phase.DOWN
