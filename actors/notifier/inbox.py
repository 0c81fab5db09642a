"""What the notifier's actor is told and asked inside its process. Frozen; no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.knobs import Notifications
from actors.messages import Severity
from actors.notifier.announcer import Announcer
from actors.notifier.delivery import Delivery
from actors.notifier.memory import NotifierState
from actors.notifier.mute import Silence
from actors.notifier.requests import Raise
from actors.notifier.step import Decision, Digest
from actors.notifier.switchboard import Switchboard

__all__ = [
    "DigestDone",
    "Inspect",
    "Inspected",
    "Load",
    "Look",
    "NotRecorded",
    "Offer",
    "Ping",
    "Reconfigure",
    "Recorded",
    "Send",
    "Silenced",
    "TakenOn",
]


@dataclass(frozen=True)
class Offer:
    """Ask: take this alert event; the answer comes after its commit (or raises Refused)."""

    raised: Raise


@dataclass(frozen=True)
class Reconfigure:
    """Tell: use these settings from now on."""

    settings: Notifications


@dataclass(frozen=True)
class Inspect:
    """Ask: answered with ``Inspected``."""


@dataclass(frozen=True)
class Inspected:
    """What only the actor knows of its state."""

    alerts_open: int
    repeats: int
    degraded: str
    switchboard: Switchboard
    state: NotifierState
    announcer: Announcer
    degraded_now: Callable[[], str]


@dataclass(frozen=True)
class Ping:
    """Ask: proves that the mailbox is being drained."""


@dataclass(frozen=True)
class Load:
    """Tell: take over what the store holds."""


@dataclass(frozen=True)
class Look:
    """Tell: judge again what is due; with ``everything`` all that is known as open or held back."""

    everything: bool = False


@dataclass(frozen=True)
class Recorded:
    """Tell: a commit was made; these deliveries are owed."""

    decision: Decision
    deliveries: list[Delivery]


@dataclass(frozen=True)
class NotRecorded:
    """Tell: a commit failed, or nobody knows."""

    decision: Decision
    error: Exception


@dataclass(frozen=True)
class DigestDone:
    """Tell: the commit of a digest ended; ``delivery`` is None when it failed."""

    digest: Digest
    delivery: Delivery | None


@dataclass(frozen=True)
class Silenced:
    """Tell: this silence is in the store; it ended already when its ``until`` has passed."""

    silence: Silence


@dataclass(frozen=True)
class TakenOn:
    """Tell: an alert was acknowledged; these deliveries say so."""

    key: str
    severity: Severity
    opened_at: float
    deliveries: list[Delivery]


@dataclass(frozen=True)
class Send:
    """Ask: send this to its channel; answered with its end."""

    delivery: Delivery
