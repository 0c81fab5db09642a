"""The queue of one channel: one task, one attempt at a time, so a hanging channel delays nobody but itself (P083).

Ordering: first in, first out per dedup key; of the keys that are ready, critical ones go first; a key that a waiting
digest is about goes after the digest. Bounded: past
MAX_WAITING messages only the newest of each key is sent, and past MAX_HELD the rest stays in the store until there is
room (``full``, ``on_drained``). Each attempt ends after the timeout; between two attempts of one message others go on,
unless the whole channel is told to wait (Retry-After) or is down. Never blocks its callers. Where the service has no
idempotency an attempt is written down before it is made (``claim``), so that a crash leaves at most one doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Channel, Delivered, Failure, Rejected, Retry
from actors.notifier.delivery import Delivery, Settled
from actors.notifier.patience import MOST_DOUBTS, Circuit, Limits, backoff_s, spent
from actors.notifier.step import why_skip

__all__ = ["MAX_HELD", "MAX_WAITING", "Claim", "Lane"]

MAX_WAITING = 100
MAX_HELD = 1000
GRACE_S = 0.3  # at a stop: enough for a message that is being shown, so that it does not come twice

_log = logging.getLogger(__name__)

Claim = Callable[[Delivery, str], Awaitable[None]]
Wait = Callable[[asyncio.Event, float | None], Awaitable[None]]


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _no_claim(_delivery: Delivery, _said: str) -> None:
    return None


class Lane:
    """Deliver queued messages through ``channel`` and report each end to ``on_settled`` (called on the loop).

    ``word`` makes of an alert what the channel shows; ``claim`` is None where the service is idempotent.
    """

    def __init__(
        self,
        channel: Channel,
        limits: Limits,
        on_settled: Callable[[Settled], None],
        *,
        word: Callable[[Alert], Alert] = lambda alert: alert,
        claim: Claim | None = None,
        on_drained: Callable[[], None] = lambda: None,
        on_down: Callable[[str], None] = lambda _said: None,
        now: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
        wait: Wait = _wait,
    ) -> None:
        self.channel = channel
        self.limits = limits
        self.word = word
        self.claim = claim
        self.told: set[str] = set()
        self.failure: Settled | None = None
        self.said = ""
        self.circuit = Circuit()
        self.enabled = True
        self.spilled = False
        self._ending = False
        self._successor: Channel | None = None
        self._on_settled = on_settled
        self._on_drained = on_drained
        self._on_down = on_down
        self._now = now
        self._mono = mono
        self._wait = wait
        self._keys: dict[str, deque[Delivery]] = {}
        self._ready: list[tuple[int, int, str]] = []
        self._waiting: list[tuple[float, int, str]] = []
        self._behind: dict[str, str] = {}
        self._parked: dict[str, list[str]] = {}
        self._count = 0
        self._turn = itertools.count()
        self._paused_until = 0.0
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= MAX_HELD

    @property
    def down(self) -> bool:
        return self.circuit.down(self.limits.circuit_after)

    def put(self, delivery: Delivery) -> None:
        """Queue a message; returns at once."""
        key = delivery.alert.key
        queue = self._keys.setdefault(key, deque())
        queue.append(delivery)
        self._count += 1
        self._behind.update(dict.fromkeys(delivery.parts, key))
        if len(queue) == 1:
            self._offer(delivery)
        self._wake.set()

    def replace(self, channel: Channel) -> None:
        """Go on with ``channel`` once the attempt in flight has ended."""
        self._successor = channel
        self._paused_until = 0.0
        self._wake.set()

    async def stop(self) -> list[Delivery]:
        """End the task and return what was not settled; an attempt in flight is broken off after GRACE_S."""
        self._ending = True
        self._wake.set()
        await asyncio.wait({self._task}, timeout=GRACE_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.channel.close()
        if self._successor is not None:
            await self._successor.close()
        return [delivery for queue in self._keys.values() for delivery in queue]

    async def _run(self) -> None:
        while not self._ending:
            await self._succeed()
            self._wake.clear()
            pause_s = self._pause_s()
            if self._ready and pause_s <= 0:
                await self._serve(heapq.heappop(self._ready)[2])
            else:
                await self._wait(self._wake, self._idle_s(pause_s))

    def _pause_s(self) -> float:
        """Make ready what has waited long enough; return how long the whole channel still has to wait."""
        mono = self._mono()
        while self._waiting and self._waiting[0][0] <= mono:
            _, _, key = heapq.heappop(self._waiting)
            self._offer(self._keys[key][0])
        return 0.0 if not self.enabled else self._paused_until - mono

    def _idle_s(self, pause_s: float) -> float | None:
        if self._ready:
            return pause_s
        return max(self._waiting[0][0] - self._mono(), 0.0) if self._waiting else None

    def _offer(self, delivery: Delivery) -> None:
        rank = 0 if delivery.alert.severity is Severity.CRITICAL else 1
        heapq.heappush(self._ready, (rank, next(self._turn), delivery.alert.key))

    async def _succeed(self) -> None:
        if self._successor is not None:
            old, self.channel, self._successor = self.channel, self._successor, None
            self.failure, self.said = None, ""
            self.circuit.worked()
            await old.close()

    async def _serve(self, key: str) -> None:
        """The message stays at the head of its key until it is settled, so that ``stop`` returns it."""
        if key in self._behind:
            self._parked.setdefault(self._behind[key], []).append(key)
            return
        queue = self._keys[key]
        delivery = queue[0]
        closes = delivery.alert.state in (AlertState.RESOLVE, AlertState.ACKNOWLEDGE)
        skip = why_skip(key in self.told, closes, len(queue) > 1, self._count > MAX_WAITING, self.enabled)
        if skip is not None:
            self._settle(Settled(delivery=delivery, state="suppressed", reason=skip, at=self._now()))
        elif self.claim is not None and delivery.doubts >= MOST_DOUBTS:
            self._settle(self._failed(delivery, Failure.UNKNOWN, "sent twice, and nobody knows whether it arrived"))
        else:
            await self._send(delivery)

    async def _send(self, delivery: Delivery) -> None:
        if self.claim is not None:
            await self.claim(delivery, f"in flight {delivery.doubts}")
        delivery = delivery.model_copy(update={"attempts": delivery.attempts + 1})
        answer = await self._attempt(delivery)
        if isinstance(answer, Delivered):
            self.circuit.worked()
            self._remember(delivery)
            self.failure, self.said = None, ""
            done = Settled(
                delivery=delivery, state="delivered", detail=answer.how, attempts=delivery.attempts, at=self._now()
            )
            self._settle(done)
        elif isinstance(answer, Rejected):
            self._settle(self._failed(delivery, answer.reason, answer.detail))
        else:
            await self._postpone(delivery, answer)

    async def _postpone(self, delivery: Delivery, answer: Retry) -> None:
        was_down, self.said = self.down, f"{answer.reason}: {answer.detail}"
        self.circuit.failed(self._now())
        if self.down and not was_down:
            self._on_down(self.said)
        doubts = delivery.doubts + answer.ambiguous
        delivery = delivery.model_copy(update={"doubts": doubts})
        if spent(delivery.alert, self.limits, delivery.attempts, self._now() - delivery.created_at):
            self._settle(self._failed(delivery, answer.reason, answer.detail))
            return
        if self.claim is not None:
            await self.claim(delivery, f"waiting {doubts}")
        wait_s = backoff_s(delivery.attempts, answer.after_s)
        due = self._mono() + wait_s
        if answer.reason is Failure.THROTTLED or self.down:
            self._paused_until = max(self._paused_until, due)
        key = delivery.alert.key
        self._keys[key][0] = delivery
        heapq.heappush(self._waiting, (due, next(self._turn), key))

    async def _attempt(self, delivery: Delivery) -> Answer:
        alert = delivery.alert
        if self.claim is not None and delivery.doubts:
            alert = alert.model_copy(update={"doubtful": True})
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await self.channel.deliver(self.word(alert), self._now())
        except TimeoutError:
            return Retry(Failure.TIMEOUT, f"no answer within {self.limits.timeout_s:g} s", ambiguous=True)
        except Exception as error:  # noqa: BLE001 - a defect in one channel must not end the lane, and is shown like any failure
            _log.exception("channel crashed while delivering %s", alert.key)
            return Retry(Failure.CRASHED, f"{type(error).__name__}: {error}", ambiguous=True)

    def _failed(self, delivery: Delivery, reason: Failure, detail: str) -> Settled:
        if delivery.doubts:
            self._remember(delivery)  # it may be there, so its end has to be told
        self.failure = Settled(
            delivery=delivery, state="failed", reason=reason, detail=detail, attempts=delivery.attempts, at=self._now()
        )
        return self.failure

    def _settle(self, settled: Settled) -> None:
        key = settled.delivery.alert.key
        queue = self._keys[key]
        queue.popleft()
        self._count -= 1
        if settled.delivery.parts:
            self._unpark(key)
        if queue:
            self._offer(queue[0])
        else:
            del self._keys[key]
        self._on_settled(settled)
        if self.spilled and self._count <= MAX_HELD // 2:
            self.spilled = False
            self._on_drained()

    def _unpark(self, digest: str) -> None:
        """A digest has gone: who waited for it goes on, unless another one is about it too."""
        if any(delivery.parts for delivery in self._keys.get(digest, ())):
            return
        self._behind = {key: behind for key, behind in self._behind.items() if behind != digest}
        for key in self._parked.pop(digest, []):
            self._offer(self._keys[key][0])

    def _remember(self, delivery: Delivery) -> None:
        alert = delivery.alert
        shown = delivery.parts or {alert.key: alert.is_open}
        for key, is_open in shown.items():
            (self.told.add if is_open else self.told.discard)(key)
