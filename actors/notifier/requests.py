"""What the notifier hears and answers on the bus. Frozen models; no behaviour.

``Raise`` is answered after its commit: an answer means that the alert survives kill -9 and will be delivered, or its
failure recorded. A ``Raise`` without an answer is sent again by its sender; the same ``effect_id`` twice is one alert.
"""

from __future__ import annotations

from actors.messages import AlertEffect, Frozen

__all__ = ["ChannelHealth", "Count", "Health", "NotifierHealth", "Raise", "Raised"]


class Raise(Frozen):
    """Ask: take over one alert event. ``effect_id`` is the id of its outbox row and grows with time."""

    effect_id: int
    alert: AlertEffect


class Raised(Frozen):
    """Answer to ``Raise``: what became of it (opened, escalated, resolved, repeated, duplicate, not_open)."""

    outcome: str = ""


class NotifierHealth(Frozen):
    """Ask: counters and what each channel can do right now; answered with ``Health``."""


class Count(Frozen):
    """Deliveries since the process started, by channel, action, result and reason token."""

    channel: str
    action: str
    result: str
    reason: str = ""
    count: int


class ChannelHealth(Frozen):
    """One configured channel. ``state`` is ok, blind, failing or disabled; ``detail`` is a sentence."""

    name: str
    type: str
    state: str
    detail: str = ""
    queued: int = 0


class Health(Frozen):
    """Answer to ``NotifierHealth``. ``degraded`` is empty while alerts are durable, else says why not."""

    alerts_open: int = 0
    repeats: int = 0
    channels: list[ChannelHealth] = []
    counts: list[Count] = []
    degraded: str = ""
