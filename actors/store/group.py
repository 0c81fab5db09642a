"""Run waiting commits as one transaction: a savepoint each, so that one that is refused leaves the others whole.

Blocking: for the writer's thread. ``run_group`` returns only after COMMIT; when it raises ``GroupFailed`` the
transaction is rolled back for certain, or the connection is closed, which rolls it back too. One edge is SQLite's
own: when the fsync of a durable group fails, its frames may already be in the log, and would be recovered if the
machine died before the next commit overwrote them. The writer therefore proves the database writable again at once,
and senders reload after a refusal instead of assuming that nothing happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from actors.store.database import close
from actors.store.journal import Statement
from actors.store.requests import RefusalCode

__all__ = ["Checked", "GroupFailed", "Outcome", "Refusal", "run_group"]

_TAKEN = frozenset({apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID})
# What a write can be wrong about without anything being wrong with the storage.
_DEFECTS = (
    apsw.ConstraintError, apsw.SQLError, apsw.MismatchError, apsw.TooBigError, apsw.BindingsError,
    TypeError, ValueError, OverflowError,
)  # fmt: skip


class GroupFailed(Exception):
    """The storage failed with ``cause``; no commit of the group happened."""

    def __init__(self, cause: apsw.Error) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause


@dataclass(frozen=True)
class Checked:
    """A commit whose writes fit their statements."""

    writes: Sequence[tuple[str, Statement, dict[str, Any]]]
    durable: bool


@dataclass(frozen=True)
class Refusal:
    """Why one commit was not made; ``at`` is the number of the write that was at fault, and its op."""

    code: RefusalCode
    at: tuple[int, str] | None
    text: str


Outcome = list[int] | Refusal


def run_group(db: apsw.Connection, commits: Sequence[Checked]) -> list[Outcome]:
    """Execute ``commits`` in order in one transaction; one outcome each. Raises GroupFailed."""
    try:
        _set_synchronous(db, any(commit.durable for commit in commits))
        db.execute("BEGIN IMMEDIATE")
        outcomes = [_attempt(db, commit) for commit in commits]
        db.execute("COMMIT")
    except apsw.Error as error:
        _roll_back(db)
        raise GroupFailed(error) from error
    except BaseException:
        _roll_back(db)
        raise
    return outcomes


def _set_synchronous(db: apsw.Connection, durable: bool) -> None:
    db.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = NORMAL")


def _attempt(db: apsw.Connection, commit: Checked) -> Outcome:
    db.execute("SAVEPOINT one")
    rows: list[int] = []
    for index, (op, statement, row) in enumerate(commit.writes):
        refusal = _write(db, statement, row, rows)
        if refusal is not None:
            db.execute("ROLLBACK TO one")
            db.execute("RELEASE one")
            return Refusal(refusal[0], (index, op), refusal[1])
    db.execute("RELEASE one")
    return rows


def _write(
    db: apsw.Connection, statement: Statement, row: dict[str, Any], rows: list[int]
) -> tuple[RefusalCode, str] | None:
    try:
        db.execute(statement.sql, row)
    except _DEFECTS as error:
        taken = isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", 0) in _TAKEN
        return RefusalCode.CONFLICT if taken else RefusalCode.INVALID, f"{type(error).__name__}: {error}"
    if statement.guard and db.changes() != 1:
        return RefusalCode.CONFLICT, f"the guard changed {db.changes()} rows, not 1"
    rows.append(db.last_insert_rowid() if statement.makes_id else 0)
    return None


def _roll_back(db: apsw.Connection) -> None:
    """End the transaction for certain: SQLite may have done so already; if it cannot, close the connection."""
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except apsw.Error:
        close(db)
