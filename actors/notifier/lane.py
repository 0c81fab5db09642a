"""The queue of one channel: one task, one message at a time, so a hanging channel delays nobody but itself (P083).

Ordering: first in, first out, which keeps the order per dedup key. Bounded: past MAX_WAITING messages only the newest
of each key is sent. Each attempt ends after the timeout; attempts and their backoff are tenacity's. Never blocks its
callers. After a crash of the process the rows that are still pending are queued again by the actor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_random_exponential

from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Channel, Delivered, Failure, Retry
from actors.notifier.delivery import Delivery, Settled
from actors.notifier.step import why_skip

__all__ = ["MAX_WAITING", "Lane", "Limits"]

MAX_WAITING = 100
GRACE_S = 0.3  # at a stop: enough for a message that is being shown, so that it does not come twice
MAX_WAIT_S = 30.0  # one message must not stop the lane for the hour that a service may ask for

_log = logging.getLogger(__name__)
_backoff = wait_random_exponential(multiplier=0.5, max=MAX_WAIT_S)


@dataclass(frozen=True)
class Limits:
    """``retries`` are attempts after the first one."""

    timeout_s: float
    retries: int


class Lane:
    """Deliver queued messages through ``channel`` and report each end to ``on_settled`` (called on the loop)."""

    def __init__(
        self,
        channel: Channel,
        limits: Limits,
        on_settled: Callable[[Settled], None],
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.channel = channel
        self.limits = limits
        self.told: set[str] = set()
        self.failure: Settled | None = None
        self.enabled = True
        self._ending = False
        self._successor: Channel | None = None
        self._on_settled = on_settled
        self._now = now
        self._sleep = sleep
        self._queue: deque[Delivery] = deque()
        self._keys: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, delivery: Delivery) -> None:
        """Queue a message; returns at once."""
        self._queue.append(delivery)
        self._keys[delivery.alert.key] += 1
        self._wake.set()

    def replace(self, channel: Channel) -> None:
        """Go on with ``channel`` once the message in flight is settled."""
        self._successor = channel
        self._wake.set()

    async def stop(self) -> list[Delivery]:
        """End the task and return what was not settled; a message in flight is broken off after GRACE_S."""
        self._ending = True
        self._wake.set()
        await asyncio.wait({self._task}, timeout=GRACE_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.channel.close()
        return list(self._queue)

    async def _run(self) -> None:
        while not self._ending:
            await self._succeed()
            if self._queue:
                await self._settle(self._queue[0])
                continue
            self._wake.clear()
            await self._wake.wait()

    async def _succeed(self) -> None:
        if self._successor is not None:
            old, self.channel, self._successor = self.channel, self._successor, None
            self.failure = None
            await old.close()

    async def _settle(self, delivery: Delivery) -> None:
        """The message stays at the head until it is settled, so that ``stop`` returns it."""
        key = delivery.alert.key
        backlogged = len(self._queue) > MAX_WAITING
        skip = why_skip(delivery.alert, key in self.told, self._keys[key] > 1, backlogged, self.enabled)
        if skip is not None:
            settled = Settled(delivery=delivery, state="suppressed", reason=skip, at=self._now())
        else:
            settled = await self._send(delivery)
        self._queue.popleft()
        self._forget(key)
        self._on_settled(settled)

    def _forget(self, key: str) -> None:
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]

    async def _send(self, delivery: Delivery) -> Settled:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.limits.retries + 1),
            wait=_wait_s,
            retry=retry_if_result(lambda answer: isinstance(answer, Retry)),
            retry_error_callback=_last_answer,
            sleep=self._sleep,
        )
        answer: Answer = await retrying(self._attempt, delivery.alert)
        attempts = int(retrying.statistics.get("attempt_number", 1))
        return self._conclude(delivery, answer, attempts)

    async def _attempt(self, alert: Alert) -> Answer:
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await self.channel.deliver(alert, self._now())
        except TimeoutError:
            return Retry(Failure.TIMEOUT, f"no answer within {self.limits.timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 - a defect in one channel must not end the lane, and is shown like any failure
            _log.exception("channel crashed while delivering %s", alert.key)
            return Retry(Failure.CRASHED, f"{type(error).__name__}: {error}")

    def _conclude(self, delivery: Delivery, answer: Answer, attempts: int) -> Settled:
        at = self._now()
        if isinstance(answer, Delivered):
            self._remember(delivery.alert)
            self.failure = None
            return Settled(delivery=delivery, state="delivered", detail=answer.how, attempts=attempts, at=at)
        self.failure = Settled(
            delivery=delivery,
            state="failed",
            reason=answer.reason,
            detail=answer.detail,
            attempts=attempts,
            at=at,
        )
        return self.failure

    def _remember(self, alert: Alert) -> None:
        if alert.is_open:
            self.told.add(alert.key)
        else:
            self.told.discard(alert.key)


def _wait_s(state: RetryCallState) -> float:
    answer = state.outcome.result() if state.outcome else None
    if isinstance(answer, Retry) and answer.after_s is not None:
        return min(answer.after_s, MAX_WAIT_S)
    return _backoff(state)


def _last_answer(state: RetryCallState) -> Answer:
    assert state.outcome is not None
    answer: Answer = state.outcome.result()
    return answer
