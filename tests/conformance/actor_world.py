"""The world of actors: the actor runner, with pykka actors on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import traceback
from dataclasses import replace
from typing import Any

import uvloop
from pykka import ActorDeadError

from supervisor.actor_runner import Actors
from supervisor.dispatcher import LoopActor, ask, drop
from supervisor.events import Ending, Start, StartFailed, Stop
from supervisor.leaving import Leave, NothingToDo
from tests.conformance.generate import scenario
from tests.conformance.moving import MovingWorld
from tests.conformance.rig import Rig
from tests.conformance.trace import Life

__all__ = ["ActorWorld", "Worker", "actor_traces"]

SHORT_MS = 80
"""Budget that runs out."""

_LEAVES = {
    "normal": Ending.NORMAL,
    "shutdown": Ending.SHUTDOWN,
    "{shutdown}": Ending.SHUTDOWN_WITH,
}


class ActorWorld(MovingWorld):
    """Runs workers as actors. An actor is up when on_start has returned, so the gate is in front of its start."""

    on_stage: tuple[ActorWorld, Life]

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self._actors = Actors(self.emit)
        self._starts: dict[int, Start] = {}
        self._ways = itertools.count()
        self._asks: set[asyncio.Task[None]] = set()

    def begin(self, life: Life, command: Start) -> None:
        assert command.spec is not None
        spec = replace(command.spec, start=f"{__name__}:Worker")
        self._starts[life.run] = replace(command, spec=spec)

    def grant(self, life: Life) -> None:
        self.move(life)
        ActorWorld.on_stage = (self, life)
        self._actors.start(self._starts.pop(life.run))

    def stop(self, life: Life, command: Stop) -> None:
        self.move(life)
        if life.state == "aborted":
            del self._starts[life.run]
            self.loop.call_soon(self.emit, StartFailed(life.id, life.run, "aborted"))
            return
        if life.state == "stopping":
            self.close_gate(life)
        self._actors.stop(command)

    def let_go(self, life: Life) -> None:
        self.move(life)
        self.open_gate(life.run)

    def die(self, life: Life, reason: str) -> None:
        self.move(life)
        ref = self._actors.ref(life.id)
        assert ref is not None
        if reason == "kill":
            drop(ref)
        elif next(self._ways) % 2:
            ref.tell(reason)
        else:
            self._asks.add(task := self.loop.create_task(_ask(ref, reason)))
            task.add_done_callback(self._asks.discard)

    def at_gate(self, life: Life) -> asyncio.Future[None]:
        """Tell that the actor waits; return what it waits for."""
        if life.shutdown != SHORT_MS:
            self.rest(life.run)
        return self.gates[life.run]


class Worker(LoopActor):
    """Dies as it is told, and stops in its manner."""

    def __init__(self, traits: dict[str, Any], k: int = 0) -> None:
        super().__init__()
        self._world, self._life = ActorWorld.on_stage

    def on_start(self) -> None:
        if self._life.outcome == "error":
            raise SystemExit("boom") if self._life.run % 2 else RuntimeError("boom")
        if self._life.outcome == "ignore":
            raise NothingToDo

    def on_receive(self, message: str) -> None:
        if message in _LEAVES:
            raise Leave("on purpose", _LEAVES[message])
        raise SystemExit(3) if self._life.run % 2 else RuntimeError("crash")

    async def wind_down(self) -> None:
        manner = self._life.manner
        if manner == "rude":
            raise RuntimeError("crash")
        if manner == "plain":
            raise Leave("", Ending.NORMAL)
        if manner == "slow":
            await asyncio.shield(self._world.at_gate(self._life))
        if manner == "stubborn":
            self._world.at_gate(self._life)
            await asyncio.Event().wait()


async def _ask(ref: Any, reason: str) -> None:
    with contextlib.suppress(RuntimeError, ActorDeadError):
        await ask(ref, reason)


def actor_traces(wanted: list[int]) -> dict[int, list[str]]:
    """Run scenarios with actors."""
    logging.getLogger("pykka").disabled = True  # every crash of an actor is an error there
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return {seed: runner.run(_trace(seed)) for seed in wanted}


async def _trace(seed: int) -> list[str]:
    try:
        return await Rig(scenario(seed, SHORT_MS), ActorWorld).run()
    except Exception:  # noqa: BLE001 - a crash of ours is a difference like any other
        return traceback.format_exc().splitlines()
