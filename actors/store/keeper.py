"""The keeper process: the only writer of the database. Everybody else asks it to ``Commit``.

Ready after the first attempt to open the database, even when that failed: the daemon runs on, senders get ``storage``
refusals, and the keeper becomes ok by itself once the fault is gone. Nothing here blocks the loop; the writer's
thread does all the I/O. The heartbeat fails only when one piece of work has taken longer than any disk should.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from actors.knobs import Knobs
from actors.store.database import FILE_NAME
from actors.store.group import Checked, Refusal
from actors.store.journal import InvalidWrite, check
from actors.store.requests import Commit, Committed, KeeperHealth, RefusalCode, SuspectDamage
from actors.store.writer import Writer
from supervisor.bus.errors import Refused
from supervisor.bus.refs import handle
from supervisor.child import Child
from supervisor.settings.holder import Holder

__all__ = ["Desk", "main"]

_SLOW_S = 5.0
_STUCK_S = 60.0  # below it a slow disk is reported; above it the thread counts as dead

_log = logging.getLogger(__name__)


class Desk:
    """Takes requests off the bus, checks them, hands them to the writer and answers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def commit(self, request: Commit) -> Committed:
        """Make the commit. Raises Refused with a RefusalCode."""
        # No await before submit: commits of one sender enter the queue in the order in which they arrived.
        outcome = await self._writer.submit(_checked(request))
        if isinstance(outcome, Refusal):
            raise Refused(outcome.code, _detail(outcome))
        return Committed(rows=outcome)

    async def health(self, _body: bytes) -> bytes:
        return self._writer.health().model_dump_json().encode()

    async def suspect(self, _body: bytes) -> None:
        self._writer.suspect()

    async def probe(self) -> None:
        """Raise when the writer's thread is gone or has been at one thing for a minute."""
        if self._writer.failed.done():
            raise RuntimeError("the writer's thread has ended")
        stuck_s = self._writer.stuck_for_s()
        if stuck_s > _STUCK_S:
            raise RuntimeError(f"the writer's thread has been stuck for {stuck_s:.0f} s")
        if stuck_s > _SLOW_S:
            _log.warning("the disk is slow: the writer has been busy with one transaction for %.0f s", stuck_s)


async def main(child: Child) -> None:
    """Serve until told to stop, then execute what waits and close. Raises what ended the writer's thread."""
    settings = Holder(child, Knobs)
    writer = Writer(child.state_dir / FILE_NAME, lambda: settings.current.store)
    await writer.start()
    desk = Desk(writer)
    handle(child.endpoint, Commit, desk.commit)
    child.endpoint.on(KeeperHealth.__name__, desk.health)
    child.endpoint.on(SuspectDamage.__name__, desk.suspect)
    child.on_probe(desk.probe)
    await child.ready()
    stopping: asyncio.Future[Any] = asyncio.create_task(child.stopping.wait())
    ends: list[asyncio.Future[Any]] = [stopping, writer.failed]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await writer.stop()
    if writer.failed.done():
        writer.failed.result()


def _checked(request: Commit) -> Checked:
    try:
        return Checked([(write.op, *check(write)) for write in request.writes], request.durable)
    except InvalidWrite as error:
        raise Refused(RefusalCode.INVALID, str(error)) from None


def _detail(refusal: Refusal) -> str:
    if refusal.at is None:
        return refusal.text
    index, op = refusal.at
    return f"write {index} ({op}): {refusal.text}"
