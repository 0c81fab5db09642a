"""One channel's queue: order, timeout, retries, backlog; no real time passes except where a timeout is the subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from actors.messages import AlertState
from actors.notifier.channels.contract import Delivered, Failure, Rejected, Retry
from actors.notifier.delivery import Delivery, Settled
from actors.notifier.lane import MAX_WAIT_S, MAX_WAITING, Lane, Limits
from tests.unit.notifier.scripted import Scripted, delivery

BUSY = Retry(Failure.UNAVAILABLE, "busy")


class Bench:
    """A lane with a fake sleep; ``run`` queues messages and waits until as many are settled."""

    def __init__(self, channel: Scripted, *, retries: int = 1, timeout_s: float = 30.0) -> None:
        self.settled: list[Settled] = []
        self.slept: list[float] = []
        self._arrived = asyncio.Event()
        self.lane = Lane(channel, Limits(timeout_s, retries), self._settle, now=lambda: 7.0, sleep=self._sleep)

    def _settle(self, settled: Settled) -> None:
        self.settled.append(settled)
        self._arrived.set()

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def run(self, *deliveries: Delivery) -> list[tuple[str, str]]:
        before = len(self.settled)
        for one in deliveries:
            self.lane.put(one)
        while len(self.settled) < before + len(deliveries):
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 10)
        return [(settled.state, settled.reason) for settled in self.settled[before:]]


def on_bench(check: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(check())  # type: ignore[arg-type]


def test_lane_first_answer_delivered_settles_with_one_attempt() -> None:
    async def check() -> None:
        bench = Bench(Scripted())
        assert await bench.run(delivery()) == [("delivered", "")]
        assert (bench.settled[0].attempts, bench.settled[0].at) == (1, 7.0)

    on_bench(check)


def test_lane_retry_then_delivered_takes_two_attempts() -> None:
    async def check() -> None:
        bench = Bench(Scripted(BUSY))
        assert await bench.run(delivery()) == [("delivered", "")]
        assert bench.settled[0].attempts == 2
        assert len(bench.slept) == 1

    on_bench(check)


def test_lane_retries_used_up_fails_with_last_reason() -> None:
    async def check() -> None:
        bench = Bench(Scripted(BUSY, Retry(Failure.REFUSED, "no")), retries=1)
        assert await bench.run(delivery()) == [("failed", "refused")]
        assert bench.lane.failure is not None

    on_bench(check)


def test_lane_rejected_is_not_retried() -> None:
    async def check() -> None:
        channel = Scripted(Rejected(Failure.BLIND, "no bus"))
        bench = Bench(channel, retries=5)
        assert await bench.run(delivery()) == [("failed", "blind")]
        assert len(channel.got) == 1

    on_bench(check)


def test_lane_retry_after_is_honoured_up_to_its_bound() -> None:
    async def check() -> None:
        bench = Bench(Scripted(Retry(Failure.REFUSED, "x", 3.0), Retry(Failure.REFUSED, "x", 3600.0)), retries=2)
        await bench.run(delivery())
        assert bench.slept == [3.0, MAX_WAIT_S]

    on_bench(check)


def test_lane_channel_that_crashes_settles_and_goes_on() -> None:
    async def check() -> None:
        bench = Bench(Scripted(ValueError("bug")), retries=0)
        assert await bench.run(delivery(), delivery("other")) == [("failed", "crashed"), ("delivered", "")]

    on_bench(check)


def test_lane_channel_that_hangs_times_out() -> None:
    async def check() -> None:
        bench = Bench(Scripted(hang=True), retries=1, timeout_s=0.01)
        assert await bench.run(delivery()) == [("failed", "timeout")]
        assert bench.settled[0].attempts == 2

    on_bench(check)


def test_lane_hanging_channel_does_not_delay_another_lane() -> None:
    async def check() -> None:
        stuck = Bench(Scripted(hang=True), timeout_s=600)
        stuck.lane.put(delivery())
        assert await Bench(Scripted()).run(delivery()) == [("delivered", "")]
        assert stuck.settled == []
        assert len(await stuck.lane.stop()) == 1

    on_bench(check)


def test_lane_keeps_order() -> None:
    async def check() -> None:
        channel = Scripted(BUSY)
        await Bench(channel).run(*(delivery(f"k{number}") for number in range(50)))
        assert [alert.key for alert in channel.got[1:]] == [f"k{number}" for number in range(50)]

    on_bench(check)


def test_lane_resolve_of_failed_trigger_is_suppressed() -> None:
    async def check() -> None:
        bench = Bench(Scripted(Rejected(Failure.REFUSED, "no")))
        said = await bench.run(delivery(), delivery(state=AlertState.RESOLVE))
        assert said == [("failed", "refused"), ("suppressed", "not_told")]

    on_bench(check)


def test_lane_resolve_of_delivered_trigger_is_delivered_once() -> None:
    async def check() -> None:
        bench = Bench(Scripted())
        resolve = AlertState.RESOLVE
        said = await bench.run(delivery(), delivery(state=resolve), delivery(state=resolve))
        assert [state for state, _ in said] == ["delivered", "delivered", "suppressed"]

    on_bench(check)


def test_lane_backlog_sends_only_newest_of_each_key() -> None:
    async def check() -> None:
        channel = Scripted()
        bench = Bench(channel)
        flood = [delivery("noisy") for _ in range(MAX_WAITING * 3)]
        said = await bench.run(delivery("first"), *flood, delivery("quiet"))
        assert said[0] == ("delivered", "")
        assert said.count(("suppressed", "superseded")) == MAX_WAITING * 2 + 1
        assert channel.got[-2].last_effect == flood[-1].effect_id
        assert channel.got[-1].key == "quiet"

    on_bench(check)


def test_lane_replaced_channel_gets_the_next_message_and_keeps_what_was_told() -> None:
    async def check() -> None:
        old, new = Scripted(), Scripted()
        bench = Bench(old)
        await bench.run(delivery())
        bench.lane.replace(new)
        said = await bench.run(delivery(state=AlertState.RESOLVE), delivery("x"))
        assert said == [("delivered", ""), ("delivered", "")]
        assert old.closed
        assert new.got[0].state is AlertState.RESOLVE

    on_bench(check)


def test_lane_disabled_sends_nothing() -> None:
    async def check() -> None:
        channel = Scripted()
        bench = Bench(channel)
        bench.lane.enabled = False
        assert await bench.run(delivery()) == [("suppressed", "disabled")]
        assert channel.got == []

    on_bench(check)


def test_lane_stopped_returns_message_in_flight_and_waiting() -> None:
    async def check() -> None:
        channel = Scripted(hang=True)
        bench = Bench(channel, timeout_s=600)
        waiting = [delivery(), delivery()]
        for one in waiting:
            bench.lane.put(one)
        await asyncio.sleep(0)
        assert await bench.lane.stop() == waiting
        assert channel.closed

    on_bench(check)


def test_delivered_is_no_failure() -> None:
    async def check() -> None:
        bench = Bench(Scripted(Rejected(Failure.BLIND, "x"), Delivered()))
        await bench.run(delivery("a"), delivery("b"))
        assert bench.lane.failure is None

    on_bench(check)
