"""The notifier's actor: receives alert events, decides (``step``), commits (``outbox``), hands messages to the lanes.

Ordering: events of one dedup key are decided and committed one after the other, different keys at the same time; each
lane keeps the order of the commits. Nothing here waits: commits and deliveries are tasks that tell the actor their end.
State changes only after the commit. An offer whose commit fails is refused with code ``storage`` and must be
repeated; if it is critical it is shown at once all the same, from memory, once per channel (and ``degraded`` says so).
A crash of the actor ends the process (``fatal``), which comes back with what the store knows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from actors.knobs import Notifications
from actors.messages import Severity
from actors.notifier.alert import Outcome
from actors.notifier.channels.registry import CHANNELS, ChannelType
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.inbox import Inspect, Inspected, Load, NotRecorded, Offer, Ping, Reconfigure, Recorded
from actors.notifier.outbox import AlreadyRecorded, Outbox, Resumed
from actors.notifier.requests import Raise, Raised
from actors.notifier.step import Decision, NotifierState, apply, decide
from actors.notifier.switchboard import Switchboard
from actors.store.reader import Unreadable
from supervisor.bus.errors import BusError, Refused
from supervisor.dispatcher import LoopActor

__all__ = ["NotifierActor"]

RELOAD_S = 2.0
MAX_DIRECT = 1000

_log = logging.getLogger(__name__)


class NotifierActor(LoopActor):
    """See the module. ``now`` is wall time in epoch seconds; ``fatal`` gets the error of a crash."""

    def __init__(
        self,
        settings: Notifications,
        outbox: Outbox,
        *,
        fatal: asyncio.Future[None],
        types: Mapping[str, ChannelType] = CHANNELS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._switchboard = Switchboard(types, self.actor_ref.tell, now)
        self._settings = settings
        self._outbox = outbox
        self._fatal = fatal
        self._now = now
        self._state = NotifierState()
        self._offers: dict[str, deque[tuple[Raise, asyncio.Future[Raised]]]] = {}
        self._direct: dict[tuple[int, str], None] = {}
        self._doubtful: dict[str, None] = {}
        self._repeats = 0
        self._loaded = False
        self._degraded = ""
        self._commits: set[asyncio.Task[None]] = set()

    # pykka

    def on_start(self) -> None:
        self._switchboard.equip(self._settings)
        self._load(Load())

    def on_receive(self, message: Any) -> Any:
        return _HANDLERS[type(message)](self, message)

    def on_crash(self, error: BaseException | None) -> None:
        if not self._fatal.done():
            self._fatal.set_exception(RuntimeError(f"the notifier's actor crashed: {error!r}"))

    # messages

    def _load(self, _message: Load) -> None:
        try:
            resumed = self._outbox.resume()
        except Unreadable as error:
            self._degrade(str(error))
            asyncio.get_running_loop().call_later(RELOAD_S, self._load_later)
            return
        self._take_over(resumed)
        self._loaded = True

    def _offer(self, message: Offer) -> asyncio.Future[Raised]:
        answer: asyncio.Future[Raised] = asyncio.get_running_loop().create_future()
        key = message.raised.alert.key
        waiting = self._offers.setdefault(key, deque())
        waiting.append((message.raised, answer))
        if len(waiting) == 1:
            self._advance(key)
        return answer

    def _recorded(self, message: Recorded) -> None:
        decision = message.decision
        apply(self._state, decision)
        self._repeats += decision.outcome is Outcome.REPEATED
        for routed in decision.routed:
            self._direct.pop((decision.effect_id, routed.channel), None)
            if not routed.admitted:
                self._switchboard.count(routed.channel, decision.alert.state, "suppressed", routed.why)
        for delivery in message.deliveries:
            self._switchboard.dispatch(delivery)
        self._recover()
        self._answer(decision.alert.key, Raised(outcome=decision.outcome))

    def _not_recorded(self, message: NotRecorded) -> None:
        key = message.decision.alert.key
        self._doubtful[key] = None
        if isinstance(message.error, AlreadyRecorded):
            self._advance(key)
            return
        if not isinstance(message.error, BusError | Unreadable):
            raise message.error
        self._degrade(str(message.error))
        self._show_directly(message.decision)
        self._answer(key, Refused("storage", self._degraded))

    def _settled(self, settled: Settled) -> None:
        self._switchboard.account(settled)
        if settled.state == "failed":
            self._direct.pop((settled.delivery.effect_id, settled.delivery.channel), None)
        self._outbox.settle(settled)

    def _reconfigure(self, message: Reconfigure) -> None:
        self._switchboard.equip(message.settings)

    def _inspect(self, _message: Inspect) -> Inspected:
        return Inspected(len(self._state.open), self._repeats, self._degraded, self._switchboard)

    # offers of one key, one at a time

    def _advance(self, key: str) -> None:
        while waiting := self._offers.get(key):
            raised, _ = waiting[0]
            try:
                decision = self._decide(raised)
            except Unreadable as error:
                decision = decide(self._state, raised.effect_id, raised.alert, self._switchboard.rules)
                self.actor_ref.tell(NotRecorded(decision, error))
                return
            if decision.outcome is not Outcome.DUPLICATE:
                self._commit(decision)
                return
            self._finish(key, Raised(outcome=decision.outcome))

    def _decide(self, raised: Raise) -> Decision:
        """Decide on what memory holds; the store is asked where memory is in doubt or would drop the event.

        A commit without an answer may have happened, and a database that was replaced by an empty one counts anew.
        """
        key = raised.alert.key
        held = self._state.alert(key)
        if held is None or raised.effect_id <= held.last_effect or key in self._doubtful:
            resumed = self._outbox.resume_key(key)
            self._state.forget(key)
            self._take_over(resumed)
            self._doubtful.pop(key, None)
        return decide(self._state, raised.effect_id, raised.alert, self._switchboard.rules)

    def _commit(self, decision: Decision) -> None:
        task = asyncio.get_running_loop().create_task(self._record(decision))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _record(self, decision: Decision) -> None:
        sent = {channel for effect_id, channel in self._direct if effect_id == decision.effect_id}
        try:
            if not self._loaded:
                raise Unreadable(self._degraded)
            deliveries = await self._outbox.record(decision, sent, self._now())
        except Exception as error:  # noqa: BLE001 - the actor sorts it out, and crashes on what it does not know
            self.actor_ref.tell(NotRecorded(decision, error))
            return
        self.actor_ref.tell(Recorded(decision, deliveries))

    def _answer(self, key: str, answer: Raised | Refused) -> None:
        self._finish(key, answer)
        self._advance(key)

    def _finish(self, key: str, answer: Raised | Refused) -> None:
        _, future = self._offers[key].popleft()
        if not self._offers[key]:
            del self._offers[key]
        if future.done():  # its asker has gone
            return
        if isinstance(answer, Refused):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _take_over(self, resumed: Resumed) -> None:
        for alert in resumed.alerts:
            self._state.hold(alert)
            if alert.is_open:
                self._state.addressed[alert.key] = resumed.addressed[alert.key]
        for key, channels in resumed.told.items():
            self._switchboard.remember_told(key, channels)
        for delivery in resumed.pending:
            self._resume(delivery)

    # without storage

    def _load_later(self) -> None:
        if not self._loaded and self.actor_ref.is_alive():
            self.actor_ref.tell(Load())

    def _resume(self, delivery: Delivery) -> None:
        if (delivery.effect_id, delivery.channel) in self._direct:
            detail = "sent while the storage was away"
            self._outbox.settle(Settled(delivery=delivery, state="delivered", detail=detail, at=self._now()))
        else:
            self._switchboard.dispatch(delivery)

    def _show_directly(self, decision: Decision) -> None:
        alert = decision.alert
        if alert.severity is not Severity.CRITICAL or not alert.is_open:
            return
        for routed in decision.routed:
            mark = (decision.effect_id, routed.channel)
            if not routed.admitted or mark in self._direct:
                continue
            self._direct[mark] = None
            _log.error("storage is away: critical alert %s goes to %s directly", alert.key, routed.channel)
            self._switchboard.dispatch(
                Delivery(id=UNRECORDED, effect_id=decision.effect_id, channel=routed.channel, alert=alert)
            )
        while len(self._direct) > MAX_DIRECT:
            del self._direct[next(iter(self._direct))]

    def _degrade(self, why: str) -> None:
        if not self._degraded:
            _log.error("alerts are not durable, only critical ones are shown, from memory: %s", why)
        self._degraded = why

    def _recover(self) -> None:
        if self._degraded:
            self._degraded = ""
            _log.info("alerts are durable again")


_HANDLERS: dict[type, Callable[[NotifierActor, Any], Any]] = {
    Load: NotifierActor._load,
    Recorded: NotifierActor._recorded,
    NotRecorded: NotifierActor._not_recorded,
    Settled: NotifierActor._settled,
    Offer: NotifierActor._offer,
    Reconfigure: NotifierActor._reconfigure,
    Inspect: NotifierActor._inspect,
    Ping: lambda _actor, _message: None,
}
