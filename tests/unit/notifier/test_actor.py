"""The actor between a real bus, a real writer with faults on demand, and scripted channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pykka
import pytest

from actors.channel_knobs import DesktopChannel, RateLimit
from actors.knobs import Notifications
from actors.knobs import Store as StoreKnobs
from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.actor import NotifierActor
from actors.notifier.channels.contract import Failure, Rejected, Retry
from actors.notifier.channels.registry import ChannelType
from actors.notifier.delivery import Delivery
from actors.notifier.inbox import Inspect, Look, Offer, Reconfigure, Silenced
from actors.notifier.lane import MAX_HELD
from actors.notifier.mute import Silence
from actors.notifier.outbox import Outbox
from actors.notifier.requests import Raise
from actors.store.alert_reader import AlertReader
from actors.store.database import FILE_NAME
from actors.store.keeper import Desk
from actors.store.requests import Commit, Committed
from actors.store.writer import Writer
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.bus.refs import Ref, handle
from supervisor.dispatcher import ask
from tests.unit.notifier.scripted import Scripted


@dataclass
class Bench:
    """``fault`` is called with every commit after it was made; it may raise to lose the answer."""

    ref: pykka.ActorRef[NotifierActor]
    outbox: Outbox
    reader: AlertReader
    channels: dict[str, Scripted]
    fatal: asyncio.Future[None]
    fault: Callable[[Commit], None] = field(default=lambda _commit: None)
    mono: float = 0.0

    async def offer(self, number: int, state: AlertState, severity: Severity = Severity.WARNING) -> str:
        alert = AlertEffect(key="k", state=state, severity=severity, title="t", summary="s", t=5.0)
        outcome: str = (await ask(self.ref, Offer(Raise(effect_id=number, alert=alert)))).outcome
        return outcome

    async def settled(self, channel: str, count: int, within_s: float = 10.0) -> None:
        """Wait until the channel got ``count`` messages and has nothing left."""
        async with asyncio.timeout(within_s):
            while len(self.channels[channel].got) < count:
                await asyncio.sleep(0.001)
        await self.rest()

    async def rest(self) -> list[str]:
        """Wait until all lanes are empty and written; return the states of the deliveries, oldest first."""
        inspected = await ask(self.ref, Inspect())
        while any(len(lane) for _, lane in inspected.switchboard.lanes()):
            await asyncio.sleep(0)
        await ask(self.ref, Inspect())
        await self.outbox.flush()
        logs = self.reader.alert_log(limit=-1)[::-1]
        return [f"{row.channel} {row.action} {row.state}" for log in logs for row in self.reader.deliveries(log.id)]

    def seen(self, channel: str) -> list[str]:
        return [alert.state.value for alert in self.channels[channel].got]


def settings(*names: str, **values: Any) -> Notifications:
    """Without damping: the tests send what an operator would never see so fast."""
    values = {"rate_limit": RateLimit(burst=10_000), **values}
    channels = tuple(DesktopChannel(name=name, **values) for name in names)
    return Notifications(channels=channels, retries=0, flap_changes=1000)


@asynccontextmanager
async def bench(directory: Path, **channels: Scripted) -> AsyncIterator[Bench]:
    keeper, own = Endpoint("keeper", directory), Endpoint("notifier", directory)
    writer = Writer(directory / FILE_NAME, StoreKnobs)
    await writer.start()
    desk = Desk(writer)

    async def commit(request: Commit) -> Committed:
        answer = await desk.commit(request)
        made.fault(request)
        return answer

    handle(keeper, Commit, commit)
    await keeper.start()
    await own.start()
    reader = AlertReader(directory / FILE_NAME)
    outbox = Outbox(Ref(own, "keeper"), reader)
    fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    clock: list[Any] = [SimpleNamespace(mono=0.0)]
    types = {
        "desktop": ChannelType(
            build=lambda setting, _tools: channels[setting.name], lifecycle=True, idempotent=True, local=True
        )
    }
    ref = NotifierActor.start(
        settings(*channels), outbox, fatal=fatal, types=types, now=lambda: 9.0, mono=lambda: clock[0].mono
    )
    clock[0] = made = Bench(ref, outbox, reader, channels, fatal)
    try:
        yield made
    finally:
        if ref.is_alive():
            await (await ask(ref, Inspect())).switchboard.stop()
            ref.stop(block=False)
        await own.stop()
        await keeper.stop()
        await writer.stop()


def on_bench(directory: Path, check: Callable[[Bench], Awaitable[None]], **channels: Scripted) -> None:
    async def run() -> None:
        async with bench(directory, **channels) as made:
            await check(made)

    asyncio.run(run())


def lose_answer_once(op: str) -> Callable[[Commit], None]:
    """Return a fault that refuses the first commit with ``op`` although it was made."""
    left = [op]

    def fault(request: Commit) -> None:
        if left and any(write.op == left[0] for write in request.writes):
            left.clear()
            raise Refused("busy", "the answer was lost")

    return fault


def test_actor_every_channel_gets_every_transition_in_order(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        assert await made.offer(1, AlertState.TRIGGER) == "opened"
        assert await made.offer(2, AlertState.ESCALATE, Severity.CRITICAL) == "escalated"
        assert await made.offer(3, AlertState.RESOLVE) == "resolved"
        states = await made.rest()
        assert len([state for state in states if state.endswith("delivered")]) == 6
        assert made.seen("a") == made.seen("b") == ["trigger", "escalate", "resolve"]

    on_bench(tmp_path, check, a=Scripted(), b=Scripted())


def test_actor_offers_of_one_key_at_once_keep_their_order(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        states = [AlertState.TRIGGER, AlertState.RESOLVE] * 20
        said = await asyncio.gather(*(made.offer(number, state) for number, state in enumerate(states, 1)))
        assert said == ["opened", "resolved"] * 20
        await made.rest()
        assert made.seen("a") == ["trigger", "resolve"] * 20

    on_bench(tmp_path, check, a=Scripted())


@pytest.mark.parametrize("lost", ["alert_log.add", "delivery.add"])
def test_actor_lost_answer_of_a_commit_then_repeat_is_one_alert(tmp_path: Path, lost: str) -> None:
    async def check(made: Bench) -> None:
        made.fault = lose_answer_once(lost)
        with pytest.raises(Refused, match="storage"):
            await made.offer(1, AlertState.TRIGGER)
        assert await made.offer(1, AlertState.TRIGGER) in ("opened", "duplicate")
        assert await made.offer(2, AlertState.RESOLVE) == "resolved"
        assert await made.rest() == ["a trigger delivered", "a resolve delivered"]
        assert made.seen("a") == ["trigger", "resolve"]

    on_bench(tmp_path, check, a=Scripted())


@pytest.mark.parametrize("lost", ["alert_log.add", "delivery.add"])
def test_actor_critical_shown_directly_is_not_shown_again_after_the_commit(tmp_path: Path, lost: str) -> None:
    async def check(made: Bench) -> None:
        made.fault = lose_answer_once(lost)
        with pytest.raises(Refused):
            await made.offer(1, AlertState.TRIGGER, Severity.CRITICAL)
        assert (await ask(made.ref, Inspect())).degraded
        await made.offer(1, AlertState.TRIGGER, Severity.CRITICAL)
        assert await made.rest() == ["a trigger delivered"]
        assert made.seen("a") == ["trigger"]
        await made.offer(2, AlertState.RESOLVE)
        await made.rest()
        assert made.seen("a") == ["trigger", "resolve"]

    on_bench(tmp_path, check, a=Scripted())


@pytest.mark.parametrize("lost", ["alert_log.add", "delivery.add"])
def test_actor_lost_answer_of_an_escalation_then_repeat_is_one_message(tmp_path: Path, lost: str) -> None:
    async def check(made: Bench) -> None:
        await made.offer(1, AlertState.TRIGGER)
        made.fault = lose_answer_once(lost)
        with pytest.raises(Refused):
            await made.offer(2, AlertState.ESCALATE, Severity.CRITICAL)
        await asyncio.wait_for(made.offer(2, AlertState.ESCALATE, Severity.CRITICAL), 10)
        assert await made.offer(3, AlertState.RESOLVE) == "resolved"
        assert len(await made.rest()) == 3
        assert made.seen("a") == ["trigger", "escalate", "resolve"]

    on_bench(tmp_path, check, a=Scripted())


def test_switchboard_same_row_twice_is_one_message(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        await made.offer(1, AlertState.TRIGGER)
        await made.rest()
        switchboard = (await ask(made.ref, Inspect())).switchboard
        (row,) = made.reader.deliveries(made.reader.alert_log()[0].id)
        again = Delivery(id=row.id, effect_id=1, channel="a", alert=made.channels["a"].got[0])
        switchboard.dispatch(again)
        await made.rest()
        assert made.seen("a") == ["trigger"]

    on_bench(tmp_path, check, a=Scripted())


def test_actor_failed_direct_message_is_sent_again_after_the_commit(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.fault = lose_answer_once("alert_log.add")
        with pytest.raises(Refused):
            await made.offer(1, AlertState.TRIGGER, Severity.CRITICAL)
        await made.rest()
        assert await made.offer(1, AlertState.TRIGGER, Severity.CRITICAL) == "opened"
        assert await made.rest() == ["a trigger delivered"]

    on_bench(tmp_path, check, a=Scripted(Rejected(Failure.REFUSED, "not now")))


def test_actor_failure_is_recorded_with_its_reason_and_other_channels_go_on(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        await made.offer(1, AlertState.TRIGGER)
        await made.offer(2, AlertState.RESOLVE)
        assert await made.rest() == [
            "a trigger failed",
            "b trigger delivered",
            "a resolve suppressed",
            "b resolve delivered",
        ]
        inspected = await ask(made.ref, Inspect())
        counts = {(c.channel, c.action, c.result, c.reason): c.count for c in inspected.switchboard.counts()}
        assert counts[("a", "trigger", "failed", "blind")] == 1
        assert counts[("a", "resolve", "suppressed", "not_told")] == 1

    on_bench(tmp_path, check, a=Scripted(Rejected(Failure.BLIND, "no bus")), b=Scripted())


def test_actor_hanging_channel_delays_neither_commit_nor_other_channel(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        for number in range(1, 21):
            await made.offer(number, AlertState.TRIGGER if number % 2 else AlertState.RESOLVE)
        lanes = {s.name: lane for s, lane in (await ask(made.ref, Inspect())).switchboard.lanes()}
        while len(lanes["b"]):
            await asyncio.sleep(0)
        assert made.seen("b") == ["trigger", "resolve"] * 10
        assert made.seen("a") == ["trigger"]

    on_bench(tmp_path, check, a=Scripted(hang=True), b=Scripted())


def test_actor_channel_no_longer_configured_gives_its_queue_back(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        await made.offer(1, AlertState.TRIGGER)
        made.ref.tell(Reconfigure(settings("b")))
        while len(await made.rest()) == 2 and "pending" in " ".join(await made.rest()):
            await asyncio.sleep(0)
        assert await made.rest() == ["a trigger suppressed", "b trigger delivered"]
        assert made.channels["a"].closed

    on_bench(tmp_path, check, a=Scripted(hang=True), b=Scripted())


def test_actor_raised_min_severity_is_used_from_the_next_event(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.ref.tell(Reconfigure(settings("a", min_severity=Severity.CRITICAL)))
        await made.offer(1, AlertState.TRIGGER)
        assert await made.rest() == ["a trigger suppressed"]
        await made.offer(2, AlertState.ESCALATE, Severity.CRITICAL)
        await made.rest()
        assert made.seen("a") == ["trigger"]

    on_bench(tmp_path, check, a=Scripted())


def test_actor_invalid_commit_is_refused_and_not_taken_for_done(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        def fault(_request: Commit) -> None:
            raise Refused("storage", "disk full")

        made.fault = fault
        with pytest.raises(Refused) as refused:
            await made.offer(1, AlertState.TRIGGER)
        assert "disk full" in str(refused.value.detail)
        assert made.seen("a") == []

    on_bench(tmp_path, check, a=Scripted())


def message_of(key: str, number: int, state: AlertState = AlertState.TRIGGER) -> Offer:
    alert = AlertEffect(key=key, state=state, severity=Severity.WARNING, title=f"about {key}", summary="s", t=5.0)
    return Offer(Raise(effect_id=number, alert=alert))


def test_actor_silence_holds_back_and_its_end_tells_at_once(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.ref.tell(Silenced(Silence(id=1, key="k", until=100.0)))
        await made.offer(1, AlertState.TRIGGER)
        assert await made.rest() == ["a trigger suppressed"]
        made.ref.tell(Silenced(Silence(id=1, key="k", until=9.0)))
        await made.settled("a", 1)
        assert await made.rest() == ["a trigger suppressed", "a trigger delivered"]

    on_bench(tmp_path, check, a=Scripted())


def test_actor_budget_gone_sends_one_digest_that_tells_of_all(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        few = RateLimit(burst=1, every_s=60)
        made.ref.tell(Reconfigure(settings("a", rate_limit=few)))
        for number in range(1, 6):
            await ask(made.ref, message_of(f"k{number}", number))
        made.mono += 60
        made.ref.tell(Look())
        await made.settled("a", 2)
        first, digest = made.channels["a"].got
        assert (first.key, digest.title) == ("k1", "4 alerts held back: 4 open, 0 resolved")
        await ask(made.ref, message_of("k3", 9, AlertState.RESOLVE))
        made.mono += 600
        made.ref.tell(Look())
        await made.settled("a", 3)
        assert made.channels["a"].got[2].state is AlertState.RESOLVE
        states = await made.rest()
        assert states.count("a trigger delivered") == 2  # the first alert and the digest

    on_bench(tmp_path, check, a=Scripted())


def test_actor_digest_whose_commit_got_no_answer_is_sent_all_the_same(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.ref.tell(Reconfigure(settings("a", rate_limit=RateLimit(burst=1, every_s=60))))
        for number in range(1, 4):
            await ask(made.ref, message_of(f"k{number}", number))
        await made.settled("a", 1)
        left = [1]

        def fault(request: Commit) -> None:
            if left and any(write.row.get("source") == "digest" for write in request.writes):
                left.clear()
                raise Refused("storage", "the answer was lost")

        made.fault = fault
        made.mono += 60
        made.ref.tell(Look())
        await made.settled("a", 2)
        assert made.channels["a"].got[1].title == "2 alerts held back: 2 open, 0 resolved"

    on_bench(tmp_path, check, a=Scripted())


def test_actor_channel_that_is_down_is_told_by_the_others_not_by_itself(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.ref.tell(Reconfigure(settings("a", "b").model_copy(update={"circuit_after": 1, "retries": 5})))
        await made.offer(1, AlertState.TRIGGER)
        await made.settled("b", 3)
        titles = [alert.title for alert in made.channels["b"].got]
        assert sorted(titles[1:]) == ["channel a is down", "channel a works again"]
        assert all(not alert.title.startswith("channel") for alert in made.channels["a"].got)

    on_bench(tmp_path, check, a=Scripted(Retry(Failure.UNAVAILABLE, "gone", 0.0)), b=Scripted())


def test_actor_full_lane_leaves_the_rest_in_the_store_and_fetches_it(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        number = 2 * MAX_HELD
        await asyncio.gather(*(ask(made.ref, message_of(f"k{n}", n)) for n in range(1, number + 1)))
        lanes = {s.name: lane for s, lane in (await ask(made.ref, Inspect())).switchboard.lanes()}
        assert len(lanes["a"]) <= MAX_HELD
        await made.settled("a", number, within_s=60)
        assert len({alert.key for alert in made.channels["a"].got}) == number

    on_bench(tmp_path, check, a=Scripted())


def test_actor_first_contact_is_a_notice_that_is_never_open(tmp_path: Path) -> None:
    async def check(made: Bench) -> None:
        made.ref.tell(Reconfigure(settings("a", min_severity=Severity.INFO)))
        (await ask(made.ref, Inspect())).announcer.contact("contact:x", "now watching x", "version 1")
        await made.settled("a", 1)
        assert made.channels["a"].got[0].title == "now watching x"
        assert (await ask(made.ref, Inspect())).alerts_open == 0

    on_bench(tmp_path, check, a=Scripted())
