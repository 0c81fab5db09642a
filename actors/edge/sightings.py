"""Which sensors reported, and in which version (P113): one row a source, written at most once a minute.

Best effort by design: an event a minute later makes up a lost sighting. No request ever waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from actors.edge.shards import Shards
from supervisor.bus.errors import BusError

__all__ = ["SensorsSeen", "source_and_version"]

_log = logging.getLogger(__name__)

EVERY_S = 60.0
MAX_SOURCES = 500


def source_and_version(text: str) -> tuple[str, str]:
    """Split ``opencode-plugin/1.2.0`` or ``plugin 1.2.0``; the version is empty when there is none."""
    source, _, version = text.strip().replace("/", " ", 1).partition(" ")
    return source[:200], version.strip()[:80]


class SensorsSeen:
    """Remembers when each source was last written down; ``now`` is wall time in epoch seconds."""

    def __init__(self, shards: Shards, now: Callable[[], float]) -> None:
        self._shards = shards
        self._now = now
        self._written: dict[str, tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, said: str | None, sources: Iterable[str | None]) -> None:
        """A request came from the sensor ``said`` (its header), else from the sources that its events name."""
        for text in {said} if said else set(sources):
            if text:
                self._note(*source_and_version(text))

    def _note(self, source: str, version: str) -> None:
        now = self._now()
        before, at = self._written.get(source, ("", 0.0))
        # An event's bare source says nothing of the version that the header named before.
        version = version or before
        if not source or (version == before and abs(now - at) < EVERY_S):
            return
        if source not in self._written and len(self._written) >= MAX_SOURCES:
            self._written.pop(next(iter(self._written)))
        self._written[source] = (version, now)
        task = asyncio.get_running_loop().create_task(self._write(source, version, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, source: str, version: str, now: float) -> None:
        try:
            await self._shards.write("sensor.seen", {"source": source, "version": version, "seen_at": now})
        except BusError as error:
            _log.warning("sensor %s was seen, but that could not be written: %s", source, error)
