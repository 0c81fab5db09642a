"""Rows of the store as alerts and deliveries, and back. Pure.

An attempt that is made without idempotency is written into the row's ``error`` first: ``in flight N`` or ``waiting N``,
N being the attempts before it of which nobody knows whether they arrived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.route import Told, Why
from actors.store.records import AlertLogRecord, AlertRecord, DeliveryRecord

__all__ = [
    "ALERT_COLUMNS",
    "Resumed",
    "alert_of",
    "alert_row",
    "delivery_of",
    "delivery_row",
    "log_row",
    "settled_row",
    "told_of",
]

ALERT_COLUMNS = frozenset(AlertRecord._fields)
_LOGGED = ("key", "severity", "state", "title", "summary", "source")
_DOUBT = re.compile(r"(in flight|waiting) (\d+)")


@dataclass
class Resumed:
    """What the store knows of some keys. ``shown``: what a channel really has; ``told``: what was sent its way."""

    alerts: list[Alert] = field(default_factory=list)
    told: dict[str, dict[str, Told]] = field(default_factory=dict)
    shown: dict[str, set[str]] = field(default_factory=dict)
    pending: list[Delivery] = field(default_factory=list)
    acknowledged: dict[str, Severity] = field(default_factory=dict)


def alert_of(row: AlertRecord, change: int) -> Alert:
    return Alert(**row._asdict() | {"details": json.loads(row.details), "change": change})


def alert_row(alert: Alert) -> dict[str, Any]:
    row = alert.model_dump(mode="json", include=set(ALERT_COLUMNS))
    return row | {"details": json.dumps(alert.details)}


def log_row(alert: Alert, at: float, effect_id: int | None) -> dict[str, Any]:
    return alert.model_dump(mode="json", include=set(_LOGGED)) | {"at": at, "effect_id": effect_id}


def delivery_row(
    alert: Alert, channel: str, action: AlertState, at: float, *, log_id: int | None = None, why: str = ""
) -> dict[str, Any]:
    """Build a row that is owed, or, with ``why``, one that says why nothing is."""
    return {
        "alert_log_id": log_id,
        "key": alert.key,
        "channel": channel,
        "action": action.value,
        "state": "suppressed" if why else "pending",
        "attempts": 0,
        "next_at": at,
        "error": why or None,
        "at": at,
    }


def settled_row(settled: Settled) -> dict[str, Any]:
    text = f"{settled.reason}: {settled.detail}" if settled.detail else settled.reason
    return {
        "id": settled.delivery.id,
        "state": settled.state,
        "attempts": settled.attempts,
        "next_at": settled.at,
        "error": text if settled.reason else None,
        "at": settled.at,
    }


def delivery_of(row: DeliveryRecord, log: AlertLogRecord, newest: Alert | None) -> Delivery:
    """Rebuild what is owed: the alert as it was then; details and opening are the newest known."""
    fields: dict[str, Any] = {"details": {}, "opened_at": log.at, "last_effect": log.effect_id or UNRECORDED}
    if newest is not None:
        fields = newest.model_dump()
    alert = Alert(
        **fields
        | {
            "key": log.key,
            "severity": Severity(log.severity),
            "state": AlertState(row.action),
            "title": log.title,
            "summary": log.summary,
            "source": log.source,
            "changed_at": log.at,
            "change": log.effect_id or UNRECORDED,
            "serial": row.id,
        }
    )
    return Delivery(
        id=row.id,
        effect_id=log.effect_id or UNRECORDED,
        channel=row.channel,
        alert=alert,
        created_at=log.at,
        attempts=row.attempts,
        doubts=_doubts(row.error),
    )


def told_of(rows: list[DeliveryRecord], logs: Mapping[int, AlertLogRecord]) -> tuple[dict[str, Told], set[str]]:
    """Return what each channel was told last, and the channels that show the alert; ``rows`` newest first."""
    told: dict[str, Told] = {}
    last_shown: dict[str, str] = {}
    settled: set[str] = set()
    for row in rows:
        log = logs.get(row.alert_log_id)
        if row.state == "delivered" or row.error == Why.IN_DIGEST:
            last_shown.setdefault(row.channel, row.action)
        if row.channel in settled or log is None or row.action == AlertState.ACKNOWLEDGE:
            continue
        if row.error == Why.RESOLVE_MESSAGES_OFF:
            settled.add(row.channel)
        elif row.state != "suppressed" or row.error == Why.IN_DIGEST:
            settled.add(row.channel)
            told[row.channel] = Told(
                state=AlertState(row.action), severity=Severity(log.severity), change=log.effect_id or UNRECORDED
            )
    return told, {channel for channel, action in last_shown.items() if action != AlertState.RESOLVE}


def _doubts(said: str | None) -> int:
    found = _DOUBT.fullmatch(said or "")
    return 0 if found is None else int(found[2]) + (found[1] == "in flight")
