"""Asks of one shard: lanes that are ready go out together, a few asks at a time.

While an ask is out the next lanes gather, so batches grow with the load and a lone event never waits. When the shard is
away everything stays in its lane, in order, and is offered again after a pause that grows to a quarter of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from actors.edge.shards import Shards
from actors.tree.requests import Outcome
from supervisor.bus.errors import BusError, QueueFull, RemoteError

if TYPE_CHECKING:
    from actors.edge.lanes import Lane, Lanes

__all__ = ["Sender"]

_log = logging.getLogger(__name__)

MAX_ASKS = 4
MAX_EVENTS = 1_000
MAX_BYTES = 4 * 1024 * 1024  # half a frame; one chunk alone is never more than a request body and its headers
PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 0.25

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Sender:
    """Works on the heads of the lanes that were offered to it; gives each back with ``settle`` or ``resume``."""

    def __init__(self, shard: str, shards: Shards, lanes: Lanes, spawn: Spawn) -> None:
        self._shard = shard
        self._shards = shards
        self._lanes = lanes
        self._spawn = spawn
        self._ready: deque[Lane] = deque()
        self._asks = 0
        self._pause_s = 0.0
        self._paused = False

    def offer(self, lane: Lane) -> None:
        """Send the head of ``lane`` as soon as there is room."""
        self._ready.append(lane)
        self._pump()

    def _pump(self) -> None:
        while self._ready and self._asks < MAX_ASKS and not self._paused:
            lanes = self._take()
            if lanes:
                self._asks += 1
                self._spawn(self._send(lanes))

    def _take(self) -> list[Lane]:
        taken: list[Lane] = []
        events = size = 0
        while self._ready:
            lane = self._ready[0]
            chunk = lane.head
            if taken and (events + chunk.span > MAX_EVENTS or size + chunk.size_bytes > MAX_BYTES):
                break
            self._ready.popleft()
            if chunk.closed.is_set():
                self._lanes.resume(lane)
                continue
            taken.append(lane)
            events, size = events + chunk.span, size + chunk.size_bytes
        return taken

    async def _send(self, lanes: list[Lane]) -> None:
        chunks = [lane.head for lane in lanes]
        doubts = [chunk.in_doubt for chunk in chunks]
        for chunk in chunks:
            chunk.in_doubt = True
        try:
            outcomes = await self._shards.ingest(self._shard, chunks)
        except (BusError, ValueError) as error:
            self._asks -= 1
            if isinstance(error, QueueFull):  # never written: as sure as before
                for chunk, doubt in zip(chunks, doubts, strict=True):
                    chunk.in_doubt = doubt
            self._failed(lanes, error)
        else:
            self._asks -= 1
            self._pause_s = 0.0
            for lane in lanes:
                missing = Outcome(tree=lane.tree, failed="busy", detail="the shard did not answer for it")
                self._lanes.settle(lane, outcomes.get(lane.tree, missing))
        self._pump()

    def _failed(self, lanes: list[Lane], error: Exception) -> None:
        if isinstance(error, RemoteError) and error.code in ("storage", "invalid"):
            for lane in lanes:
                lane.head.in_doubt = False
                lane.head.give_up(error.code, str(error.detail))
                self._lanes.resume(lane)
            return
        if not self._pause_s:
            _log.warning("%s does not take events, they wait: %s", self._shard, error)
        self._ready.extendleft(reversed(lanes))
        self._pause_s = min(PAUSE_MAX_S, max(PAUSE_MIN_S, self._pause_s * 2))
        if not self._paused:
            self._paused = True
            asyncio.get_running_loop().call_later(self._pause_s, self._unpause)

    def _unpause(self) -> None:
        self._paused = False
        self._pump()
