"""What the notifier's actor is told and asked inside its process. Frozen; no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from actors.knobs import Notifications
from actors.notifier.delivery import Delivery
from actors.notifier.requests import Raise
from actors.notifier.step import Decision
from actors.notifier.switchboard import Switchboard

__all__ = ["Inspect", "Inspected", "Load", "NotRecorded", "Offer", "Ping", "Reconfigure", "Recorded"]


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


@dataclass(frozen=True)
class Ping:
    """Ask: proves that the mailbox is being drained."""


@dataclass(frozen=True)
class Load:
    """Tell: take over what the store holds."""


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
