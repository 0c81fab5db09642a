"""Rows as the reader returns them: one type a table, its fields are the columns in order. JSON columns stay text."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "AlertLogRecord",
    "AlertRecord",
    "AuditRecord",
    "ConversationRecord",
    "CrashRecord",
    "DeliveryRecord",
    "EventRecord",
    "OutboxRecord",
    "QuarantineRecord",
    "SensorRecord",
    "SettingsRecord",
    "TransitionRecord",
    "TreeListing",
    "TreeRecord",
]


class TreeListing(NamedTuple):
    """A tree without its snapshot: what lists and admission need."""

    id: str
    rev: int
    seq: int
    verdict: str
    reason: str
    status: str
    mode: str | None
    stage: str
    summary: str
    created_at: float
    last_event_at: float
    touched_at: float
    next_wakeup: float | None


class TreeRecord(NamedTuple):
    """A whole tree; ``merged_into`` names the tree that took it over."""

    id: str
    rev: int
    seq: int
    verdict: str
    reason: str
    status: str
    mode: str | None
    stage: str
    summary: str
    snapshot_seq: int
    snapshot: str | None
    merged_into: str | None
    created_at: float
    last_event_at: float
    touched_at: float
    next_wakeup: float | None


class ConversationRecord(NamedTuple):
    id: str
    tree: str
    parent: str | None
    agent: str | None
    created_at: float


class EventRecord(NamedTuple):
    tree: str
    seq: int
    conversation: str
    event_id: str | None
    t: float
    received_at: float
    body: str


class TransitionRecord(NamedTuple):
    tree: str
    n: int
    seq: int
    conversation: str
    t: float
    before: str
    after: str
    reason: str
    tree_verdict: str
    evidence: str


class QuarantineRecord(NamedTuple):
    id: int
    tree: str
    conversation: str
    event_id: str | None
    body: str
    error: str
    at: float


class OutboxRecord(NamedTuple):
    id: int
    tree: str
    kind: str
    target: str
    one_shot: int
    state: str
    body: str
    created_at: float


class AlertRecord(NamedTuple):
    key: str
    severity: str
    state: str
    title: str
    summary: str
    details: str
    source: str
    opened_at: float
    changed_at: float
    last_effect: int


class AlertLogRecord(NamedTuple):
    id: int
    key: str
    severity: str
    state: str
    title: str
    summary: str
    source: str
    at: float
    effect_id: int | None


class DeliveryRecord(NamedTuple):
    id: int
    alert_log_id: int
    key: str
    channel: str
    action: str
    state: str
    attempts: int
    next_at: float
    error: str | None
    at: float


class SettingsRecord(NamedTuple):
    version: int
    overrides: str
    by_uid: int
    note: str
    at: float


class CrashRecord(NamedTuple):
    id: int
    life: float
    n: int
    at: float
    supervisor: str
    context: str
    reason: str
    offender: str
    pid: int | None
    log: str


class AuditRecord(NamedTuple):
    id: int
    at: float
    uid: int
    action: str
    detail: str


class SensorRecord(NamedTuple):
    source: str
    version: str
    seen_at: float
