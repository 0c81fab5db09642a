"""One message to one channel, and how it ended. Frozen models shared by lanes, outbox and actor."""

from __future__ import annotations

from typing import Literal

from actors.messages import Frozen
from actors.notifier.alert import Alert

__all__ = ["UNRECORDED", "Delivery", "Settled"]

UNRECORDED = 0


class Delivery(Frozen):
    """``id`` is the row in the store, UNRECORDED while the storage is away. ``alert.state`` is the action.

    ``doubts`` counts the attempts of which nobody knows whether they arrived. ``parts``: the keys that a digest is
    about, and whether each is open. ``created_at``: epoch seconds; retries count from there.
    """

    id: int
    effect_id: int
    channel: str
    alert: Alert
    created_at: float = 0.0
    attempts: int = 0
    doubts: int = 0
    parts: dict[str, bool] = {}


class Settled(Frozen):
    """The end of a delivery. ``reason`` is a token of contract.Failure or route.Why, empty when delivered."""

    delivery: Delivery
    state: Literal["delivered", "failed", "suppressed"]
    reason: str = ""
    detail: str = ""
    attempts: int = 0
    at: float
