"""A shard of the forest: the process that owns the trees whose ids hash to it.

Ingest is answered tree by tree after each one's commit. Timers of passive trees are found in the database each second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from actors.knobs import Knobs
from actors.store.reader import Damaged, Reader, Unreadable
from actors.store.requests import Commit, Committed, SuspectDamage, Write
from actors.tree.actor import Actions
from actors.tree.mailbox import Apply, Merge, Order, Wake
from actors.tree.outbox import Outbox
from actors.tree.registry import Registry
from actors.tree.requests import (
    Adopt,
    Describe,
    Described,
    Ingest,
    Ingested,
    Operate,
    Outcome,
    Release,
    Released,
    TreeRow,
    shard_of,
)
from actors.tree.shelf import Shelf
from supervisor.bus.errors import BusError, Refused
from supervisor.bus.refs import Ref, handle
from supervisor.child import Child
from supervisor.dispatcher import LoopActor, ask
from supervisor.settings.holder import Holder

__all__ = ["Shard", "main"]

_WAKE_EVERY_S = 1.0
_PASSIVATE_EVERY_S = 15.0
_SWEEP_EVERY_S = 10.0
_COMMIT_TIMEOUT_S = 30.0

_log = logging.getLogger(__name__)


class _Echo(LoopActor):
    """Answers the heartbeat from inside the dispatcher."""

    def on_receive(self, message: Any) -> Any:
        return message


class Shard:
    """The handlers of one shard."""

    def __init__(self, child: Child, holder: Holder[Knobs], *, now: Callable[[], float] = time.time) -> None:
        self.name = child.name
        self.outbox = Outbox(child.endpoint)
        self._now = now
        self._count = int(child.args["shards"])
        self._holder = holder
        self._keeper = Ref(child.endpoint, "keeper")
        self._edge = Ref(child.endpoint, "edge")
        self._reader = Reader(child.state_dir / "treewarden.db")
        self._telling: set[asyncio.Task[None]] = set()
        shelf = Shelf(self._reader, lambda: holder.current.progress, now)
        self.trees = Registry(shelf, Actions(self._commit, self._publish, self.outbox.send, gone=self._gone))

    def belongs(self, tree: str) -> bool:
        """Tell whether this shard owns ``tree``."""
        return shard_of(tree, self._count) == self.name

    def serve(self, child: Child) -> None:
        """Register the handlers."""
        handle(child.endpoint, Ingest, self.ingest)
        handle(child.endpoint, Describe, self.describe)
        handle(child.endpoint, Operate, self.operate)
        handle(child.endpoint, Release, self.release)
        handle(child.endpoint, Adopt, self.adopt)

    async def ingest(self, request: Ingest) -> Ingested:
        """Step and commit each batch; one outcome a batch, in their order."""
        asked = [self.trees.perform(batch.tree, Apply(batch.events)) for batch in request.batches]
        return Ingested(outcomes=list(await asyncio.gather(*asked)))

    async def describe(self, request: Describe) -> Described:
        try:
            view = await self.trees.view(request.tree)
        except Unreadable as error:
            raise Refused("storage", str(error)) from None
        return Described(found=view is not None, view=view or {})

    async def operate(self, request: Operate) -> Described:
        """Perform an operator's command; answers the view after its commit."""
        before = await self.describe(Describe(tree=request.tree))
        if not before.found:
            return before
        order = Order(request.command, request.uid, self._audit(request))
        outcome = await self.trees.perform(request.tree, order)
        if outcome.failed is not None:
            raise Refused(outcome.failed, outcome.detail)
        return await self.describe(Describe(tree=request.tree))

    async def release(self, request: Release) -> Released:
        if not await self.trees.release(request.tree):
            raise Refused("busy", request.tree)
        return Released(tree=request.tree)

    async def adopt(self, request: Adopt) -> Outcome:
        return await self.trees.perform(request.tree, Merge(request))

    async def wake(self) -> None:
        """Tick every tree whose time has come; one that is sick does not keep the others asleep."""
        for tree, _ in self._reader.live_trees(self.belongs, due_by=self._now()):
            outcome = await self.trees.perform(tree, Wake())
            if outcome.failed is not None:
                _log.warning("tree %s cannot be woken: %s %s", tree, outcome.failed, outcome.detail)
            if outcome.failed in ("storage", "busy"):  # the keeper's trouble, not the tree's
                return

    async def report(self, error: Unreadable) -> None:
        """Log that the database cannot be read; damage is the keeper's to mend, who may not have met it."""
        _log.warning("%s", error)
        if isinstance(error, Damaged):
            with contextlib.suppress(BusError):
                await self._keeper.tell(SuspectDamage())

    async def passivate(self) -> None:
        await self.trees.passivate(self._now() - self._holder.current.progress.passivate_after_s)

    async def sweep(self) -> None:
        """Send effects that a lost answer left in the database."""
        self.outbox.load(self._reader, self.belongs)

    def _gone(self, tree: str) -> None:
        self.trees.forget(tree)

    async def _commit(self, commit: Commit) -> Committed:
        return await self._keeper.ask(commit, Committed, timeout_s=_COMMIT_TIMEOUT_S)

    def _publish(self, row: TreeRow) -> None:
        task = asyncio.get_running_loop().create_task(self._tell_edge(row))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_edge(self, row: TreeRow) -> None:
        try:
            await self._edge.tell(row)
        except BusError as error:  # the edge reads the whole table when it starts
            _log.debug("edge not told of %s: %s", row.tree, error)

    def _audit(self, request: Operate) -> Write:
        detail = {"tree": request.tree, "value": request.command.value, "by": request.command.by}
        row = {"at": self._now(), "uid": request.uid, "action": request.command.action, "detail": json.dumps(detail)}
        return Write(op="audit.add", row=row)


async def main(child: Child, *, now: Callable[[], float] = time.time) -> None:
    """Run one shard until it is told to stop. In-flight commits finish; passive state is in the database already."""
    shard = Shard(child, Holder(child, Knobs), now=now)
    shard.serve(child)
    shard.outbox.load(shard._reader, shard.belongs)
    echo = _Echo.start()

    async def probe() -> None:
        await ask(echo, "beat")

    child.on_probe(probe)
    timers = [
        asyncio.create_task(_every(pause_s, work, shard.report))
        for pause_s, work in (
            (_WAKE_EVERY_S, shard.wake),
            (_PASSIVATE_EVERY_S, shard.passivate),
            (_SWEEP_EVERY_S, shard.sweep),
        )
    ]
    await child.ready()
    await child.stopping.wait()
    for timer in timers:
        timer.cancel()
    await asyncio.gather(*timers, return_exceptions=True)
    await shard.outbox.stop()


async def _every(
    pause_s: float, work: Callable[[], Awaitable[None]], report: Callable[[Unreadable], Awaitable[None]]
) -> None:
    while True:
        await asyncio.sleep(pause_s)
        try:
            await work()
        except Unreadable as error:
            await report(error)
