"""One channel's queue: order, timeout, retries, backlog; no real time passes except where a timeout is the subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from actors.messages import AlertState, Severity
from actors.notifier.channels.contract import Delivered, Failure, Rejected, Retry
from actors.notifier.delivery import Delivery, Settled
from actors.notifier.lane import MAX_HELD, MAX_WAITING, Lane
from actors.notifier.patience import Limits
from tests.unit.notifier.scripted import Scripted, delivery

BUSY = Retry(Failure.UNAVAILABLE, "busy")


class Bench:
    """A lane whose waits pass at once on a fake clock; ``run`` queues messages and waits until as many are settled."""

    def __init__(
        self,
        channel: Scripted,
        *,
        retries: int | None = 1,
        timeout_s: float = 30.0,
        claimed: bool = False,
        circuit_after: int = 5,
    ) -> None:
        self.settled: list[Settled] = []
        self.slept: list[float] = []
        self.claims: list[str] = []
        self.downs: list[str] = []
        self.drained = 0
        self.clock = 0.0
        self._arrived = asyncio.Event()
        limits = Limits(timeout_s, retries, retry_for_s=100, retry_urgent_for_s=1000, circuit_after=circuit_after)
        self.lane = Lane(
            channel,
            limits,
            self._settle,
            claim=self._claim if claimed else None,
            on_drained=self._drain,
            on_down=self.downs.append,
            now=lambda: 7.0 + self.clock,
            mono=lambda: self.clock,
            wait=self._wait,
        )

    async def _claim(self, _delivery: Delivery, said: str) -> None:
        self.claims.append(said)

    def _drain(self) -> None:
        self.drained += 1

    async def _wait(self, event: asyncio.Event, seconds: float | None) -> None:
        if seconds is None:
            await event.wait()
        else:
            self.slept.append(seconds)
            self.clock += seconds
            await asyncio.sleep(0)

    def _settle(self, settled: Settled) -> None:
        self.settled.append(settled)
        self._arrived.set()

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


def test_lane_retry_after_is_honoured_and_holds_up_the_whole_channel() -> None:
    async def check() -> None:
        channel = Scripted(Retry(Failure.THROTTLED, "x", 3.0), Retry(Failure.THROTTLED, "x", 600.0))
        bench = Bench(channel, retries=None)
        bench.lane.limits = Limits(30.0, None, retry_for_s=10_000)
        await bench.run(delivery("a"), delivery("b"))
        assert bench.slept == [3.0, 600.0]
        assert [alert.key for alert in channel.got] == ["a", "b", "b", "a"] or len(channel.got) == 4

    on_bench(check)


def test_lane_network_channel_is_tried_until_its_time_is_up() -> None:
    async def check() -> None:
        bench = Bench(Scripted(*[BUSY] * 500), retries=None)
        warning = delivery()
        assert await bench.run(warning.model_copy(update={"created_at": 7.0})) == [("failed", "unavailable")]
        assert 100 <= bench.clock < 200

    on_bench(check)


def test_lane_critical_message_is_tried_longer_and_goes_first() -> None:
    async def check() -> None:
        channel = Scripted(*[BUSY] * 500)
        bench = Bench(channel, retries=None)
        base = delivery("c")
        critical = base.model_copy(
            update={"created_at": 7.0, "alert": base.alert.model_copy(update={"severity": Severity.CRITICAL})}
        )
        await bench.run(delivery("w").model_copy(update={"created_at": 7.0}), critical)
        assert channel.got[0].key == "c"
        assert bench.clock >= 1000

    on_bench(check)


def test_lane_message_that_fails_does_not_hold_up_other_keys() -> None:
    async def check() -> None:
        bench = Bench(Scripted(BUSY), retries=None)
        await bench.run(*(delivery(key) for key in ("bad", "good")))
        assert [settled.delivery.alert.key for settled in bench.settled] == ["good", "bad"]

    on_bench(check)


def test_lane_too_many_failures_in_a_row_is_down_and_one_success_mends_it() -> None:
    async def check() -> None:
        bench = Bench(Scripted(*[BUSY] * 4), retries=None, circuit_after=3)
        await bench.run(delivery("a").model_copy(update={"created_at": 7.0}))
        assert bench.downs == ["unavailable: busy"]
        assert not bench.lane.down

    on_bench(check)


LOST = Retry(Failure.TIMEOUT, "lost", ambiguous=True)


def test_lane_doubtful_message_comes_once_more_with_a_mark_and_no_third_time() -> None:
    async def check() -> None:
        channel = Scripted(LOST, LOST)
        bench = Bench(channel, retries=None, claimed=True)
        one = delivery().model_copy(update={"created_at": 7.0})
        assert await bench.run(one) == [("failed", "unknown")]
        assert [alert.doubtful for alert in channel.got] == [False, True]
        assert bench.claims == ["in flight 0", "waiting 1", "in flight 1", "waiting 2"]

    on_bench(check)


def test_lane_refusal_for_now_leaves_no_doubt() -> None:
    async def check() -> None:
        channel = Scripted(BUSY, BUSY, BUSY)
        bench = Bench(channel, retries=None, claimed=True)
        assert await bench.run(delivery().model_copy(update={"created_at": 7.0})) == [("delivered", "")]
        assert not any(alert.doubtful for alert in channel.got)

    on_bench(check)


def test_lane_idempotent_channel_repeats_a_lost_message_without_a_mark() -> None:
    async def check() -> None:
        channel = Scripted(LOST, LOST, LOST)
        bench = Bench(channel, retries=None)
        assert await bench.run(delivery().model_copy(update={"created_at": 7.0})) == [("delivered", "")]
        assert len({alert.message_id for alert in channel.got}) == 1
        assert not any(alert.doubtful for alert in channel.got)

    on_bench(check)


def test_lane_message_that_was_in_flight_at_a_crash_is_marked() -> None:
    async def check() -> None:
        channel = Scripted()
        bench = Bench(channel, claimed=True)
        await bench.run(delivery().model_copy(update={"doubts": 1}))
        assert channel.got[0].doubtful

    on_bench(check)


def test_lane_end_of_an_alert_waits_for_the_digest_that_told_of_it() -> None:
    async def check() -> None:
        channel = Scripted(BUSY, BUSY)
        bench = Bench(channel, retries=None)
        digest = delivery("digest:c").model_copy(update={"parts": {"a": True, "b": False}, "created_at": 7.0})
        said = await bench.run(digest, delivery("a", AlertState.RESOLVE), delivery("free"))
        assert [alert.key for alert in channel.got if alert.key != "free"] == ["digest:c"] * 2 + ["a"]
        assert said == [("delivered", "")] * 3
        assert await bench.run(delivery("b", AlertState.RESOLVE)) == [("suppressed", "not_told")]

    on_bench(check)


def test_lane_full_says_when_there_is_room_again() -> None:
    async def check() -> None:
        bench = Bench(Scripted())
        many = [delivery(f"k{number}") for number in range(MAX_HELD)]
        for one in many[:-1]:
            bench.lane.put(one)
        assert not bench.lane.full
        bench.lane.put(many[-1])
        assert bench.lane.full
        bench.lane.spilled = True
        await bench.run()
        while not bench.drained:
            await asyncio.sleep(0)
        assert len(bench.lane) <= MAX_HELD // 2

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


def test_lane_keeps_order_of_a_key_through_failures() -> None:
    async def check() -> None:
        channel = Scripted(BUSY, BUSY)
        many = [delivery("k") for _ in range(50)]
        await Bench(channel, retries=5).run(*many)
        assert [alert.last_effect for alert in channel.got[2:]] == [one.effect_id for one in many]

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
        assert said.count(("suppressed", "superseded")) == MAX_WAITING * 2
        assert flood[-1].effect_id in {alert.last_effect for alert in channel.got}
        assert "quiet" in {alert.key for alert in channel.got}

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
