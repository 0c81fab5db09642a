"""Life of an alert: how alert events fold into the one current alert of each dedup key. Pure.

An alert is open from its trigger to its resolve. While it is open its severity only rises, so that a channel
that was told "critical" is never left with less; the resolve ends it. Only changes count (P080): an event that
says what is already known is a repeat, however often it comes. Effect ids of one key grow, so an event with an id
that was already folded, or an older one that arrives late, is a duplicate and changes nothing. An info is a notice:
it is told once and never open.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import Any

from actors.messages import AlertEffect, AlertState, Frozen, Severity

__all__ = ["RANK", "Alert", "Outcome", "fold"]

RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


class Outcome(StrEnum):
    """What one alert event did; the first three are transitions, which are recorded and routed."""

    OPENED = "opened"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    REVIEWED = "reviewed"
    REPEATED = "repeated"
    DUPLICATE = "duplicate"
    NOT_OPEN = "not_open"

    @property
    def is_transition(self) -> bool:
        return self in (Outcome.OPENED, Outcome.ESCALATED, Outcome.RESOLVED)


class Alert(Frozen):
    """The current alert of one dedup key (P077). ``opened_at`` and ``changed_at`` are epoch seconds.

    ``last_effect`` is the newest event that was folded, ``change`` the newest that made a difference. ``doubtful``: the
    same message may have arrived before, and has to say so. ``serial``: the row of the message in the store.
    """

    key: str
    severity: Severity
    state: AlertState
    title: str
    summary: str
    details: dict[str, Any] = {}
    source: str
    opened_at: float
    changed_at: float
    last_effect: int
    change: int = 0
    doubtful: bool = False
    serial: int = 0

    @property
    def is_open(self) -> bool:
        return self.state is not AlertState.RESOLVE and self.severity is not Severity.INFO

    @property
    def message_id(self) -> str:
        """Return what names this message, the same however often it is sent: the idempotency key."""
        parts = (self.key, self.state.value, self.change, self.serial)
        return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]

    @property
    def group(self) -> str:
        """The tree that the alert is about: its own key, unless the details name another one."""
        return str(self.details.get("tree") or self.key)


def fold(current: Alert | None, effect_id: int, effect: AlertEffect) -> tuple[Alert, Outcome]:
    """Return the alert of the key after ``effect`` and what the effect did to it."""
    if current is not None and effect_id <= current.last_effect:
        return current, Outcome.DUPLICATE
    if current is None or not current.is_open:
        return _fold_closed(current, effect_id, effect)
    return _fold_open(current, effect_id, effect)


def _fold_closed(current: Alert | None, effect_id: int, effect: AlertEffect) -> tuple[Alert, Outcome]:
    if effect.state is not AlertState.RESOLVE:
        return _alert(effect_id, effect, AlertState.TRIGGER, effect.severity, effect.t), Outcome.OPENED
    if current is None:
        # kept, so that a trigger which this resolve overtook does not open the alert for ever
        return _alert(effect_id, effect, AlertState.RESOLVE, effect.severity, effect.t), Outcome.NOT_OPEN
    return current.model_copy(update={"last_effect": effect_id}), Outcome.NOT_OPEN


def _fold_open(current: Alert, effect_id: int, effect: AlertEffect) -> tuple[Alert, Outcome]:
    if effect.state is AlertState.RESOLVE:
        resolved = _alert(effect_id, effect, AlertState.RESOLVE, current.severity, current.opened_at)
        return resolved, Outcome.RESOLVED
    severity = max(current.severity, effect.severity, key=RANK.__getitem__)
    if severity is current.severity and not _says_more(current, effect):
        return current.model_copy(update={"last_effect": effect_id}), Outcome.REPEATED
    return _alert(effect_id, effect, AlertState.ESCALATE, severity, current.opened_at), Outcome.ESCALATED


def _says_more(current: Alert, effect: AlertEffect) -> bool:
    """A recovery escalates without a higher severity (P139); its words tell it from a repeat."""
    if effect.state is not AlertState.ESCALATE or RANK[effect.severity] < RANK[current.severity]:
        return False
    return (effect.title, effect.summary) != (current.title, current.summary)


def _alert(effect_id: int, effect: AlertEffect, state: AlertState, severity: Severity, opened: float) -> Alert:
    return Alert(
        key=effect.key,
        severity=severity,
        state=state,
        title=effect.title,
        summary=effect.summary,
        details=effect.details,
        source=effect.source,
        opened_at=opened,
        changed_at=effect.t,
        last_effect=effect_id,
        change=effect_id,
    )
