"""Rows that fit the statements of the journal."""

from __future__ import annotations

from typing import Any

from actors.store.group import Checked
from actors.store.journal import check
from actors.store.requests import Write

TREE: dict[str, Any] = {
    "id": "t1", "rev": 1, "seq": 0, "verdict": "ok", "reason": "none", "status": "active", "mode": None,
    "stage": "none", "summary": "{}", "snapshot_seq": 0, "snapshot": None, "merged_into": None,
    "created_at": 1.0, "last_event_at": 1.0, "touched_at": 1.0, "next_wakeup": None,
}  # fmt: skip

EVENT: dict[str, Any] = {
    "tree": "t1", "seq": 1, "conversation": "t1", "event_id": "e1", "t": 1.0, "received_at": 2.0, "body": "{}",
}  # fmt: skip

TRANSITION: dict[str, Any] = {
    "tree": "t1", "n": 1, "seq": 1, "conversation": "t1", "t": 1.0, "before": "ok", "after": "looping",
    "reason": "duplicates", "tree_verdict": "looping", "evidence": "{}",
}  # fmt: skip

OUTBOX: dict[str, Any] = {
    "tree": "t1", "kind": "alert", "target": "notifier", "one_shot": False, "state": "pending", "body": "{}",
    "created_at": 1.0,
}  # fmt: skip

ALERT: dict[str, Any] = {
    "key": "t1", "severity": "warning", "state": "trigger", "title": "t", "summary": "s", "details": "{}",
    "source": "no-progress", "opened_at": 1.0, "changed_at": 1.0, "last_effect": 1,
}  # fmt: skip

ALERT_LOG: dict[str, Any] = {
    "key": "t1", "severity": "warning", "state": "trigger", "title": "t", "summary": "s", "source": "no-progress",
    "at": 1.0, "effect_id": 1,
}  # fmt: skip

DELIVERY: dict[str, Any] = {
    "alert_log_id": None, "key": "t1", "channel": "desktop", "action": "trigger", "state": "pending", "attempts": 0,
    "next_at": 1.0, "error": None, "at": 1.0,
}  # fmt: skip

# One after the other on one database, every statement of the journal succeeds.
EVERY_OP: list[tuple[str, dict[str, Any]]] = [
    ("tree.create", TREE),
    ("tree.save", {k: v for k, v in TREE.items() if k != "created_at"} | {"base_rev": 1, "rev": 2, "seq": 1}),
    ("conversation.save", {"id": "t1", "tree": "t1", "parent": None, "agent": "build", "created_at": 1.0}),
    ("event.add", EVENT),
    ("transition.add", TRANSITION),
    ("quarantine.add", {"tree": "t1", "conversation": "t1", "event_id": "q", "body": "{}", "error": "x", "at": 1}),
    ("outbox.add", OUTBOX),
    ("outbox.claim", {"id": 1}),
    ("outbox.done", {"id": 1}),
    ("alert.save", ALERT),
    ("alert_log.add", ALERT_LOG),
    ("delivery.add", DELIVERY),
    ("delivery.update", {"id": 1, "state": "failed", "attempts": 1, "next_at": 2.0, "error": "no", "at": 2.0}),
    (
        "silence.add",
        {"key": "k", "source": None, "severity": "critical", "until": 9.0, "by_whom": "uid:0", "note": "", "at": 1.0},
    ),
    ("silence.end", {"id": 1, "at": 2.0}),
    ("acknowledgement.save", {"key": "k", "severity": "warning", "opened_at": 1.0, "by_whom": "uid:0", "at": 1.0}),
    (
        "feedback.add",
        {
            "alert_log_id": 1,
            "key": "k",
            "says": "wrong",
            "evidence": "{}",
            "note": "",
            "by_whom": "uid:0",
            "via": "cli",
            "at": 1.0,
        },
    ),
    ("delivery_ref.save", {"channel": "desktop", "key": "k", "ref": "1", "at": 1.0}),
    ("settings.add", {"version": 1, "overrides": "{}", "by_uid": 0, "note": "", "at": 1.0}),
    ("audit.add", {"at": 1.0, "uid": 0, "action": "mode", "detail": "{}"}),
    (
        "crash.add",
        {
            "life": 5.0,
            "n": 1,
            "at": 6.0,
            "supervisor": "root",
            "context": "child_terminated",
            "reason": "signal 9",
            "offender": "edge",
            "pid": 7,
            "log": "[]",
        },
    ),
    ("sensor.seen", {"source": "plugin", "version": "1", "seen_at": 1.0}),
    ("tree.merged", {"id": "t1", "base_rev": 2, "rev": 3, "into": "t0", "touched_at": 2.0}),
    ("conversation.move", {"into": "t0", "other": "t1"}),
    ("event.move", {"into": "t0", "other": "t1", "offset": 10}),
    ("transition.move", {"into": "t0", "other": "t1", "offset": 10, "n_offset": 3}),
    ("outbox.move", {"into": "t0", "other": "t1"}),
    ("quarantine.move", {"into": "t0", "other": "t1"}),
]


def event(seq: int, **changes: Any) -> Write:
    return Write(op="event.add", row=EVENT | {"seq": seq, "event_id": f"e{seq}"} | changes)


def commit(*writes: Write, durable: bool = False) -> Checked:
    return Checked([(write.op, *check(write)) for write in writes], durable)
