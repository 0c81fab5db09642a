"""What is asked of a forest shard over the bus, and what it answers.

The shard of a tree is ``forest-(crc32(tree) % shards)``. Every event carries an id by the time it arrives here, so
every request may be repeated: what was committed before counts as a duplicate.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

from actors.messages import Command, Frozen, Mode, ProgressEvent, Reason, Verdict

__all__ = [
    "Adopt",
    "Batch",
    "Describe",
    "Described",
    "Failure",
    "Ingest",
    "Ingested",
    "Operate",
    "Outcome",
    "Release",
    "Released",
    "TreeRow",
    "shard_of",
]

Failure = Literal["storage", "crashed", "moved", "busy"]


def shard_of(tree: str, shards: int) -> str:
    """Return the name of the process that owns ``tree``."""
    return f"forest-{zlib.crc32(tree.encode()) % shards}"


class Batch(Frozen):
    """Events of one tree in the order of arrival; ids and times are set."""

    tree: str
    events: list[ProgressEvent]


class Ingest(Frozen):
    batches: list[Batch]


class Outcome(Frozen):
    """What became of one batch: all of it committed, or none (``failed``; ``index``: the event that broke it)."""

    tree: str
    accepted: int = 0
    duplicates: int = 0
    failed: Failure | None = None
    detail: str = ""
    index: int | None = None


class Ingested(Frozen):
    outcomes: list[Outcome]


class Describe(Frozen):
    tree: str


class Described(Frozen):
    found: bool
    view: dict[str, Any] = {}


class Operate(Frozen):
    """An operator's command for one tree; ``uid`` goes into the audit row."""

    tree: str
    command: Command
    uid: int


class Release(Frozen):
    """Write the tree's snapshot and let go of it: it is about to be adopted."""

    tree: str


class Released(Frozen):
    tree: str


class Adopt(Frozen):
    """Make ``other``'s root a child of conversation ``parent`` of ``tree``; safe to repeat."""

    tree: str
    other: str
    parent: str


class TreeRow(Frozen):
    """The full state that admission needs of one tree; a row with an older ``rev`` is ignored."""

    tree: str
    rev: int
    verdict: Verdict
    reason: Reason
    mode: Mode | None = None
    stage: str = "none"
    refused: bool = False
    max_context_tokens: int | None = None
