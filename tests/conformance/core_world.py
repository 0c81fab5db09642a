"""The world of the pure core: no process, no time; children are pretended, one effect after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from supervisor.events import Ending, Event, Exited, Ignored, Ready, Start, StartFailed, Stop
from tests.conformance.generate import SHORT_MS
from tests.conformance.rig import Rig
from tests.conformance.trace import Life

__all__ = ["CoreWorld"]

MANNERS = {"prompt": Ending.SHUTDOWN, "rude": Ending.ABNORMAL, "plain": Ending.NORMAL, "slow": Ending.SHUTDOWN}
REASONS = {
    "crash": Ending.ABNORMAL,
    "kill": Ending.KILLED,
    "normal": Ending.NORMAL,
    "shutdown": Ending.SHUTDOWN,
    "{shutdown}": Ending.SHUTDOWN_WITH,
}


class CoreWorld:
    """Effects in order of their causes; budgets run out when nothing else happens any more."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._effects: deque[Callable[[], None]] = deque()
        self._timers: deque[Callable[[], None]] = deque()
        self._now = 0.0

    def begin(self, life: Life, command: Start) -> None:
        pass

    def grant(self, life: Life) -> None:
        outcomes: dict[str, Event] = {
            "ok": Ready(life.id, life.run),
            "error": StartFailed(life.id, life.run, "boom"),
            "ignore": Ignored(life.id, life.run),
        }
        self._later(life, outcomes[life.outcome])

    def stop(self, life: Life, command: Stop) -> None:
        if life.state == "aborted":
            self._later(life, StartFailed(life.id, life.run, "aborted"))
        elif command.shutdown == "brutal_kill":
            self._end(life, Ending.KILLED)
        elif life.state != "stopping":
            self._end(life, MANNERS[life.manner])
        elif command.shutdown == SHORT_MS:
            self._timers.append(lambda: self._end(life, Ending.KILLED))

    def let_go(self, life: Life) -> None:
        self._end(life, MANNERS[life.manner])

    def die(self, life: Life, reason: str) -> None:
        self._end(life, REASONS[reason])

    async def settle(self) -> None:
        while self._effects or self._timers:
            (self._effects or self._timers).popleft()()

    def skip(self, seconds: float) -> None:
        self._now += seconds

    def now(self) -> float:
        return self._now

    def timer(self, after_s: float, fire: Callable[[], None]) -> None:
        self._timers.append(fire)

    def _end(self, life: Life, ending: Ending) -> None:
        self._later(life, Exited(life.id, life.run, ending.value, ending))

    def _later(self, life: Life, event: Event) -> None:
        def happen() -> None:
            if life.run in self._rig.lives:
                self._rig.feed(event)

        self._effects.append(happen)
