"""Read the database beside the keeper, from any process.

Blocking, but short: every method is one indexed query (milliseconds at most), read to its end before it returns, so no
read holds back a checkpoint. Each method sees one committed state; two calls may see two. A reader never writes and
creates nothing: while there is no database yet, everything is empty. The connection opens at first use (after the
fork), and again after an error or when the keeper has put a new file in place. Not for use from two threads at once.

Unreadable    the file is there but cannot be read now; a later call tries again
 +-- Damaged  it is no database, or its pages are damaged; the keeper sets such a file aside when it opens it
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import apsw

from actors.store.records import (
    AlertLogRecord,
    AlertRecord,
    AuditRecord,
    ConversationRecord,
    CrashRecord,
    DeliveryRecord,
    EventRecord,
    OutboxRecord,
    QuarantineRecord,
    SensorRecord,
    SettingsRecord,
    TransitionRecord,
    TreeListing,
    TreeRecord,
)

__all__ = ["Damaged", "Reader", "Unreadable"]

_BUSY_TIMEOUT_MS = 1000
_DAMAGED = (apsw.NotADBError, apsw.CorruptError)
_LIVE = "merged_into IS NULL"

R = TypeVar("R", bound=NamedTuple)


class Unreadable(Exception):
    """The database is there but cannot be read now."""


class Damaged(Unreadable):
    """The file is no database any more."""


class Reader:
    """Typed queries on ``path`` (STATE_DIR/treewarden.db). All raise Unreadable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: apsw.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._immutable = False

    def close(self) -> None:
        """Let go of the file; the next query opens it again."""
        if self._connection is not None:
            self._connection.close(force=True)
        self._connection = None

    # trees

    def tree(self, tree: str) -> TreeRecord | None:
        """Return the whole row with its snapshot, merged trees included."""
        return self._one(TreeRecord, "trees", "WHERE id = ?", (tree,))

    def trees(self, *, after: str = "", limit: int = 100, verdict: str | None = None) -> list[TreeListing]:
        """Return a page of unmerged trees in order of id; pass the last id as ``after`` for the next one."""
        if verdict is None:
            return self._many(TreeListing, "trees", f"WHERE id > ? AND {_LIVE} ORDER BY id LIMIT ?", (after, limit))
        tail = f"WHERE verdict = ? AND id > ? AND {_LIVE} ORDER BY id LIMIT ?"
        return self._many(TreeListing, "trees", tail, (verdict, after, limit))

    def newest_trees(self, limit: int = 100) -> list[TreeListing]:
        """Return the unmerged trees that were touched last, newest first."""
        return self._many(TreeListing, "trees", f"WHERE {_LIVE} ORDER BY touched_at DESC LIMIT ?", (limit,))

    def tree_counts_by_verdict(self) -> dict[str, int]:
        """Return the number of unmerged trees per verdict."""
        sql = f"SELECT verdict, count(*) FROM trees WHERE {_LIVE} GROUP BY verdict"  # noqa: S608
        return {str(verdict): int(count) for verdict, count in self._query(sql)}

    def live_trees(
        self, belongs: Callable[[str], bool], *, due_by: float, limit: int = 1000
    ) -> list[tuple[str, float]]:
        """Return (id, next_wakeup) of the trees whose wake-up is due at ``due_by``, soonest first.

        ``belongs(tree_id)`` picks a shard's own; ``limit`` counts after it.
        """
        sql = "SELECT id, next_wakeup FROM trees WHERE next_wakeup <= ? AND merged_into IS NULL ORDER BY next_wakeup"
        return [(tree, at) for tree, at in self._query(sql, (due_by,)) if belongs(tree)][:limit]

    # conversations, events, transitions

    def conversations(self, tree: str) -> list[ConversationRecord]:
        """Return a tree's conversations in order of creation."""
        return self._many(ConversationRecord, "conversations", "WHERE tree = ? ORDER BY created_at, id", (tree,))

    def conversation(self, conversation: str) -> ConversationRecord | None:
        return self._one(ConversationRecord, "conversations", "WHERE id = ?", (conversation,))

    def conversation_tree(self, conversation: str) -> str | None:
        """Return the id of the tree that holds the conversation."""
        found = self.conversation(conversation)
        return None if found is None else found.tree

    def all_conversations(self, limit: int) -> list[ConversationRecord]:
        """Return the newest conversations of all trees, newest first."""
        return self._many(ConversationRecord, "conversations", "ORDER BY created_at DESC LIMIT ?", (limit,))

    def events_after(self, tree: str, seq: int, *, limit: int = -1) -> list[EventRecord]:
        """Return the tree's events after number ``seq`` in order."""
        tail = "WHERE tree = ? AND seq > ? ORDER BY seq LIMIT ?"
        return self._many(EventRecord, "events", tail, (tree, seq, limit))

    def seen_ids(self, conversation: str, ids: Iterable[str]) -> set[str]:
        """Return those of ``ids`` that are stored already, as events of the conversation or in quarantine."""
        wanted = json.dumps(list(ids))
        sql = " UNION ".join(
            f"SELECT event_id FROM {table} WHERE conversation = ? AND event_id IN (SELECT value FROM json_each(?))"  # noqa: S608
            for table in ("events", "quarantine")
        )
        return {str(found) for (found,) in self._query(sql, (conversation, wanted) * 2)}

    def event_count(self, tree: str | None = None) -> int:
        """Return how many events are stored, of one tree or of all (a scan: not for hot paths)."""
        if tree is None:
            return self._number("SELECT count(*) FROM events")
        return self._number("SELECT count(*) FROM events WHERE tree = ?", (tree,))

    def accepted_count(self) -> int:
        """Return how many events the kept trees ever took, pruned ones included."""
        return self._number("SELECT coalesce(sum(seq), 0) FROM trees WHERE merged_into IS NULL")

    def transitions(self, tree: str, *, limit: int = -1) -> list[TransitionRecord]:
        """Return the tree's transitions, oldest first; with ``limit`` only the newest ones."""
        newest = self._many(TransitionRecord, "transitions", "WHERE tree = ? ORDER BY n DESC LIMIT ?", (tree, limit))
        return newest[::-1]

    def quarantined(self, tree: str) -> list[QuarantineRecord]:
        return self._many(QuarantineRecord, "quarantine", "WHERE tree = ? ORDER BY id", (tree,))

    # effects, alerts, deliveries

    def outbox_pending(
        self, *, targets: Sequence[str] = (), trees: Sequence[str] = (), limit: int = 1000
    ) -> list[OutboxRecord]:
        """Return effects that are not done (pending or claimed), oldest first; empty filters mean all."""
        where, bindings = ["state <> 'done'"], []
        for column, values in (("target", targets), ("tree", trees)):
            if values:
                where.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 - our own column names
                bindings.append(json.dumps(list(values)))
        tail = f"WHERE {' AND '.join(where)} ORDER BY id LIMIT ?"
        return self._many(OutboxRecord, "outbox", tail, (*bindings, limit))

    def outbox_depth(self) -> int:
        """Return the number of effects that are not done."""
        return self._number("SELECT count(*) FROM outbox WHERE state <> 'done'")

    def alert(self, key: str) -> AlertRecord | None:
        return self._one(AlertRecord, "alerts", "WHERE key = ?", (key,))

    def alerts(self, *, resolved: bool = False, limit: int = 1000) -> list[AlertRecord]:
        """Return alerts by their last change, newest first; the open ones unless ``resolved``."""
        where = "" if resolved else "WHERE state <> 'resolve'"
        return self._many(AlertRecord, "alerts", f"{where} ORDER BY changed_at DESC LIMIT ?", (limit,))

    def alert_log(self, key: str | None = None, *, limit: int = 100) -> list[AlertLogRecord]:
        """Return what happened to alerts, newest first."""
        where, bindings = ("", ()) if key is None else ("WHERE key = ?", (key,))
        return self._many(AlertLogRecord, "alert_log", f"{where} ORDER BY id DESC LIMIT ?", (*bindings, limit))

    def alert_log_of_effect(self, effect_id: int) -> AlertLogRecord | None:
        """Return the log row that the effect made, if it was taken already."""
        return self._one(AlertLogRecord, "alert_log", "WHERE effect_id = ?", (effect_id,))

    def deliveries_pending(self, limit: int = 1000) -> list[DeliveryRecord]:
        """Return deliveries that are still to be made, the next one first."""
        tail = "WHERE state = 'pending' ORDER BY next_at, id LIMIT ?"
        return self._many(DeliveryRecord, "deliveries", tail, (limit,))

    def deliveries(self, alert_log_id: int) -> list[DeliveryRecord]:
        return self._many(DeliveryRecord, "deliveries", "WHERE alert_log_id = ? ORDER BY id", (alert_log_id,))

    # settings, audit, sensors

    def settings_latest(self) -> SettingsRecord | None:
        """Return the newest runtime overrides."""
        return self._one(SettingsRecord, "settings_versions", "ORDER BY version DESC LIMIT 1")

    def settings_versions(self, limit: int = 100) -> list[SettingsRecord]:
        return self._many(SettingsRecord, "settings_versions", "ORDER BY version DESC LIMIT ?", (limit,))

    def audit(self, limit: int = 100) -> list[AuditRecord]:
        return self._many(AuditRecord, "audit", "ORDER BY id DESC LIMIT ?", (limit,))

    def crashes(self, *, offender: str | None = None, limit: int = 20) -> list[CrashRecord]:
        """Return the newest crash reports of all processes or of one, newest first."""
        where, bindings = ("", ()) if offender is None else ("WHERE offender = ?", (offender,))
        return self._many(CrashRecord, "crash_reports", f"{where} ORDER BY id DESC LIMIT ?", (*bindings, limit))

    def death_tally(self) -> dict[str, int]:
        """Return how often each process ended of itself, as far back as reports are kept."""
        sql = "SELECT offender, count(*) FROM crash_reports WHERE context <> 'slow_retry' GROUP BY offender"
        return {str(offender): int(count) for offender, count in self._query(sql)}

    def sensors(self) -> list[SensorRecord]:
        return self._many(SensorRecord, "sensors", "ORDER BY source")

    # the connection

    def _one(self, record: type[R], table: str, tail: str, bindings: Sequence[Any] = ()) -> R | None:
        found = self._many(record, table, tail, bindings)
        return found[0] if found else None

    def _many(self, record: type[R], table: str, tail: str, bindings: Sequence[Any] = ()) -> list[R]:
        sql = f"SELECT {', '.join(record._fields)} FROM {table} {tail}"  # noqa: S608 - no data in it
        return [record._make(row) for row in self._query(sql, bindings)]

    def _number(self, sql: str, bindings: Sequence[Any] = ()) -> int:
        found = self._query(sql, bindings)
        return int(found[0][0]) if found else 0

    def _query(self, sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._fetch(sql, bindings)
        except apsw.Error:
            self.close()  # the file may have been replaced or repaired: look once more before giving up
        try:
            return self._fetch(sql, bindings)
        except apsw.Error as error:
            self.close()
            kind = Damaged if isinstance(error, _DAMAGED) else Unreadable
            raise kind(f"{self._path}: {type(error).__name__}: {error}") from error

    def _fetch(self, sql: str, bindings: Sequence[Any]) -> list[Any]:
        db = self._open()
        return [] if db is None else db.execute(sql, bindings).fetchall()

    def _open(self) -> apsw.Connection | None:
        """Return a connection to the file that is there now; None while none is, or none with tables."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return None
        except OSError as error:
            raise Unreadable(f"{self._path}: {error.strerror}") from error
        if self._connection is not None and self._is_current((found.st_dev, found.st_ino)):
            return self._connection
        self.close()
        self._inode = (found.st_dev, found.st_ino)
        return self._connect()

    def _is_current(self, inode: tuple[int, int]) -> bool:
        return self._inode == inode and not (self._immutable and self._has_log())

    def _has_log(self) -> bool:
        log = self._path.with_name(self._path.name + "-wal")
        return log.exists() and log.stat().st_size > 0

    def _connect(self) -> apsw.Connection | None:
        """Connect. Where nobody can write (a read-only file system), SQLite reads only what it may call immutable."""
        self._immutable = False
        try:
            return self._connect_to(str(self._path))
        except apsw.CantOpenError:
            self.close()
            if self._has_log():
                raise
        self._immutable = True
        return self._connect_to(f"file:{quote(str(self._path))}?immutable=1")

    def _connect_to(self, name: str) -> apsw.Connection | None:
        db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        self._connection = db
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        if db.pragma("user_version") == 0:  # the keeper has not made the tables yet
            self.close()
            return None
        return db
