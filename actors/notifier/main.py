"""The notifier process: serves Raise, NotifierHealth and the operator's messages on the bus, owns the channels.

A Raise is answered after its commit (see ``actor``). On start, deliveries that the store still holds as pending are
sent. On stop, a message in flight gets a moment to end, else it comes again after the next start. Heartbeats pass the
mailbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from typing import Any

import pykka

from actors.channel_knobs import Setting
from actors.knobs import Knobs
from actors.notifier import requests
from actors.notifier.actor import NotifierActor
from actors.notifier.channels.registry import CHANNELS, Tools
from actors.notifier.clicks import Clicks
from actors.notifier.inbox import Inspect, Inspected, Offer, Ping, Reconfigure
from actors.notifier.lane import Lane
from actors.notifier.mute import Moment
from actors.notifier.operator import Operator
from actors.notifier.outbox import Outbox
from actors.notifier.requests import ChannelHealth, Health, NotifierHealth, Raise, Raised
from actors.notifier.rounds import contacts, pings
from actors.notifier.switchboard import Switchboard
from actors.store.alert_reader import AlertReader
from actors.store.database import FILE_NAME
from actors.store.requests import Write
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref, handle
from supervisor.child import Child
from supervisor.dispatcher import ask
from supervisor.settings.holder import Holder

__all__ = ["main"]

SIGHT_S = 1.0
LAST_FLUSH_S = 0.5


async def main(child: Child) -> None:
    """Run until ``child.stopping``; raises when the actor crashed."""
    holder = Holder(child, Knobs)
    outbox = Outbox(Ref(child.endpoint, "keeper"), AlertReader(child.state_dir / FILE_NAME))
    fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    clicks: list[Clicks] = []
    tools = functools.partial(_tools, outbox, clicks)
    ref = NotifierActor.start(holder.current.notifications, outbox, fatal=fatal, types=CHANNELS, tools=tools)
    holder.subscribe(lambda knobs: ref.tell(Reconfigure(knobs.notifications)))
    inspected: Inspected = await ask(ref, Inspect())
    operator = Operator(ref, outbox, lambda: Moment(time.time(), time.monotonic()))
    clicks.append(_clicks(child, operator, outbox, holder))
    _serve(child, ref)
    _serve_operator(child, operator)
    await _look(inspected.switchboard)
    await child.ready()
    work = [
        asyncio.create_task(outbox.run()),
        asyncio.create_task(contacts(child.endpoint, outbox.reader, inspected.announcer)),
        asyncio.create_task(
            pings(
                child.endpoint,
                lambda: holder.current.notifications,
                inspected.switchboard,
                inspected.degraded_now,
            )
        ),
    ]
    try:
        await _until_stopped(child, fatal)
    finally:
        for task in work:
            task.cancel()
        await _stop(ref, inspected.switchboard, outbox)


def _tools(outbox: Outbox, clicks: list[Clicks], channel: str) -> Tools:
    """What a channel may use; ``clicks`` has its one member before any button can be pressed."""

    async def remember(key: str, ref: str) -> None:
        row = {"channel": channel, "key": key, "ref": ref, "at": time.time()}
        with contextlib.suppress(BusError):  # then a later process shows a new one
            await outbox.commit([Write(op="delivery_ref.save", row=row)])

    def acted(key: str, action: str) -> None:
        clicks[0].acted(key, action)

    return Tools(
        environ=os.environ,
        recall=functools.partial(outbox.reader.delivery_ref, channel),
        remember=remember,
        key_of=functools.partial(outbox.reader.key_of_ref, channel),
        acted=acted,
    )


def _clicks(child: Child, operator: Operator, outbox: Outbox, holder: Holder[Knobs]) -> Clicks:
    return Clicks(
        operator,
        outbox.reader,
        child.endpoint,
        shards=int(child.args["shards"]),
        uid=os.getuid(),
        snooze_s=lambda: holder.current.notifications.snooze_s,
        now=time.time,
    )


def _serve_operator(child: Child, operator: Operator) -> None:
    handle(child.endpoint, requests.Mute, operator.mute)
    handle(child.endpoint, requests.Unmute, operator.unmute)
    handle(child.endpoint, requests.Acknowledge, operator.acknowledge)
    handle(child.endpoint, requests.TestChannel, operator.test)
    handle(child.endpoint, requests.Explain, operator.explain)
    handle(child.endpoint, requests.SayRightOrWrong, operator.judge)


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
            channels=await asyncio.gather(
                *(_health(setting, lane, inspected) for setting, lane in switchboard.lanes())
            ),
        )

    async def probe() -> None:
        await ask(ref, Ping())

    handle(child.endpoint, Raise, take)
    handle(child.endpoint, NotifierHealth, health)
    child.on_probe(probe)


async def _health(setting: Setting, lane: Lane, inspected: Inspected) -> ChannelHealth:
    state, detail = await _state(setting, lane, inspected.switchboard)
    held = sum(setting.name in channels for channels in inspected.state.held.values())
    return ChannelHealth(
        name=setting.name,
        type=setting.type,
        state=state,
        detail=detail,
        queued=len(lane),
        min_severity=setting.min_severity,
        held=held,
    )


async def _state(setting: Setting, lane: Lane, switchboard: Switchboard) -> tuple[str, str]:
    if not setting.enabled:
        return "disabled", ""
    absent = switchboard.absent().get(setting.name)
    if absent:
        return "blind", absent
    if lane.down:
        return "down", lane.said
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
        state, detail = await _state(setting, lane, switchboard)
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
