"""Supervised actors: what ends one, what that means for it and for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar

import pykka
import pytest
import uvloop

from supervisor.actor_runner import ActorSupervisor, SupervisorDown
from supervisor.dispatcher import ActorCrashed, LoopActor, ask, drop, monitor
from supervisor.events import Report
from supervisor.leaving import Leave, NothingToDo
from supervisor.requests import (
    CountChildren,
    Counts,
    Done,
    No,
    Refusal,
    StartChild,
    StartDynamic,
    TerminateChild,
)
from supervisor.spec import ChildSpec, Restart, Strategy, SupervisorSpec


class Worker(LoopActor):
    """Raises what it is told, answers everything else."""

    log: ClassVar[list[str]] = []
    failing: ClassVar[set[str]] = set()
    hangs: ClassVar[set[str]] = set()

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def on_start(self) -> None:
        if self.name in self.failing:
            raise OSError(f"{self.name} cannot")
        if self.name == "idle":
            raise NothingToDo
        self.log.append(f"start {self.name}")

    def on_stop(self) -> None:
        self.log.append(f"stop {self.name}")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return self.name

    async def wind_down(self) -> None:
        if self.name in self.hangs:
            await asyncio.Event().wait()
        self.log.append(f"wind down {self.name}")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Worker.log.clear()
    Worker.failing = set()
    Worker.hangs = set()


def run(case: Coroutine[Any, Any, Any]) -> Any:
    """On the loop that children run on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(case)


def worker(name: str, **spec: Any) -> ChildSpec:
    return ChildSpec(name, f"{__name__}:Worker", args={"name": name}, **spec)


def tree(*children: ChildSpec, reports: list[Report] | None = None, **flags: Any) -> ActorSupervisor:
    said = reports if reports is not None else []
    return ActorSupervisor(SupervisorSpec(children=children, **flags), on_report=said.append)


async def until_replaced(supervisor: ActorSupervisor, name: str, old: Any) -> Any:
    async with asyncio.timeout(5):
        while supervisor.ref(name) in (None, old):
            await asyncio.sleep(0)
    return supervisor.ref(name)


def test_children_start_in_order_and_stop_in_reverse_after_winding_down() -> None:
    async def case() -> None:
        supervisor = tree(worker("a"), worker("b"))
        await supervisor.start()
        await supervisor.stop()

    run(case())
    assert Worker.log == ["start a", "start b", "wind down b", "stop b", "wind down a", "stop a"]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt()])
def test_crash_in_ask_is_known_at_once_and_restarts_that_actor_alone(error: BaseException) -> None:
    async def case() -> None:
        reports: list[Report] = []
        supervisor = tree(worker("a"), worker("b"), reports=reports)
        await supervisor.start()
        victim, bystander = supervisor.ref("a"), supervisor.ref("b")
        with pytest.raises((ValueError, ActorCrashed)):
            await ask(victim, error)
        fresh = await until_replaced(supervisor, "a", victim)
        assert await ask(fresh, "hello") == "a"
        assert supervisor.ref("b") is bystander
        assert await ask(bystander, "hello") == "b"
        assert [(r.context, r.offender) for r in reports] == [("child_terminated", "a")]
        await supervisor.stop()

    run(case())


def test_crash_in_tell_restarts_the_actor() -> None:
    async def case() -> None:
        supervisor = tree(worker("a"))
        await supervisor.start()
        victim = supervisor.ref("a")
        victim.tell(ValueError("x"))
        await until_replaced(supervisor, "a", victim)
        await supervisor.stop()

    run(case())


def test_failing_on_start_is_a_start_failure_that_rolls_back() -> None:
    async def case() -> str:
        Worker.failing = {"b"}
        supervisor = tree(worker("a"), worker("b"))
        with pytest.raises(SupervisorDown) as caught:
            await supervisor.start()
        return str(caught.value)

    assert run(case()) == "failed to start child b: Worker: b cannot"
    assert Worker.log == ["start a", "wind down a", "stop a"]


def test_actor_with_nothing_to_do_is_no_failure() -> None:
    async def case() -> Any:
        supervisor = tree(worker("idle"), worker("b"))
        await supervisor.start()
        counts = await supervisor.call(CountChildren())
        await supervisor.stop()
        return counts

    assert run(case()) == Counts(specs=2, active=1, supervisors=0, workers=2)


def test_leave_is_clean_for_a_transient_actor() -> None:
    async def case() -> Any:
        reports: list[Report] = []
        supervisor = tree(worker("a", restart=Restart.TRANSIENT), reports=reports)
        await supervisor.start()
        await ask(supervisor.ref("a"), Leave("all is said"))
        async with asyncio.timeout(5):
            while await supervisor.call(CountChildren()) != Counts(specs=1, active=0, supervisors=0, workers=1):
                await asyncio.sleep(0)
        await supervisor.stop()
        return reports

    assert run(case()) == []


def test_restarts_over_the_intensity_end_the_supervisor() -> None:
    async def case() -> str:
        supervisor = tree(worker("a"), worker("b"), intensity=0)
        await supervisor.start()
        supervisor.ref("a").tell(ValueError("x"))
        return (await supervisor.down).reason

    assert run(case()) == "reached_max_restart_intensity"
    assert Worker.log[-1] == "stop b"


def test_actor_that_does_not_wind_down_in_its_budget_is_dropped() -> None:
    async def case() -> list[Report]:
        Worker.hangs = {"a"}
        reports: list[Report] = []
        supervisor = tree(worker("a", shutdown=10), reports=reports)
        await supervisor.start()
        await supervisor.stop()
        return reports

    assert [report.context for report in run(case())] == ["shutdown_error"]
    assert Worker.log == ["start a"]
    assert pykka.ActorRegistry.get_by_class(Worker) == []


def test_one_for_all_restarts_the_siblings_too() -> None:
    async def case() -> None:
        supervisor = tree(worker("a"), worker("b"), strategy=Strategy.ONE_FOR_ALL)
        await supervisor.start()
        victim, sibling = supervisor.ref("b"), supervisor.ref("a")
        victim.tell(ValueError("x"))
        await until_replaced(supervisor, "b", victim)
        assert supervisor.ref("a") is not sibling
        await supervisor.stop()

    run(case())


def test_dynamic_children_come_and_go_up_to_the_limit() -> None:
    async def case() -> None:
        supervisor = tree(worker("t", restart=Restart.TEMPORARY), strategy=Strategy.DYNAMIC, max_children=2)
        await supervisor.start()
        first = await supervisor.call(StartDynamic({"name": "x"}))
        second = await supervisor.call(StartDynamic({"name": "y"}))
        assert isinstance(first, Done)
        assert isinstance(second, Done)
        assert await supervisor.call(StartDynamic({"name": "z"})) == No(Refusal.MAX_CHILDREN, "2")
        assert await ask(supervisor.ref(str(second.id)), "hello") == "y"
        assert await supervisor.call(TerminateChild(str(first.id))) == Done()
        assert await supervisor.call(CountChildren()) == Counts(specs=1, active=1, supervisors=0, workers=1)
        await supervisor.stop()

    run(case())


def test_child_added_later_is_supervised() -> None:
    async def case() -> None:
        supervisor = tree(worker("a"))
        await supervisor.start()
        assert isinstance(await supervisor.call(StartChild(worker("b"))), Done)
        victim = supervisor.ref("b")
        victim.tell(ValueError("x"))
        await until_replaced(supervisor, "b", victim)
        await supervisor.stop()

    run(case())


def test_monitor_of_a_dead_actor_tells_at_once() -> None:
    async def case() -> list[Any]:
        ref = Worker.start("a")
        error = ValueError("x")
        with pytest.raises(ValueError, match="x"):
            await ask(ref, error)
        await asyncio.sleep(0)
        told: list[Any] = []
        monitor(ref, told.append)
        return [told == [error]]

    assert run(case()) == [True]


def test_dropped_actor_fails_what_waits_in_its_mailbox_and_runs_no_on_stop() -> None:
    async def case() -> None:
        ref = Worker.start("a")
        waiting = ref.ask("queued", block=False)
        drop(ref)
        with pytest.raises(pykka.ActorDeadError):
            await waiting

    run(case())
    assert Worker.log == ["start a"]
