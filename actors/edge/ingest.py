"""From parsed events to an answer: route, queue, wait for the commits, count.

Nothing is acknowledged before its commit. Every item of a request ends in exactly one of accepted, duplicates,
quarantined, rejected and failed; the last one only in a 503, which then names the state of each item.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from actors.edge.delivery import Chunk, Merge, cut
from actors.edge.directory import Directory
from actors.edge.lanes import Lanes
from actors.messages import ProgressEvent
from actors.sensors.wire import Parsed
from actors.store.reader import Unreadable

__all__ = ["MESSAGES", "Answer", "Ingestion"]

_log = logging.getLogger(__name__)

RETRY_AFTER_S = 1

MESSAGES = {
    "storage": "the storage does not take writes now; send the failed items again later",
    "busy": "too many events wait for their commit; send the failed items again later",
    "deadline": "not everything was committed in time; send the failed and unknown items again, with their ids",
    "stopping": "the daemon is stopping; send the failed and unknown items again, with their ids",
    "invalid": "the forest refused the events; this is a defect of treewarden",
}


@dataclass
class Answer:
    """Status, JSON body and headers of one response; ``counts`` for the metrics."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        names = ("accepted", "duplicates", "quarantined", "rejected", "failed")
        return {name: self.body.get(name, 0) for name in names}


class Ingestion:
    """Takes the events of requests in; ``deadline_s`` is read for each request."""

    def __init__(self, directory: Directory, lanes: Lanes, deadline_s: Callable[[], float]) -> None:
        self._directory = directory
        self._lanes = lanes
        self._deadline_s = deadline_s

    async def take(self, parsed: Parsed) -> Answer:
        """Commit what is valid and say what became of every item."""
        if parsed.items and not parsed.events:
            body = _counts(parsed, []) | {"error": _all_invalid(parsed)}
            return Answer(400, body)
        chunks = self._dispatch(parsed)
        await self._settled(chunks)
        failed = [chunk for chunk in chunks if chunk.failed and len(chunk)]
        if not failed:
            return Answer(202, _counts(parsed, chunks))
        return _unavailable(parsed, chunks, failed[0])

    def _dispatch(self, parsed: Parsed) -> list[Chunk]:
        """Route every event in order; a merge cuts, so that what came before it stays before it."""
        chunks: list[Chunk] = []
        run: dict[str, tuple[list[ProgressEvent], list[int]]] = {}
        for place, (event, index) in enumerate(zip(parsed.events, parsed.indexes, strict=True)):
            try:
                routed = self._directory.route(event)
            except Unreadable as error:
                chunks += self._flush(run, parsed)
                chunks.append(_refused(parsed, place, str(error)))
                return chunks
            if routed.merge is not None:
                chunks += self._flush(run, parsed)
                old, parent = routed.merge
                self._lanes.merge(Merge(tree=routed.tree, old=old, parent=parent))
            events, indexes = run.setdefault(routed.tree, ([], []))
            events.append(event)
            indexes.append(index)
        return chunks + self._flush(run, parsed)

    def _flush(self, run: dict[str, tuple[list[ProgressEvent], list[int]]], parsed: Parsed) -> list[Chunk]:
        chunks = [
            chunk for tree, (events, indexes) in run.items() for chunk in cut(tree, events, indexes, parsed.assigned)
        ]
        run.clear()
        for chunk in chunks:
            self._lanes.put(chunk)
        return chunks

    async def _settled(self, chunks: Iterable[Chunk]) -> None:
        try:
            async with asyncio.timeout(self._deadline_s()):
                for chunk in chunks:
                    await chunk.closed.wait()
        except TimeoutError:
            for chunk in chunks:
                chunk.give_up("deadline")


def _refused(parsed: Parsed, place: int, why: str) -> Chunk:
    _log.error("events cannot be routed: %s", why)
    chunk = Chunk("", parsed.events[place:], parsed.indexes[place:])
    chunk.give_up("storage", why)
    return chunk


def _counts(parsed: Parsed, chunks: list[Chunk]) -> dict[str, Any]:
    return {
        "accepted": sum(chunk.accepted for chunk in chunks),
        "duplicates": sum(chunk.duplicates for chunk in chunks),
        "quarantined": sum(len(chunk.quarantined) for chunk in chunks),
        "rejected": parsed.rejected,
        "ignored_fields": parsed.ignored_fields,
        "errors": [error.model_dump() for error in parsed.errors],
    }


def _all_invalid(parsed: Parsed) -> dict[str, str]:
    first = parsed.errors[0]
    message = f"no item is a progress event; item {first.index}: {first.message}"
    return {
        "code": "invalid",
        "message": message,
        "field": first.field,
        "value": first.value,
        "allowed": first.allowed,
    }


def _unavailable(parsed: Parsed, chunks: list[Chunk], first: Chunk) -> Answer:
    reason = first.failed or "deadline"
    body = _counts(parsed, chunks) | {
        "failed": sum(len(chunk) for chunk in chunks),
        "items": _states(parsed, chunks),
        "error": {"code": reason, "message": MESSAGES.get(reason, reason)},
    }
    return Answer(503, body, {"retry-after": str(RETRY_AFTER_S)})


def _states(parsed: Parsed, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Say for each item: stored, quarantined, rejected, failed (surely not stored) or unknown."""
    states = dict.fromkeys(range(parsed.items), "rejected")
    for chunk in chunks:
        states.update(dict.fromkeys(chunk.stored, "stored"))
        states.update(dict.fromkeys(chunk.quarantined, "quarantined"))
        states.update(dict.fromkeys(chunk.indexes, "unknown" if chunk.in_doubt else "failed"))
    return [{"index": index, "state": state} for index, state in states.items()]
