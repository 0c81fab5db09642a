"""What is asked of the keeper, the only writer of the database. Frozen models, no I/O.

Ordering: commits that one peer asks for are executed in the order asked. Atomicity: all writes of a ``Commit``
happen or none does. Crash guarantee: ``Committed`` is answered after the COMMIT, so an answered commit survives
kill -9 of every process; with ``durable`` it also survives power loss (the group runs with synchronous=FULL).

Refusals arrive as ``supervisor.bus.errors.RemoteError`` with one of the codes of ``RefusalCode``:

    conflict   a guard did not change exactly one row, or a key is taken: the sender's picture is stale, reload
    invalid    unknown operation, missing or unknown column, impossible value: a defect of the sender
    storage    disk full, read-only, locked, I/O error, newer database: nothing was written, try again later
    busy       too many commits are waiting: nothing was written, slow down and try again
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from actors.messages import Frozen

__all__ = ["Commit", "Committed", "Health", "KeeperHealth", "RefusalCode", "SuspectDamage", "Write"]


class RefusalCode(StrEnum):
    """Why a commit was not made."""

    CONFLICT = "conflict"
    INVALID = "invalid"
    STORAGE = "storage"
    BUSY = "busy"


class Write(Frozen):
    """One row through one named statement; ``op`` is a key of ``actors.store.journal.WRITES``."""

    op: str
    row: dict[str, Any]


class Commit(Frozen):
    """Writes that happen together. ``durable``: fsynced before the answer (alert, refusal, recovery rows)."""

    writes: list[Write]
    durable: bool = False


class Committed(Frozen):
    """One entry a write: the integer key of the inserted row where its table makes one, else 0."""

    rows: list[int] = []


class KeeperHealth(Frozen):
    """Ask for the state of the storage."""


class SuspectDamage(Frozen):
    """Tell: a reader found the database damaged. The keeper inspects it, and sets it aside if that is so."""


class Health(Frozen):
    """``since`` is wall time in epoch seconds; ``detail`` says what is wrong and with which file."""

    state: Literal["ok", "degraded"]
    detail: str = ""
    since: float
