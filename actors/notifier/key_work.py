"""The work on dedup keys: each key's events and looks one after the other, different keys at the same time.

A decision is made on what memory holds, its messages are taken out of the budgets at once, and it goes to the store in
a task that tells the actor how that ended. Digests stop their keys until they are stored. Nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from actors.notifier.alert import Outcome
from actors.notifier.direct import Direct
from actors.notifier.inbox import DigestDone, NotRecorded, Recorded
from actors.notifier.memory import NotifierState
from actors.notifier.mute import Moment
from actors.notifier.outbox import Outbox
from actors.notifier.queues import Entry, KeyQueues
from actors.notifier.records import Resumed
from actors.notifier.requests import Raised
from actors.notifier.step import Decision, Digest, decide, digest, hold, reserve, review
from actors.notifier.switchboard import Switchboard
from actors.store.reader import Unreadable
from supervisor.bus.errors import BusError, Refused

__all__ = ["KeyWork"]

_log = logging.getLogger(__name__)


class KeyWork:
    """``tell`` gets Recorded, NotRecorded and DigestDone; ``loaded`` is set once the store has been read."""

    def __init__(
        self,
        state: NotifierState,
        outbox: Outbox,
        switchboard: Switchboard,
        direct: Direct,
        *,
        tell: Callable[[Any], None],
        clock: Callable[[], Moment],
    ) -> None:
        self.loaded = False
        self._state = state
        self._outbox = outbox
        self._switchboard = switchboard
        self._direct = direct
        self._tell = tell
        self._clock = clock
        self._queues = KeyQueues()
        self._doubtful: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def doubt(self, key: str) -> None:
        """What memory holds of ``key`` may be wrong: read it again before the next decision."""
        self._doubtful[key] = None

    def finish(self, key: str, answer: Raised | Refused) -> None:
        """The head of ``key`` is done: answer it and go on."""
        self._queues.finish(key, answer)
        self.advance(key)

    def take_over(self, resumed: Resumed) -> None:
        """Hold what the store knows, and dispatch what it owes."""
        for alert in resumed.alerts:
            self._state.hold(alert)
            self._state.told[alert.key] = resumed.told[alert.key]
            self._switchboard.remember_told(alert.key, resumed.shown[alert.key])
        self._state.acknowledged |= resumed.acknowledged
        for delivery in resumed.pending:
            self._direct.resume(delivery)

    def enqueue(self, key: str, entry: Entry) -> None:
        if self._queues.put(key, entry):
            self.advance(key)

    def look_at(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self.enqueue(key, Entry())

    def advance(self, key: str) -> None:
        while (entry := self._queues.head(key)) is not None:
            try:
                self._refresh(key, entry)
            except Unreadable as error:
                self._unreadable(key, entry, error)
                return
            decision = self._decide(key, entry)
            if decision is not None and self._matters(decision):
                reserve(self._state, decision.routed, self._switchboard.rules, self._clock())
                self._start(self._record(decision))
                return
            outcome = decision.outcome if decision is not None else Outcome.DUPLICATE
            self._queues.finish(key, Raised(outcome=outcome))

    def _decide(self, key: str, entry: Entry) -> Decision | None:
        now, rules = self._clock(), self._switchboard.rules
        if entry.raised is not None:
            return decide(self._state, entry.raised.effect_id, entry.raised.alert, rules, now)
        decision = review(self._state, key, rules, now)
        if decision is not None and not decision.admits:
            hold(self._state, decision, now)
        return decision

    def _matters(self, decision: Decision) -> bool:
        if decision.outcome is Outcome.REVIEWED:
            return decision.admits
        return decision.outcome is not Outcome.DUPLICATE

    def _refresh(self, key: str, entry: Entry) -> None:
        """Ask the store where memory is in doubt or would drop the event. Raises Unreadable.

        A commit without an answer may have happened, and a database that was replaced by an empty one counts anew.
        """
        held, raised = self._state.alert(key), entry.raised
        stale = raised is not None and (held is None or raised.effect_id <= held.last_effect)
        if stale or key in self._doubtful:
            resumed = self._outbox.resume_key(key)
            self._state.forget(key)
            self.take_over(resumed)
            self._doubtful.pop(key, None)

    def _unreadable(self, key: str, entry: Entry, error: Unreadable) -> None:
        if entry.raised is None:
            self._direct.degrade(str(error))
            self._queues.finish(key, Raised())
            return
        raised, rules = entry.raised, self._switchboard.rules
        decision = decide(self._state, raised.effect_id, raised.alert, rules, self._clock())
        self._tell(NotRecorded(decision, error))

    async def _record(self, decision: Decision) -> None:
        sent = self._direct.sent(decision.effect_id)
        try:
            if not self.loaded:
                raise Unreadable(self._direct.degraded)
            deliveries = await self._outbox.record(decision, sent, self._clock().wall)
        except Exception as error:  # noqa: BLE001 - the actor sorts it out, and crashes on what it does not know
            self._tell(NotRecorded(decision, error))
            return
        self._tell(Recorded(decision, deliveries))

    def sum_up(self, now: Moment) -> None:
        """Send digests; their keys wait meanwhile, and keys that are in work wait for the next digest."""
        for rule in self._switchboard.rules:
            made = digest(self._state, rule, now, busy=self._queues)
            if made is not None:
                self._state.bucket(rule, now).take(now.mono)
                for alert, _ in made.parts:
                    self._queues.put(alert.key, Entry())
                self._start(self._record_digest(made))

    async def _record_digest(self, made: Digest) -> None:
        delivery = None
        try:
            delivery = await self._outbox.record_digest(made, self._clock().wall)
        except BusError as error:
            _log.warning("a digest for %s could not be written down: %s", made.channel, error)
        self._tell(DigestDone(made, delivery))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
