"""Checkpoints and pruning, in pieces small enough that no commit waits long. Blocking: for the writer's thread.

Every piece is a transaction of its own and leaves the database consistent, so a crash between two pieces costs nothing.
Of a living tree only events that its snapshot covers are removed, oldest first; dedup ids are a part of the event rows
and live exactly as long. An expired tree loses its row in the same transaction as its last events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import apsw

from actors.store.database import BUSY_TIMEOUT_MS

__all__ = ["Limits", "Upkeep", "prune"]

_PIECE_ROWS = 500
_PAGE_TREES = 200
_CHECKPOINT_WRITES = 2000
_TRUNCATE_BYTES = 64 * 1024 * 1024
_TRUNCATE_WAIT_MS = 100
_IDLE_AFTER_S = 0.5
_LOOK_EVERY_S = 10.0
_PASS_EVERY_S = 300.0
_FIRST_PASS_S = 60.0
_DAY_S = 86_400.0


class Limits(Protocol):
    """How much history is kept; ``actors.knobs.Store`` is one."""

    @property
    def events_per_tree(self) -> int: ...
    @property
    def retain_days(self) -> int: ...


class Upkeep:
    """What the writer does between groups. ``clock`` is monotonic, ``now`` wall time, both in seconds."""

    def __init__(
        self,
        path: Path,
        limits: Callable[[], Limits],
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._log_file = path.with_name(path.name + "-wal")
        self._limits = limits
        self._clock = clock
        self._now = now
        self._writes = 0
        self._pass: Iterator[None] | None = None
        self._pass_due = clock() + _FIRST_PASS_S

    def patience_s(self) -> float:
        """Return how long the writer may sleep before ``idle`` has something to do."""
        return _IDLE_AFTER_S if self._writes else _LOOK_EVERY_S

    def wrote(self, db: apsw.Connection, writes: int) -> None:
        """Count ``writes``; checkpoint when there were many since the last time. Raises apsw.Error."""
        self._writes += writes
        if self._writes >= _CHECKPOINT_WRITES:
            self._checkpoint(db, apsw.SQLITE_CHECKPOINT_PASSIVE)

    def idle(self, db: apsw.Connection) -> None:
        """Nobody waits: fold the log into the file, and give its room back when it has grown large."""
        if self._writes:
            self._checkpoint(db, apsw.SQLITE_CHECKPOINT_PASSIVE)
        if self._log_file.exists() and self._log_file.stat().st_size > _TRUNCATE_BYTES:
            db.set_busy_timeout(_TRUNCATE_WAIT_MS)
            self._checkpoint(db, apsw.SQLITE_CHECKPOINT_TRUNCATE)
            db.set_busy_timeout(BUSY_TIMEOUT_MS)

    def piece(self, db: apsw.Connection) -> bool:
        """Do one piece of pruning if any is due; return whether more is. Raises apsw.Error."""
        if self._pass is None:
            if self._clock() < self._pass_due:
                return False
            self._pass = prune(db, self._limits(), self._now())
        for _ in self._pass:
            return True
        self.reset()
        return False

    def reset(self) -> None:
        """Forget a pass that is under way (its connection is gone); the next one is a full period away."""
        self._pass = None
        self._pass_due = self._clock() + _PASS_EVERY_S

    def _checkpoint(self, db: apsw.Connection, mode: int) -> None:
        self._writes = 0
        with contextlib.suppress(apsw.Error):  # readers or a full disk hold it back; nothing is lost by waiting
            db.wal_checkpoint(mode=mode)


def prune(db: apsw.Connection, limits: Limits, now: float) -> Iterator[None]:
    """Remove what exceeds ``limits``, yielding after every piece. Raises apsw.Error."""
    before = now - limits.retain_days * _DAY_S
    yield from _surplus_events(db, limits.events_per_tree)
    yield from _expired_trees(db, before)
    for sql in _AGED:
        while _delete(db, sql, (before, _PIECE_ROWS)):
            yield


def _surplus_events(db: apsw.Connection, keep: int) -> Iterator[None]:
    after = ""
    while page := _rows(db, _TREES_PAGE, (keep, after, _PAGE_TREES)):
        for tree, upto, oldest in page:
            if oldest is not None:
                yield from _events_upto(db, tree, oldest, upto)
        after = page[-1][0]
        yield


def _events_upto(db: apsw.Connection, tree: str, oldest: int, upto: int) -> Iterator[None]:
    for start in range(oldest, upto + 1, _PIECE_ROWS):
        db.execute(
            "DELETE FROM events WHERE tree = ? AND seq BETWEEN ? AND ?",
            (tree, start, min(upto, start + _PIECE_ROWS - 1)),
        )
        yield


def _expired_trees(db: apsw.Connection, before: float) -> Iterator[None]:
    while page := _rows(db, _EXPIRED, (before, _PAGE_TREES)):
        for tree, covered, oldest in page:
            if oldest is not None:
                yield from _events_upto(db, tree, oldest, covered)
            _forget(db, tree, before)
            yield


def _forget(db: apsw.Connection, tree: str, before: float) -> None:
    """Remove the tree and the rest of its rows, unless an event touched it meanwhile."""
    with db:
        db.execute("DELETE FROM trees WHERE id = ? AND touched_at < ?", (tree, before))
        if db.changes():
            for table in ("events", "transitions", "conversations", "quarantine", "outbox"):
                db.execute(f"DELETE FROM {table} WHERE tree = ?", (tree,))  # noqa: S608 - our own table names


def _rows(db: apsw.Connection, sql: str, bindings: tuple[Any, ...]) -> list[tuple[str, int, int | None]]:
    return [(tree, upto, oldest) for tree, upto, oldest in db.execute(sql, bindings)]


def _delete(db: apsw.Connection, sql: str, bindings: tuple[float, int]) -> int:
    db.execute(sql, bindings)
    return db.changes()


_OLDEST = "(SELECT min(seq) FROM events WHERE tree = trees.id)"

_TREES_PAGE = f"SELECT id, min(seq - ?, snapshot_seq), {_OLDEST} FROM trees WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608

# A tree with a stage is in recovery or stopped, one with open effects is not finished: both stay, whatever their age.
_EXPIRED = (
    f"SELECT id, snapshot_seq, {_OLDEST} FROM trees WHERE touched_at < ? AND stage = 'none' AND NOT EXISTS"  # noqa: S608
    " (SELECT 1 FROM outbox WHERE tree = trees.id AND state <> 'done') ORDER BY touched_at LIMIT ?"
)

_AGED = (
    "DELETE FROM outbox WHERE id IN"
    " (SELECT id FROM outbox WHERE state = 'done' AND created_at < ? ORDER BY id LIMIT ?)",
    "DELETE FROM deliveries WHERE id IN"
    " (SELECT id FROM deliveries WHERE state <> 'pending' AND at < ? ORDER BY id LIMIT ?)",
    "DELETE FROM alert_log WHERE id IN (SELECT id FROM alert_log WHERE at < ? AND NOT EXISTS"
    " (SELECT 1 FROM deliveries WHERE alert_log_id = alert_log.id) ORDER BY at LIMIT ?)",
    "DELETE FROM alerts WHERE key IN (SELECT key FROM alerts WHERE state = 'resolve' AND changed_at < ? LIMIT ?)",
    "DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine WHERE at < ? ORDER BY id LIMIT ?)",
    "DELETE FROM crash_reports WHERE id IN (SELECT id FROM crash_reports WHERE at < ? ORDER BY at LIMIT ?)",
)
