"""The shard's side of the outbox: effects that are committed but not yet taken over by their target.

Order: the effects of one tree go out one after the other; different trees go side by side, at most ``_SIDE_BY_SIDE``.
Crash guarantee: an effect stays pending in the database until its target acknowledged it, and is sent again after a
restart; targets know an effect by its id, so that twice is once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from actors.messages import AlertEffect
from actors.notifier.requests import Raise, Raised
from actors.store.reader import Reader, Unreadable
from actors.store.requests import Commit, Committed, Write
from actors.tree.record import ALERT
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["Outbox"]

_SIDE_BY_SIDE = 64
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 5.0

_log = logging.getLogger(__name__)


class Outbox:
    """Send alerts to the notifier until it has taken them over."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._keeper = Ref(endpoint, "keeper")
        self._notifier = Ref(endpoint, "notifier")
        self._waiting: dict[str, deque[tuple[int, AlertEffect]]] = {}
        self._known: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_SIDE_BY_SIDE)

    def load(self, reader: Reader, belongs: Callable[[str], bool]) -> None:
        """Take up what is left undone: by an earlier life of this shard, or by a commit whose answer was lost."""
        try:
            left = reader.outbox_pending(targets=["notifier"], limit=-1)
        except Unreadable as error:
            _log.error("pending effects cannot be read: %s", error)
            return
        for row in left:
            if row.kind == ALERT and row.id not in self._known and belongs(row.tree):
                self.send(row.tree, row.id, AlertEffect.model_validate_json(row.body))

    def send(self, tree: str, effect: int, alert: AlertEffect) -> None:
        """Send ``alert`` after the earlier ones of its tree."""
        if effect in self._known:
            return
        self._known.add(effect)
        waiting = self._waiting.get(tree)
        if waiting is not None:
            waiting.append((effect, alert))
            return
        self._waiting[tree] = deque([(effect, alert)])
        task = asyncio.get_running_loop().create_task(self._drain(tree))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Give up sending; what is left is in the database."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def depth(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def _drain(self, tree: str) -> None:
        waiting = self._waiting[tree]
        while waiting:
            effect, alert = waiting[0]
            await self._deliver(effect, alert)
            self._known.discard(effect)
            waiting.popleft()
        del self._waiting[tree]

    async def _deliver(self, effect: int, alert: AlertEffect) -> None:
        pause_s = _FIRST_RETRY_S
        while not await self._tried(effect, alert):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_RETRY_S)

    async def _tried(self, effect: int, alert: AlertEffect) -> bool:
        async with self._room:
            try:
                await self._notifier.ask(Raise(effect_id=effect, alert=alert), Raised)
                await self._keeper.ask(Commit(writes=[Write(op="outbox.done", row={"id": effect})]), Committed)
            except BusError as error:
                _log.info("effect %d waits: %s", effect, error)
                return False
        return True
