"""opencode's own store: $XDG_DATA_HOME/opencode/opencode.db, SQLite with a write-ahead log.

Read-only by all means (P138): beside a running opencode, or after a kill, the log's index is there; the file is opened
with mode=ro and a read-only index, so that what is only in the log is read as well and nothing is written. Without an
index the file is opened as immutable, which reads the main file alone and says so if there is a log. The sessions of
one tree are in memory at a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from actors.sensors.normalise import Session
from actors.sensors.readers.opencode import SOURCE, add_messages, session_of
from actors.sensors.readers.records import Origin, Problem, World, world_of
from actors.sensors.readers.shapes import mapping

__all__ = ["read"]

BUSY_MS = 2000
BROKEN = (apsw.Error, UnicodeDecodeError)  # SQLite does not look whether text is UTF-8
MESSAGES = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
PARTS = "SELECT message_id, CAST(data AS BLOB) FROM part WHERE session_id = ? ORDER BY message_id, id"


def read(path: Path, origin: Origin) -> Iterator[World | Problem]:
    """Yield a world per tree of sessions; what cannot be read is a problem."""
    try:
        database, problems = _opened(path)
        yield from problems
        try:
            yield from _trees(database, origin)
        finally:
            database.close()
    except BROKEN as error:
        yield Problem(origin.name, f"the store cannot be read ({error})")


def _opened(path: Path) -> tuple[apsw.Connection, list[Problem]]:
    """Open without leaving a trace: mode=ro alone would make the log or its index where one of them is missing."""
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    problems: list[Problem] = []
    if log.exists() and index.exists():
        return _connected(path, "mode=ro&readonly_shm=1"), problems
    if _size(log) > 0:
        problems.append(Problem(str(path), "its log has no index: read without what is only in the log"))
    return _connected(path, "immutable=1"), problems


def _connected(path: Path, how: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    database = apsw.Connection(f"file:{quote(str(path.absolute()))}?{how}", flags=flags)
    database.set_busy_timeout(BUSY_MS)
    return database


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _trees(database: apsw.Connection, origin: Origin) -> Iterator[World | Problem]:
    columns = [str(row[1]) for row in database.execute("PRAGMA table_info(session)")]
    agent = "agent" if "agent" in columns else "NULL"
    rows = list(database.execute(f"SELECT id, parent_id, directory, {agent} FROM session ORDER BY id"))  # noqa: S608
    parents = {str(row[0]): str(row[1]) for row in rows if row[1]}
    trees: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        trees[_root(str(row[0]), parents)].append(row)
    for members in trees.values():
        sessions = []
        for row in members:
            try:
                found, problems = _session(database, row, origin)
            except BROKEN as error:
                yield Problem(f"{origin.name} session {row[0]}", f"cannot be read ({error})")
                continue
            sessions.append(found)
            yield from problems
        yield from world_of(SOURCE, sessions)


def _root(session: str, parents: dict[str, str]) -> str:
    seen = {session}
    while session in parents and parents[session] not in seen:
        session = parents[session]
        seen.add(session)
    return session


def _session(database: apsw.Connection, row: Any, origin: Origin) -> tuple[Session, list[Problem]]:
    name, parent, directory, agent = row
    session = session_of({"id": name, "parentID": parent, "directory": directory, "agent": agent}, origin.home)
    parts: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    torn = 0
    for message, data in database.execute(PARTS, (name,)):
        part = _decoded(data)
        torn += not part
        parts[message].append(part)
    messages: list[dict[str, Any]] = []
    for message, data in database.execute(MESSAGES, (name,)):
        info = _decoded(data)
        torn += not info
        info["id"] = message
        messages.append({"info": info, "parts": parts.pop(message, [])})
    add_messages(session, messages)
    problems = [Problem(f"{origin.name} session {name}", f"{torn} records are not JSON objects")] if torn else []
    return session, problems


def _decoded(data: Any) -> dict[str, Any]:
    try:
        return mapping(json.loads(bytes(data).decode("utf-8", "replace")))
    except (ValueError, TypeError, RecursionError):
        return {}
