"""A small, scrubbed copy of an opencode store: the tables that are read, with their real definitions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import apsw

__all__ = ["small_copy"]

TABLES = ("session", "message", "part")


def small_copy(source: Path, target: Path, scrubbed: Callable[[str], str]) -> Path:
    """Copy the tables; ``data`` columns and directories are scrubbed. The source is left alone."""
    with contextlib.closing(apsw.Connection(str(target))) as copy:
        copy.execute("ATTACH ? AS client", (str(source),))
        for table in TABLES:
            (definition,) = next(copy.execute("SELECT sql FROM client.sqlite_schema WHERE name = ?", (table,)))
            copy.execute(definition)
            copy.execute(f"INSERT INTO {table} SELECT * FROM client.{table}")
        for table in ("message", "part"):
            for rowid, data in copy.execute(f"SELECT rowid, data FROM {table}").fetchall():
                copy.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (scrubbed(data), rowid))
        copy.execute("UPDATE session SET directory = '/home/user/project'")
        copy.execute("DETACH client")
        copy.execute("VACUUM")
    return target
