"""What goes into the supervision core and what comes out of it.

``run`` numbers the incarnations of all children of a tree (rising, never reused), so that an event about a child that
has been replaced meanwhile can be told apart and is ignored. A runner owes every ``Start`` exactly one end: after it
either ``StartFailed``, or ``Ready`` and later ``Exited``; and it sends them only when nothing of that run is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.spec import Shutdown

__all__ = [
    "Boot",
    "Command",
    "Down",
    "Event",
    "Exited",
    "GiveUp",
    "Halt",
    "Ready",
    "Report",
    "SetTimer",
    "Start",
    "StartFailed",
    "Stop",
    "Timer",
    "TimerKey",
    "Up",
]

TimerKey = tuple[str, str, int]
"""Purpose, child id, run."""


@dataclass(frozen=True, slots=True)
class Boot:
    """Start the children in order, each after its elder is ready."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the children in reverse order, each after the younger one is gone."""

    kill: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The child serves."""

    id: str
    run: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The child could not be started, or ended before it was ready."""

    id: str
    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A child that had been ready is gone."""

    id: str
    run: int
    reason: str
    normal: bool = False


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that was set has run out."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class Start:
    """Start this child."""

    id: str
    run: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop this child within its shutdown budget."""

    id: str
    run: int
    shutdown: Shutdown


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send ``Timer(key)`` after so many seconds. Timers are never cancelled: a stale one is ignored."""

    key: TimerKey
    after_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """A crash report as in OTP: who saw what happen to whom, and why."""

    supervisor: str
    context: str
    reason: str
    offender: str
    run: int


@dataclass(frozen=True, slots=True)
class Up:
    """The ordered start is through."""


@dataclass(frozen=True, slots=True)
class Down:
    """Everything has been stopped; nothing is left of this supervisor."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An essential child did not come back in time: end the whole program, so that systemd starts it afresh."""

    reason: str


Event = Boot | Halt | Ready | StartFailed | Exited | Timer
Command = Start | Stop | SetTimer | Report | Up | Down | GiveUp
