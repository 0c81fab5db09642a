"""The numbered steps of the database's schema: ``NNNN_name.sql``, read as package resources.

``migrate`` runs the missing ones in order, each in one transaction together with its number (PRAGMA user_version):
after a crash a step happened whole or not at all. A database newer than the code is refused, never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import apsw

__all__ = ["DatabaseTooNew", "Migration", "load", "migrate"]


class DatabaseTooNew(Exception):
    """The database was written by a newer treewarden."""


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    sql: str


def load() -> list[Migration]:
    """Return all migrations in order. Raises ValueError when their numbers have a gap."""
    scripts = [item for item in files(__name__).iterdir() if item.name.endswith(".sql")]
    found = sorted(
        (Migration(int(item.name[:4]), item.name, item.read_text(encoding="utf8")) for item in scripts),
        key=lambda migration: migration.version,
    )
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations must be numbered from 1 without a gap: {[m.name for m in found]}")
    return found


def migrate(db: apsw.Connection, migrations: Sequence[Migration]) -> int:
    """Bring ``db`` to the newest version and return how many steps ran. Raises DatabaseTooNew, apsw.Error."""
    current = int(db.pragma("user_version"))
    newest = len(migrations)
    if current > newest:
        raise DatabaseTooNew(
            f"{db.filename} has schema version {current}, this treewarden knows versions up to {newest}:"
            " install the treewarden that wrote it, or start with another --state-dir"
        )
    for migration in migrations[current:]:
        _run(db, migration)
    return newest - current


def _run(db: apsw.Connection, migration: Migration) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(migration.sql).fetchall()  # a script stops at its first row unless it is read to the end
        db.execute(f"PRAGMA user_version = {migration.version}")
        db.execute("COMMIT")
    except apsw.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
