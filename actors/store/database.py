"""Open the database for its only writer. Blocking: call it from the writer's thread, after the fork.

The file and its companions are readable by their owner alone (0600). A file that is no database, or whose pages are
damaged, is set aside under a name that says so and a new one is begun; nothing is ever deleted. Committed data
survives kill -9 (WAL); with synchronous=FULL also power loss.

StorageFault           the database cannot be used now; it may be later (full, read-only, locked, I/O, permissions)
 +-- TooNew            written by a newer treewarden
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import apsw

from actors.store.migrations import DatabaseTooNew, Migration, load, migrate

__all__ = [
    "BUSY_TIMEOUT_MS",
    "FILE_NAME",
    "StorageFault",
    "TooNew",
    "abandon",
    "close",
    "describe",
    "identity",
    "open_for_writing",
    "prove_writable",
]

FILE_NAME = "treewarden.db"
BUSY_TIMEOUT_MS = 2000  # below the senders' patience: they are to hear why, not to run into their timeout
_AUTOCHECKPOINT_PAGES = 4000  # a safety net: the upkeep checkpoints earlier, between commits
_WAL_KEEP_BYTES = 64 * 1024 * 1024
_COMPANIONS = ("", "-wal", "-shm")
_GROUP_AND_OTHERS = 0o077
_DAMAGED = (apsw.NotADBError, apsw.CorruptError)

_log = logging.getLogger(__name__)


class StorageFault(Exception):
    """The database cannot be used now."""


class TooNew(StorageFault):
    """The database was written by a newer treewarden."""


def open_for_writing(
    path: Path,
    migrations: Sequence[Migration] | None = None,
    *,
    inspect: bool = False,
    now: Callable[[], float] = time.time,
) -> apsw.Connection:
    """Open, protect and migrate ``path``; ``inspect`` also checks every page. Raises StorageFault."""
    attempt = partial(_open, path, load() if migrations is None else migrations)
    try:
        return _open_or_set_aside(path, attempt, inspect, now)
    except DatabaseTooNew as error:
        raise TooNew(str(error)) from None
    except (apsw.Error, OSError) as error:
        raise StorageFault(describe(path, error)) from error


def describe(path: Path, error: Exception) -> str:
    """Return one line: which file, what kind of fault, what SQLite or the system says."""
    return f"{path}: {type(error).__name__}: {error}"


def prove_writable(db: apsw.Connection, at: float, room_bytes: int) -> None:
    """Write ``room_bytes``, fsynced, and free them again. Raises apsw.Error.

    After a fault this much must fit before the keeper says ok, or it would say so and fail, again and again. The
    write also covers what a failed fsync left in the log.
    """
    _make_room(db)
    db.execute("PRAGMA synchronous = FULL")
    if room_bytes:
        db.execute("UPDATE proof SET at = ?, room = zeroblob(?)", (at, room_bytes))
    db.execute("UPDATE proof SET at = ?, room = x''", (at,))


def _open_or_set_aside(
    path: Path, attempt: Callable[[bool], apsw.Connection], inspect: bool, now: Callable[[], float]
) -> apsw.Connection:
    with contextlib.suppress(*_DAMAGED):
        return attempt(inspect)
    try:
        return attempt(True)  # one bad read must not cost the operator the history
    except _DAMAGED as error:
        _set_aside(path, error, now())
    return attempt(False)


def _open(path: Path, steps: Sequence[Migration], inspect: bool) -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _protect(path)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        _configure(db)
        if inspect:
            _inspect(db)
        if migrate(db, steps):
            _log.info("database %s is at schema version %d", path, len(steps))
    except BaseException:
        abandon(db)  # a log beside a damaged file is kept as it is
        raise
    return db


def _make_room(db: apsw.Connection) -> None:
    """Fold what an earlier run left in the log into the file: on a full disk this may be all the room there is."""
    db.set_busy_timeout(0)
    with contextlib.suppress(apsw.Error):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)


def abandon(db: apsw.Connection) -> None:
    """Close and leave every file as it is, the log included: it may belong to another database by now. Never raises."""
    with contextlib.suppress(apsw.Error):
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    close(db)


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the file at ``path`` from another one that takes its place; None while there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def close(db: apsw.Connection) -> None:
    """Close and fold the log into the file, as far as that is possible. Never raises."""
    with contextlib.suppress(apsw.Error):  # what it could not fold into the file stays in the log
        db.close(force=True)


def _protect(path: Path) -> None:
    """Create the file for the owner alone, or take rights away from others; never give any."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for suffix in _COMPANIONS:
        file = path.with_name(path.name + suffix)
        if file.exists() and file.stat().st_mode & _GROUP_AND_OTHERS:
            file.chmod(file.stat().st_mode & 0o700)
            _log.warning("%s was accessible to other users; it is not any more", file)


def _configure(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    if db.pragma("journal_mode", "wal") != "wal":
        raise apsw.CantOpenError("the file system does not support SQLite's write-ahead log")
    for setting, value in (
        ("synchronous", "NORMAL"),
        ("foreign_keys", "ON"),
        ("temp_store", "MEMORY"),  # savepoints must not need room on another file system
        ("wal_autocheckpoint", _AUTOCHECKPOINT_PAGES),
        ("journal_size_limit", _WAL_KEEP_BYTES),
    ):
        db.pragma(setting, value)


def _inspect(db: apsw.Connection) -> None:
    found = db.pragma("quick_check")
    if found != "ok":
        raise apsw.CorruptError(f"quick_check: {found}")


def _set_aside(path: Path, error: Exception, at: float) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    # The file itself goes last: SQLite deletes a log that lies beside an empty file.
    for suffix in reversed(_COMPANIONS):
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.rename(aside.with_name(aside.name + suffix))
    _log.critical("%s is damaged (%s); it was set aside as %s and an empty one was begun", path, error, aside)
