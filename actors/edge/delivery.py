"""What waits in a lane: a chunk of one request's events for one tree, or a merge of two trees. No I/O.

A chunk is sent from its front, whole or in parts; each part that the shard committed leaves the front. It closes once:
everything settled, or given up with a reason. ``in_doubt`` tells the two kinds of giving up apart: nothing was ever
committed, or an ask went out whose answer never came (the sender may repeat, ids make that safe).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pydantic_core import to_json

from actors.messages import ProgressEvent
from actors.tree.requests import Outcome

__all__ = ["Chunk", "Merge", "cut"]

MAX_EVENTS = 1_000
MAX_BYTES = 2 * 1024 * 1024  # a quarter of a frame of the bus


class Chunk:
    """Events of one request for one tree, in order; ``indexes`` are their places in the request."""

    def __init__(
        self,
        tree: str,
        events: list[ProgressEvent],
        indexes: list[int],
        assigned: Collection[str] = (),
        bodies: list[bytes] | None = None,
    ) -> None:
        self.tree = tree
        self.events = events
        self.indexes = indexes
        self.bodies = [_body(event) for event in events] if bodies is None else bodies
        self.stored: list[int] = []
        self.quarantined: list[int] = []
        self.duplicates = 0
        self.failed: str | None = None
        self.detail = ""
        self.in_doubt = False
        self.crashes = 0
        self.span = len(events)
        self.closed = asyncio.Event()
        self._assigned = assigned

    def __len__(self) -> int:
        return len(self.events)

    @property
    def accepted(self) -> int:
        return len(self.stored) - self.duplicates

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.bodies[: self.span]))

    def batch(self) -> bytes:
        """Return the JSON of a ``Batch`` of the next part: validated events are forwarded, not rendered again."""
        return b'{"tree":%b,"events":[%b]}' % (to_json(self.tree), b",".join(self.bodies[: self.span]))

    def committed(self, outcome: Outcome) -> None:
        """The next part is in the database. Ids that the edge gave cannot have come before: ours, sent twice."""
        part = self.events[: self.span]
        own = sum(event.id in self._assigned for event in part)
        self.duplicates += max(0, min(outcome.duplicates, len(part)) - own)
        self.stored += self.indexes[: self.span]
        self._drop(slice(0, self.span))
        self.span = min(self.span, len(self.events))

    def poison(self, index: int | None) -> int | None:
        """Return which event of the part broke its actor, or None after narrowing the part to find out."""
        if self.span == 1:
            return 0
        if index is not None and 0 <= index < self.span:
            return index
        self.span, self.crashes = 1, 0
        return None

    def quarantine(self, index: int) -> None:
        """Event ``index`` was set aside; the rest goes on, whole."""
        self.quarantined.append(self.indexes[index])
        self._drop(slice(index, index + 1))
        self.span = len(self.events)

    def give_up(self, reason: str, detail: str = "") -> None:
        """Close with what is left unsettled. Closing twice keeps the first reason."""
        if not self.closed.is_set():
            self.failed, self.detail = reason, detail
            self.closed.set()

    def _drop(self, part: slice) -> None:
        del self.events[part], self.indexes[part], self.bodies[part]
        self.crashes, self.in_doubt = 0, False
        if not self.events:
            self.closed.set()


def cut(tree: str, events: list[ProgressEvent], indexes: list[int], assigned: Collection[str] = ()) -> Iterator[Chunk]:
    """Cut the events of one request for one tree into chunks that fit a frame, in order."""
    bodies = [_body(event) for event in events]
    start = size = 0
    for place, body in enumerate(bodies):
        if place > start and (place - start >= MAX_EVENTS or size + len(body) > MAX_BYTES):
            part = slice(start, place)
            yield Chunk(tree, events[part], indexes[part], assigned, bodies[part])
            start, size = place, 0
        size += len(body)
    if bodies:
        yield Chunk(tree, events[start:], indexes[start:], assigned, bodies[start:])


def _body(event: ProgressEvent) -> bytes:
    return event.model_dump_json(exclude_defaults=True, exclude_none=True).encode()


@dataclass
class Merge:
    """Tree ``old`` becomes part of ``tree``, under conversation ``parent``; runs when both lanes have come to it."""

    tree: str
    old: str
    parent: str
    arrived: set[str] = field(default_factory=set)
    attempts: int = 0
