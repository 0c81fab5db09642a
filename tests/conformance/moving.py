"""What the worlds of real processes and of actors have in common: knowing when nothing moves any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from supervisor.events import Event, Exited, Ignored, Ready, StartFailed
from tests.conformance.rig import Rig
from tests.conformance.trace import Life

__all__ = ["MovingWorld"]

_STUCK_S = 30.0


class MovingWorld:
    """Settled when every order has had its effect or its child waits at a gate. Time is real, plus what was skipped."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.loop = asyncio.get_running_loop()
        self.gates: dict[int, asyncio.Future[None]] = {}
        self._moving: set[int] = set()
        self._timers = 0
        self._changed = asyncio.Event()
        self._skipped_s = 0.0

    def move(self, life: Life) -> None:
        """Note that something is about to happen to this run."""
        self._moving.add(life.run)

    def rest(self, run: int) -> None:
        """Note that it has happened, or waits."""
        self._moving.discard(run)
        self._changed.set()

    def close_gate(self, life: Life) -> None:
        """Make a gate, unless one is shut already: a child that is told to stop may be killed on top of it."""
        gate = self.gates.get(life.run)
        if gate is None or gate.done():
            self.gates[life.run] = self.loop.create_future()

    def open_gate(self, run: int) -> None:
        """Open a gate, if there is one."""
        gate = self.gates.get(run)
        if gate is not None and not gate.done():
            gate.set_result(None)

    def emit(self, event: Event) -> None:
        """Take an event of the runner."""
        assert isinstance(event, Ready | StartFailed | Ignored | Exited)
        self.rest(event.run)
        if not isinstance(event, Ready):
            self.open_gate(event.run)  # whoever waits there is gone
        self.rig.feed(event)

    async def settle(self) -> None:
        while self._moving or self._timers:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), _STUCK_S)

    def skip(self, seconds: float) -> None:
        self._skipped_s += seconds

    def now(self) -> float:
        return self.loop.time() + self._skipped_s

    def timer(self, after_s: float, fire: Callable[[], None]) -> None:
        self._timers += 1

        def run_out() -> None:
            self._timers -= 1
            self._changed.set()
            fire()

        self.loop.call_later(after_s, run_out)
