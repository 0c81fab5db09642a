"""What goes into the supervision core and what comes out of it.

``run`` numbers the incarnations of all children of a tree (rising, never reused), so that an event about a child that
has been replaced meanwhile can be told apart and is ignored. A runner owes every ``Start`` exactly one end, when
nothing of that run is left: either ``StartFailed``, or ``Ignored``, or ``Ready`` and later ``Exited``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from supervisor.requests import Answer, Request
from supervisor.spec import ChildSpec, Shutdown

__all__ = [
    "Boot",
    "Call",
    "Command",
    "Down",
    "Ending",
    "Event",
    "Exited",
    "Forget",
    "GiveUp",
    "Halt",
    "Ignored",
    "Ready",
    "Reply",
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


class Ending(StrEnum):
    """How a child ended, as far as OTP tells exit reasons apart."""

    NORMAL = "normal"
    SHUTDOWN = "shutdown"
    SHUTDOWN_WITH = "shutdown_with"
    """`{shutdown, Term}`: on purpose, with something to say."""
    KILLED = "killed"
    ABNORMAL = "abnormal"

    @property
    def clean(self) -> bool:
        """True where a transient child stays down."""
        return self in (Ending.NORMAL, Ending.SHUTDOWN, Ending.SHUTDOWN_WITH)


@dataclass(frozen=True, slots=True)
class Boot:
    """Start the children in order, each after its elder is ready."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the children in reverse order, each after the younger one is gone; ``kill``: all at once and by force."""

    kill: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The child serves."""

    id: str
    run: int


@dataclass(frozen=True, slots=True)
class Ignored:
    """The child had nothing to do and is not running; OTP's start function that returns `ignore`."""

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
    ending: Ending = Ending.ABNORMAL


@dataclass(frozen=True, slots=True)
class Call:
    """Somebody asks a supervisor for something; the answer is a ``Reply`` with this ``ref``."""

    ref: int
    supervisor: str
    request: Request


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that was set has run out."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class Start:
    """Start this child."""

    id: str
    run: int
    spec: ChildSpec | None = field(default=None, compare=False, repr=False)


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
class Reply:
    """The answer to a ``Call``."""

    ref: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Forget:
    """The child and its spec are gone for good; a runner may drop what it remembers of this id."""

    id: str


@dataclass(frozen=True, slots=True)
class Up:
    """The ordered start is through."""


@dataclass(frozen=True, slots=True)
class Down:
    """Everything has been stopped; nothing is left of this supervisor."""

    reason: str
    ending: Ending = field(default=Ending.SHUTDOWN, compare=False)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An essential child did not come back in time: end the whole program, so that systemd starts it afresh."""

    reason: str


Event = Boot | Halt | Ready | StartFailed | Ignored | Exited | Timer | Call
Command = Start | Stop | SetTimer | Report | Reply | Forget | Up | Down | GiveUp
