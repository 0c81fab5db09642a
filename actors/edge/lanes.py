"""Order between the edge and the forest: one lane a tree, one ask in flight a lane, asks of a shard grouped.

Order: chunks of a tree reach its shard in the order of ``put``; a chunk that must be retried holds back its lane and no
other. Merges are barriers in both lanes, put at the same moment, so lanes can never wait for each other in a circle.
Back-pressure: a lane and all lanes together hold a bounded number of events; ``put`` gives up the chunk as ``busy``.
Crash: nothing here survives; nothing here was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from actors.edge.delivery import Chunk, Merge
from actors.edge.sender import Sender
from actors.edge.shards import Shards
from actors.tree.requests import Outcome
from supervisor.bus.errors import BusError, RemoteError

__all__ = ["Lane", "Lanes"]

_log = logging.getLogger(__name__)

MAX_LANE_EVENTS = 12_000  # more than the largest request that the knobs allow
MAX_EVENTS = 40_000
PAUSE_S = 0.05
MERGE_PAUSE_MAX_S = 1.0
MERGE_TRIES = 5  # of answers that no waiting heals; a shard that is away is asked for ever

Moved = Callable[[str, str], None]


@dataclass(eq=False)
class Lane:
    """The chunks and merges of one tree that wait, the head first. ``busy``: the head is being worked on."""

    tree: str
    queue: deque[Chunk | Merge] = field(default_factory=deque)
    busy: bool = False
    events: int = 0

    @property
    def head(self) -> Chunk:
        head = self.queue[0]
        assert isinstance(head, Chunk)
        return head


class Lanes:
    """All lanes of the edge. ``moved(old, new)`` is called when a tree turned out to be part of another one."""

    def __init__(self, shards: Shards, moved: Moved, *, max_events: int = MAX_EVENTS) -> None:
        self._shards = shards
        self._moved = moved
        self._max_events = max_events
        self._lanes: dict[str, Lane] = {}
        self._senders: dict[str, Sender] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.events = 0

    def put(self, chunk: Chunk) -> None:
        """Queue a chunk; await ``chunk.closed``. It closes at once as ``busy`` when there is no room."""
        lane = self._lane(chunk.tree)
        full = lane.events + len(chunk) > MAX_LANE_EVENTS or self.events + len(chunk) > self._max_events
        if full or self._stopped:
            chunk.give_up("busy", "too many events wait for their commit")
            self._advance(lane)
            return
        lane.queue.append(chunk)
        self._count(lane, len(chunk))
        self._advance(lane)

    def merge(self, merge: Merge) -> None:
        """Hold both trees' later events until the old tree was adopted."""
        for tree in (merge.old, merge.tree):
            lane = self._lane(tree)
            lane.queue.append(merge)
            self._advance(lane)

    def stop(self) -> None:
        """Give up everything that waits and end the tasks."""
        self._stopped = True
        for lane in list(self._lanes.values()):
            for waiting in lane.queue:
                if isinstance(waiting, Chunk):
                    waiting.give_up("stopping", "the edge is stopping")
        for task in self._tasks:
            task.cancel()

    # -- the head of a lane

    def _advance(self, lane: Lane) -> None:
        while lane.queue and not lane.busy:
            head = lane.queue[0]
            if isinstance(head, Merge):
                self._arrive(lane, head)
            elif head.closed.is_set():
                self._pop(lane)
            else:
                lane.busy = True
                self._sender(lane.tree).offer(lane)
        if not lane.queue:
            self._lanes.pop(lane.tree, None)

    def settle(self, lane: Lane, outcome: Outcome) -> None:
        """A shard answered for the head of ``lane``."""
        self._ON_OUTCOME[outcome.failed](self, lane, outcome)

    def resume(self, lane: Lane) -> None:
        """The head can be worked on (again), or is closed."""
        lane.busy = False
        self._advance(lane)

    def _committed(self, lane: Lane, outcome: Outcome) -> None:
        before = len(lane.head)
        lane.head.committed(outcome)
        self._count(lane, len(lane.head) - before)
        self.resume(lane)

    def _storage(self, lane: Lane, outcome: Outcome) -> None:
        lane.head.in_doubt = False
        lane.head.give_up("storage", outcome.detail)
        self.resume(lane)

    def _busy(self, lane: Lane, _outcome: Outcome) -> None:
        lane.head.in_doubt = False
        asyncio.get_running_loop().call_later(PAUSE_S, self.resume, lane)

    def _elsewhere(self, lane: Lane, outcome: Outcome) -> None:
        lane.head.in_doubt = False
        if not outcome.detail or outcome.detail == lane.tree:
            return self._busy(lane, outcome)
        self._moved(lane.tree, outcome.detail)
        return self._move(lane, outcome.detail)

    def _move(self, lane: Lane, tree: str) -> None:
        """Append what waits in ``lane`` to the lane of ``tree``."""
        waiting, lane.busy = list(lane.queue), False
        self._count(lane, -lane.events)
        lane.queue.clear()
        self._lanes.pop(lane.tree, None)
        for item in waiting:
            if isinstance(item, Chunk):
                item.tree = tree
                self.put(item)
            else:
                self._rename(item, lane.tree, tree)

    def _rename(self, merge: Merge, old: str, tree: str) -> None:
        """The barrier ``merge`` stood in the lane of ``old``, which is part of ``tree`` now."""
        merge.arrived.discard(old)
        if merge.tree == old:
            merge.tree = tree
        else:
            merge.old = tree
        if merge.tree != merge.old:
            target = self._lane(tree)
            target.queue.append(merge)
            self._advance(target)
        elif merge.arrived:
            self._spawn(self._perform(merge))

    def _crashed(self, lane: Lane, outcome: Outcome) -> None:
        chunk = lane.head
        chunk.in_doubt = False
        chunk.crashes += 1
        if chunk.crashes == 1:
            return self.resume(lane)  # once more: the actor may have died of something else
        index = chunk.poison(outcome.index)
        if index is None:
            return self.resume(lane)
        return self._spawn(self._set_aside(lane, index, outcome.detail))

    async def _set_aside(self, lane: Lane, index: int, error: str) -> None:
        chunk = lane.head
        event, body = chunk.events[index], chunk.bodies[index]
        row: dict[str, object] = {
            "tree": lane.tree,
            "conversation": event.session_id,
            "event_id": event.id,
            "body": body.decode(),
            "error": error[:2000],
            "at": time.time(),
        }
        try:
            await self._shards.write("quarantine.add", row)
        except BusError as failure:
            return self._not_set_aside(lane, failure)
        _log.error("event %s of tree %s breaks its actor; quarantined: %s", event.id, lane.tree, error[:500])
        chunk.quarantine(index)
        self._count(lane, -1)
        return self.resume(lane)

    def _not_set_aside(self, lane: Lane, failure: BusError) -> None:
        if isinstance(failure, RemoteError) and failure.code == "storage":
            lane.head.give_up("storage", str(failure.detail))
        asyncio.get_running_loop().call_later(PAUSE_S, self.resume, lane)

    _ON_OUTCOME = {
        None: _committed,
        "storage": _storage,
        "busy": _busy,
        "moved": _elsewhere,
        "crashed": _crashed,
    }

    # -- merges

    def _arrive(self, lane: Lane, merge: Merge) -> None:
        lane.busy = True
        merge.arrived.add(lane.tree)
        if merge.arrived >= {merge.old, merge.tree}:
            self._spawn(self._perform(merge))

    async def _perform(self, merge: Merge) -> None:
        pause_s, refusals = PAUSE_S, 0
        while refusals < MERGE_TRIES and merge.tree != merge.old:
            outcome = await self._adopt(merge)
            if outcome.failed is None:
                break
            refusals += outcome.failed in ("crashed", "moved")
            merge.attempts += 1
            await asyncio.sleep(pause_s)
            pause_s = min(MERGE_PAUSE_MAX_S, pause_s * 2)
        if refusals == MERGE_TRIES:
            _log.error("tree %s cannot be merged into %s; its history stays apart", merge.old, merge.tree)
        self._finish(merge)

    async def _adopt(self, merge: Merge) -> Outcome:
        try:
            await self._shards.release(merge.old)
            return await self._shards.adopt(merge.tree, merge.old, merge.parent)
        except RemoteError as error:
            healing = error.code in ("storage", "busy", "conflict")
            return Outcome(tree=merge.tree, failed="busy" if healing else "crashed", detail=str(error))
        except BusError as error:
            return Outcome(tree=merge.tree, failed="busy", detail=str(error))

    def _finish(self, merge: Merge) -> None:
        """Take the barrier out of both lanes; what came after it in the old one belongs to the new one."""
        self._moved(merge.old, merge.tree)
        for tree in (merge.tree, merge.old):
            lane = self._lanes.get(tree)
            if lane is None or not lane.queue or lane.queue[0] is not merge:
                continue
            lane.queue.popleft()
            if tree == merge.old:
                self._move(lane, merge.tree)
            else:
                self.resume(lane)

    # -- bookkeeping

    def _pop(self, lane: Lane) -> None:
        chunk = lane.queue.popleft()
        assert isinstance(chunk, Chunk)
        self._count(lane, -len(chunk))

    def _count(self, lane: Lane, change: int) -> None:
        lane.events += change
        self.events += change

    def _lane(self, tree: str) -> Lane:
        return self._lanes.setdefault(tree, Lane(tree))

    def _sender(self, tree: str) -> Sender:
        shard = self._shards.name_of(tree)
        if shard not in self._senders:
            self._senders[shard] = Sender(shard, self._shards, self, self._spawn)
        return self._senders[shard]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the edge failed", exc_info=task.exception())
