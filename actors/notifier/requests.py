"""What the notifier hears and answers on the bus. Frozen models; no behaviour.

``Raise`` is answered after its commit: an answer means that the alert survives kill -9 and will be delivered, or its
failure recorded. A ``Raise`` without an answer is sent again by its sender; the same ``effect_id`` twice is one alert.
"""

from __future__ import annotations

from typing import Literal

from actors.messages import AlertEffect, Frozen, Severity

__all__ = [
    "Acknowledge",
    "Acknowledged",
    "ChannelHealth",
    "Count",
    "Explain",
    "Explained",
    "Health",
    "Judged",
    "Mute",
    "Muted",
    "NotifierHealth",
    "Raise",
    "Raised",
    "SayRightOrWrong",
    "TestChannel",
    "Tested",
    "Unmute",
]


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
    """One configured channel. ``state`` is ok, blind, failing, down or disabled; ``detail`` is a sentence."""

    name: str
    type: str
    state: str
    detail: str = ""
    queued: int = 0
    min_severity: str = ""
    held: int = 0


class Health(Frozen):
    """Answer to ``NotifierHealth``. ``degraded`` is empty while alerts are durable, else says why not."""

    alerts_open: int = 0
    repeats: int = 0
    channels: list[ChannelHealth] = []
    counts: list[Count] = []
    degraded: str = ""


class Mute(Frozen):
    """Ask: silence what matches all that is given until ``until`` (epoch seconds); ``severity``: up to this one."""

    key: str | None = None
    source: str | None = None
    severity: Severity = Severity.CRITICAL
    until: float
    by: str
    note: str = ""


class Muted(Frozen):
    """Answer to ``Mute`` and ``Unmute``: the silence's number and how many open alerts it covers."""

    id: int
    covers: int = 0


class Unmute(Frozen):
    """Ask: end a silence now; what it held back is judged at once. RemoteError ``not_found`` for an unknown number."""

    id: int
    by: str


class Acknowledge(Frozen):
    """Ask: somebody has taken the open alert on."""

    key: str
    by: str


class Acknowledged(Frozen):
    """``found`` False: no such alert is open."""

    found: bool
    severity: str = ""


class TestChannel(Frozen):
    """Ask: send a real message to one channel, whatever its routing; logged with source ``test``."""

    __test__ = False

    channel: str
    by: str
    timeout_s: float = 10.0


class Tested(Frozen):
    """Answer to ``TestChannel``. ``state``: delivered, failed, suppressed, or pending when it takes longer."""

    __test__ = False

    found: bool
    state: str = ""
    detail: str = ""
    attempts: int = 0


class Explain(Frozen):
    """Ask: what every channel was told of a key, and what it would get now."""

    key: str


class Explained(Frozen):
    """``channels``: name, told, why, again_s for each channel; ``silences``: the numbers that cover the key."""

    found: bool
    channels: list[dict[str, str | float | None]] = []
    silences: list[int] = []
    acknowledged: str | None = None


class SayRightOrWrong(Frozen):
    """Ask: keep an operator's word on one entry of the alert log, with its evidence."""

    alert_log_id: int
    says: Literal["right", "wrong"]
    note: str = ""
    by: str
    via: str = "cli"


class Judged(Frozen):
    """``found`` False: there is no such entry."""

    found: bool
    id: int = 0
