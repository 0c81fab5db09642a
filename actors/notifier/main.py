"""The notifier process: serves Raise and NotifierHealth on the bus, owns the channels.

A Raise is answered after its commit (see ``actor``). On start, deliveries that the store still holds as pending are
sent. On stop, a message in flight gets a moment to end, else it comes again after the next start. Heartbeats pass the
mailbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pykka

from actors.knobs import Knobs
from actors.notifier.actor import NotifierActor
from actors.notifier.channels.registry import Setting
from actors.notifier.inbox import Inspect, Inspected, Offer, Ping, Reconfigure
from actors.notifier.lane import Lane
from actors.notifier.outbox import Outbox
from actors.notifier.requests import ChannelHealth, Health, NotifierHealth, Raise, Raised
from actors.notifier.switchboard import Switchboard
from actors.store.database import FILE_NAME
from actors.store.reader import Reader
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref, handle
from supervisor.child import Child
from supervisor.dispatcher import ask
from supervisor.settings.holder import Holder

__all__ = ["main"]

SIGHT_S = 1.0
LAST_FLUSH_S = 0.5

_log = logging.getLogger(__name__)


async def main(child: Child) -> None:
    """Run until ``child.stopping``; raises when the actor crashed."""
    holder = Holder(child, Knobs)
    outbox = Outbox(Ref(child.endpoint, "keeper"), Reader(child.state_dir / FILE_NAME))
    fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ref = NotifierActor.start(holder.current.notifications, outbox, fatal=fatal)
    holder.subscribe(lambda knobs: ref.tell(Reconfigure(knobs.notifications)))
    inspected: Inspected = await ask(ref, Inspect())
    _serve(child, ref)
    writer = asyncio.create_task(outbox.run())
    await _look(inspected.switchboard)
    await child.ready()
    try:
        await _until_stopped(child, fatal)
    finally:
        writer.cancel()
        await _stop(ref, inspected.switchboard, outbox)


def _serve(child: Child, ref: pykka.ActorRef[NotifierActor]) -> None:
    async def take(message: Raise) -> Raised:
        answer: Raised = await ask(ref, Offer(message))
        return answer

    async def health(_message: NotifierHealth) -> Health:
        inspected: Inspected = await ask(ref, Inspect())
        switchboard = inspected.switchboard
        return Health(
            alerts_open=inspected.alerts_open,
            repeats=inspected.repeats,
            degraded=inspected.degraded,
            counts=switchboard.counts(),
            channels=await asyncio.gather(*(_health(setting, lane) for setting, lane in switchboard.lanes())),
        )

    async def probe() -> None:
        await ask(ref, Ping())

    handle(child.endpoint, Raise, take)
    handle(child.endpoint, NotifierHealth, health)
    child.on_probe(probe)


async def _health(setting: Setting, lane: Lane) -> ChannelHealth:
    state, detail = await _state(setting, lane)
    return ChannelHealth(name=setting.name, type=setting.type, state=state, detail=detail, queued=len(lane))


async def _state(setting: Setting, lane: Lane) -> tuple[str, str]:
    if not setting.enabled:
        return "disabled", ""
    blind = await _sight(lane)
    if blind:
        return "blind", blind
    if lane.failure is not None:
        return "failing", f"{lane.failure.reason}: {lane.failure.detail}"
    return "ok", ""


async def _sight(lane: Lane) -> str:
    try:
        async with asyncio.timeout(SIGHT_S):
            return await lane.channel.sight()
    except TimeoutError:
        return f"no answer within {SIGHT_S:g} s"


async def _look(switchboard: Switchboard) -> None:
    """Say at start, not at the first alert, that a channel cannot work here (P087)."""
    for setting, lane in switchboard.lanes():
        state, detail = await _state(setting, lane)
        if state == "blind":
            switchboard.blame(setting.name, f"blind: {detail}")


async def _until_stopped(child: Child, fatal: asyncio.Future[None]) -> None:
    stopping = asyncio.create_task(child.stopping.wait())
    ends: set[asyncio.Future[Any]] = {stopping, fatal}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if fatal.done():
        fatal.result()


async def _stop(ref: pykka.ActorRef[NotifierActor], switchboard: Switchboard, outbox: Outbox) -> None:
    await switchboard.stop()
    if ref.is_alive():
        await ask(ref, Ping())  # everything that was settled before has reached the outbox
        ref.stop(block=False)
    with contextlib.suppress(BusError, TimeoutError):
        async with asyncio.timeout(LAST_FLUSH_S):
            await outbox.flush()
