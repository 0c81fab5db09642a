"""Every statement that changes the database, by name: the table ``WRITES``. No I/O.

A write names its statement and gives a row: exactly the statement's columns, where the ``optional`` ones may be
left out (NULL). A ``guard`` must change exactly one row, else its whole commit is refused as a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.store.requests import Write

__all__ = ["WRITES", "InvalidWrite", "Statement", "check"]

_SCALARS = (str, int, float, type(None))
_MAX_INTEGER = 2**63 - 1


class InvalidWrite(ValueError):
    """The write names no statement, or its row does not fit the statement."""


@dataclass(frozen=True)
class Statement:
    """One named statement. ``makes_id``: it inserts a row whose integer key the table makes."""

    sql: str
    columns: frozenset[str]
    optional: frozenset[str] = frozenset()
    guard: bool = False
    makes_id: bool = False


def _columns(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Split ``a b c?`` into names and the optional ones among them."""
    words = text.split()
    return tuple(word.rstrip("?") for word in words), frozenset(w[:-1] for w in words if w.endswith("?"))


def _insert(table: str, columns: str, *, makes_id: bool = False, on_conflict: str = "") -> Statement:
    names, optional = _columns(columns)
    places = ", ".join(f":{name}" for name in names)
    sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places}) {on_conflict}"  # noqa: S608 - no data in it
    return Statement(sql.strip(), frozenset(names), optional, makes_id=makes_id)


def _upsert(table: str, key: str, columns: str, *, keep: str = "") -> Statement:
    """Insert, or overwrite all but the key and the columns named in ``keep``."""
    fixed = {key, *keep.split()}
    changed = [f"{name} = excluded.{name}" for name in _columns(columns)[0] if name not in fixed]
    return _insert(table, columns, on_conflict=f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(changed)}")


def _update(sql: str, columns: str, *, guard: bool = True) -> Statement:
    names, optional = _columns(columns)
    return Statement(sql, frozenset(names), optional, guard=guard)


_TREE = "id rev seq verdict reason status mode? stage summary snapshot_seq"
_TREE_TIMES = "created_at last_event_at touched_at next_wakeup?"

WRITES: Mapping[str, Statement] = {
    "tree.create": _insert("trees", f"{_TREE} snapshot? merged_into? {_TREE_TIMES}"),
    # Without a snapshot the old one stays, and with it the number of its event.
    "tree.save": _update(
        "UPDATE trees SET rev = :rev, seq = :seq, verdict = :verdict, reason = :reason, status = :status,"
        " mode = :mode, stage = :stage, summary = :summary, snapshot = coalesce(:snapshot, snapshot),"
        " snapshot_seq = CASE WHEN :snapshot IS NULL THEN snapshot_seq ELSE :snapshot_seq END,"
        " merged_into = :merged_into, last_event_at = :last_event_at, touched_at = :touched_at,"
        " next_wakeup = :next_wakeup WHERE id = :id AND rev = :base_rev",
        "id base_rev rev seq verdict reason status mode stage summary snapshot_seq? snapshot? merged_into?"
        " last_event_at touched_at next_wakeup",
    ),
    "conversation.save": _upsert("conversations", "id", "id tree parent? agent? created_at", keep="created_at"),
    "event.add": _insert("events", "tree seq conversation event_id? t received_at body"),
    "transition.add": _insert("transitions", "tree n seq conversation t before after reason tree_verdict evidence"),
    "quarantine.add": _insert("quarantine", "tree conversation event_id? body error at", makes_id=True),
    "outbox.add": _insert("outbox", "tree kind target one_shot state body created_at", makes_id=True),
    "outbox.claim": _update("UPDATE outbox SET state = 'claimed' WHERE id = :id AND state = 'pending'", "id"),
    # Effects are redone after a crash, so done must be repeatable.
    "outbox.done": _update("UPDATE outbox SET state = 'done' WHERE id = :id", "id"),
    "alert.save": _upsert(
        "alerts", "key", "key severity state title summary details source opened_at changed_at last_effect"
    ),
    "alert_log.add": _insert("alert_log", "key severity state title summary source at effect_id?", makes_id=True),
    # Without alert_log_id: the newest log row of that key, so that one commit can hold the row and its deliveries.
    "delivery.add": Statement(
        "INSERT INTO deliveries (alert_log_id, key, channel, action, state, attempts, next_at, error, at) VALUES"
        " (coalesce(:alert_log_id, (SELECT max(id) FROM alert_log WHERE key = :key)), :key, :channel, :action,"
        " :state, :attempts, :next_at, :error, :at)",
        frozenset({"alert_log_id", "key", "channel", "action", "state", "attempts", "next_at", "error", "at"}),
        frozenset({"alert_log_id", "error"}),
        makes_id=True,
    ),
    "delivery.update": _update(
        "UPDATE deliveries SET state = :state, attempts = :attempts, next_at = :next_at, error = :error,"
        " at = :at WHERE id = :id",
        "id state attempts next_at error? at",
    ),
    # The notifier's own: what operators said of alerts, and what services call what we sent them.
    "silence.add": _insert("silences", "key? source? severity until by_whom note at", makes_id=True),
    "silence.end": _update("UPDATE silences SET until = :at WHERE id = :id AND until > :at", "id at"),
    "acknowledgement.save": _upsert("acknowledgements", "key", "key severity opened_at by_whom at"),
    "feedback.add": _insert("feedback", "alert_log_id key says evidence note by_whom via at", makes_id=True),
    "delivery_ref.save": _insert(
        "delivery_refs",
        "channel key ref at",
        on_conflict="ON CONFLICT (channel, key) DO UPDATE SET ref = excluded.ref, at = excluded.at",
    ),
    # The next version or nothing: two operators cannot both apply on top of the same one.
    "settings.add": _update(
        "INSERT INTO settings_versions (version, overrides, by_uid, note, at)"
        " SELECT :version, :overrides, :by_uid, :note, :at"
        " WHERE :version = (SELECT coalesce(max(version), 0) + 1 FROM settings_versions)",
        "version overrides by_uid note at",
    ),
    "audit.add": _insert("audit", "at uid action detail", makes_id=True),
    # root tells its reports again to a control that was restarted
    "crash.add": _insert(
        "crash_reports",
        "life n at supervisor context reason offender pid? log",
        on_conflict="ON CONFLICT (life, n) DO NOTHING",
    ),
    "sensor.seen": _upsert("sensors", "source", "source version seen_at"),
    # A late parent: tree ``other`` becomes part of ``into``; its numbers continue after those of ``into``.
    "tree.merged": _update(
        "UPDATE trees SET rev = :rev, merged_into = :into, next_wakeup = NULL, touched_at = :touched_at"
        " WHERE id = :id AND rev = :base_rev",
        "id base_rev rev into touched_at",
    ),
    "conversation.move": _update(
        "UPDATE conversations SET tree = :into WHERE tree = :other", "into other", guard=False
    ),
    "event.move": _update(
        "UPDATE events SET tree = :into, seq = seq + :offset WHERE tree = :other",
        "into other offset",
        guard=False,
    ),
    "transition.move": _update(
        "UPDATE transitions SET tree = :into, n = n + :n_offset, seq = seq + :offset WHERE tree = :other",
        "into other offset n_offset",
        guard=False,
    ),
    "outbox.move": _update("UPDATE outbox SET tree = :into WHERE tree = :other", "into other", guard=False),
    "quarantine.move": _update("UPDATE quarantine SET tree = :into WHERE tree = :other", "into other", guard=False),
}


def check(write: Write) -> tuple[Statement, dict[str, Any]]:
    """Return the statement and its complete row. Raises InvalidWrite naming op, column and what is allowed."""
    statement = WRITES.get(write.op)
    if statement is None:
        raise InvalidWrite(f"op {write.op!r} is unknown; allowed are {', '.join(sorted(WRITES))}")
    row = write.row
    if row.keys() != statement.columns:
        row = _completed(write.op, statement, row)
    for name, value in row.items():
        if not isinstance(value, _SCALARS) or (isinstance(value, int) and abs(value) > _MAX_INTEGER):
            raise InvalidWrite(
                f"{write.op}.{name} is {type(value).__name__}; allowed are text, 64-bit int, float, null"
            )
    return statement, row


def _completed(op: str, statement: Statement, row: dict[str, Any]) -> dict[str, Any]:
    missing = statement.columns - row.keys() - statement.optional
    unknown = row.keys() - statement.columns
    if missing or unknown:
        raise InvalidWrite(
            f"{op}: missing {sorted(missing)}, unknown {sorted(unknown)}; allowed are {sorted(statement.columns)}"
        )
    return dict.fromkeys(statement.optional) | row
