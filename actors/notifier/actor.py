"""The notifier's actor: receives alert events, decides (``step``), commits (``outbox``), hands messages to the lanes.

Ordering: events of one dedup key are decided and committed one after the other, different keys at the same time; each
lane keeps the order of the commits. Nothing here waits: commits and deliveries are tasks that tell the actor their end.
State changes only after the commit. An offer whose commit fails is refused with code ``storage`` and must be
repeated; if it is critical it is shown at once all the same, from memory, once per channel (and ``degraded`` says so).
What is held back is looked at again when it is due, and at once when a silence ends or the settings change.
A crash of the actor ends the process (``fatal``), which comes back with what the store knows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from actors.knobs import Notifications
from actors.notifier.alert import Outcome
from actors.notifier.announcer import Announcer
from actors.notifier.channels.registry import CHANNELS, ChannelType, Tools
from actors.notifier.delivery import Settled
from actors.notifier.direct import Direct
from actors.notifier.inbox import (
    DigestDone,
    Inspect,
    Inspected,
    Load,
    Look,
    NotRecorded,
    Offer,
    Ping,
    Reconfigure,
    Recorded,
    Send,
    Silenced,
    TakenOn,
)
from actors.notifier.key_work import KeyWork
from actors.notifier.memory import Flapping, NotifierState
from actors.notifier.mute import Moment, Silence
from actors.notifier.outbox import LONG_COMMIT_S, AlreadyRecorded, Outbox
from actors.notifier.queues import Entry
from actors.notifier.requests import Raised
from actors.notifier.step import apply, apply_digest
from actors.notifier.switchboard import Switchboard
from actors.notifier.turns import Down, Drained
from actors.store.reader import Unreadable
from supervisor.bus.errors import BusError, Refused
from supervisor.dispatcher import LoopActor

__all__ = ["NotifierActor"]

RELOAD_S = 2.0
LOOK_S = 15.0  # at least so often while anything is held back: a wall clock that jumped is seen
REFILL = 500

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
        tools: Callable[[str], Tools] = lambda _channel: Tools(),
        now: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        tell = self.actor_ref.tell
        self._switchboard = Switchboard(types, tell, now, claim=outbox.claim, tools=tools)
        self._announcer = Announcer(outbox, lambda raised: tell(Offer(raised)), now)
        self._direct = Direct(self._switchboard, outbox, now)
        self._settings = settings
        self._outbox = outbox
        self._fatal = fatal
        self._now = now
        self._mono = mono
        self._state = NotifierState()
        self._sent: dict[int, asyncio.Future[Settled]] = {}
        self._work = KeyWork(self._state, outbox, self._switchboard, self._direct, tell=tell, clock=self._moment)
        self._repeats = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def on_start(self) -> None:
        self._equip(self._settings)
        self._load(Load())

    def on_receive(self, message: Any) -> Any:
        return _HANDLERS[type(message)](self, message)

    def on_crash(self, error: BaseException | None) -> None:
        if not self._fatal.done():
            self._fatal.set_exception(RuntimeError(f"the notifier's actor crashed: {error!r}"))

    def on_stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._announcer.stop()

    # messages

    def _load(self, _message: Load) -> None:
        try:
            silences = self._outbox.reader.silences(self._now())
            resumed = self._outbox.resume()
        except Unreadable as error:
            self._direct.degrade(str(error))
            asyncio.get_running_loop().call_later(RELOAD_S, self._tell_later, Load())
            return
        for row in silences:
            fields = row._asdict()
            self._state.silences[row.id] = Silence.model_validate(fields | {"by": row.by_whom})
        self._work.take_over(resumed)
        self._work.loaded = True
        self._look(Look(everything=True))
        self._announcer.channels(self._switchboard.absent(), self._state.open)

    def _offer(self, message: Offer) -> asyncio.Future[Raised]:
        answer: asyncio.Future[Raised] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_seen)
        self._work.enqueue(message.raised.alert.key, Entry(message.raised, answer))
        return answer

    def _recorded(self, message: Recorded) -> None:
        decision, key = message.decision, message.decision.alert.key
        apply(self._state, decision, self._moment())
        self._repeats += decision.outcome is Outcome.REPEATED
        for routed in decision.routed:
            self._direct.forget(decision.effect_id, routed.channel)
            if not routed.admitted and decision.outcome is not Outcome.REVIEWED:
                self._switchboard.count(routed.channel, decision.alert.state, "suppressed", routed.why)
        for delivery in message.deliveries:
            self._switchboard.dispatch(delivery)
        self._direct.recover()
        self._work.finish(key, Raised(outcome=decision.outcome))
        if decision.outcome.is_transition:
            self._work.look_at(self._state.groups.get(key, ()))
        self._arm()

    def _not_recorded(self, message: NotRecorded) -> None:
        key = message.decision.alert.key
        self._work.doubt(key)
        if isinstance(message.error, AlreadyRecorded):
            self._work.advance(key)
            return
        if not isinstance(message.error, BusError | Unreadable):
            raise message.error
        self._direct.degrade(str(message.error))
        self._direct.show(message.decision)
        self._work.finish(key, Refused("storage", self._direct.degraded))
        self._arm()

    def _settled(self, settled: Settled) -> None:
        self._switchboard.account(settled)
        if settled.state == "failed":
            self._direct.forget(settled.delivery.effect_id, settled.delivery.channel)
        elif settled.state == "delivered":
            self._announcer.works(settled.delivery.channel, self._state.open)
        self._outbox.settle(settled)
        waiting = self._sent.pop(settled.delivery.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(settled)

    def _reconfigure(self, message: Reconfigure) -> None:
        self._equip(message.settings)
        self._announcer.channels(self._switchboard.absent(), self._state.open)
        self._look(Look(everything=True))

    def _inspect(self, _message: Inspect) -> Inspected:
        return Inspected(
            alerts_open=len(self._state.open),
            repeats=self._repeats,
            degraded=self._direct.degraded,
            switchboard=self._switchboard,
            state=self._state,
            announcer=self._announcer,
            degraded_now=lambda: self._direct.degraded,
        )

    def _look(self, message: Look) -> None:
        now = self._moment()
        self._work.sum_up(now)
        keys = self._state.due(now)
        if message.everything:
            keys = list(dict.fromkeys([*self._state.held, *self._state.open]))
        self._work.look_at(keys)
        self._arm()

    def _digest_done(self, message: DigestDone) -> None:
        keys = [alert.key for alert, _ in message.digest.parts]
        if message.delivery is None:
            for key in keys:
                self._work.doubt(key)
            # nobody knows whether it was written, or will be: what is owed is in the store, now or later
            for wait_s in (0.0, LONG_COMMIT_S):
                asyncio.get_running_loop().call_later(wait_s, self._tell_later, Drained(message.digest.channel))
        else:
            apply_digest(self._state, message.digest)
            self._switchboard.dispatch(message.delivery)
        for key in keys:
            self._work.finish(key, Raised())
        self._arm()

    def _silenced(self, message: Silenced) -> None:
        self._state.silences[message.silence.id] = message.silence
        self._look(Look(everything=True))

    def _taken_on(self, message: TakenOn) -> None:
        alert = self._state.open.get(message.key)
        if alert is None or alert.opened_at != message.opened_at:
            return
        self._state.acknowledged[message.key] = message.severity
        for delivery in message.deliveries:
            self._switchboard.dispatch(delivery)
        self._work.look_at([message.key])

    def _send(self, message: Send) -> asyncio.Future[Settled]:
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._sent[message.delivery.id] = future
        self._switchboard.dispatch(message.delivery)
        return future

    def _down(self, message: Down) -> None:
        self._announcer.down(message.channel, message.said)

    def _drained(self, message: Drained) -> None:
        try:
            owed = self._outbox.owed(message.channel, REFILL)
        except Unreadable as error:
            self._direct.degrade(str(error))
            return
        for delivery in owed:
            self._switchboard.dispatch(delivery)

    # what is around

    def _equip(self, settings: Notifications) -> None:
        self._settings = settings
        self._switchboard.equip(settings)
        self._state.flapping = Flapping(
            changes=settings.flap_changes, window_s=settings.flap_window_s, settle_s=settings.flap_settle_s
        )

    def _tell_later(self, message: Any) -> None:
        if self.actor_ref.is_alive():
            self.actor_ref.tell(message)

    def _moment(self) -> Moment:
        return Moment(self._now(), self._mono())

    def _arm(self) -> None:
        """Wake up when the next key is due; what is due sooner than the alarm moves it."""
        if not self._state.held:
            return
        due, loop = self._state.next_due(), asyncio.get_running_loop()
        at = loop.time() + (LOOK_S if due is None else min(max(due - self._mono(), 0.0), LOOK_S))
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        self._alarm, self._alarm_at = loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        self._tell_later(Look())


def _seen(future: asyncio.Future[Raised]) -> None:
    """A refusal whose asker has gone is no defect."""
    if not future.cancelled():
        future.exception()


_HANDLERS: dict[type, Callable[[NotifierActor, Any], Any]] = {
    Load: NotifierActor._load,
    Look: NotifierActor._look,
    Recorded: NotifierActor._recorded,
    NotRecorded: NotifierActor._not_recorded,
    Settled: NotifierActor._settled,
    Offer: NotifierActor._offer,
    Reconfigure: NotifierActor._reconfigure,
    Inspect: NotifierActor._inspect,
    DigestDone: NotifierActor._digest_done,
    Silenced: NotifierActor._silenced,
    TakenOn: NotifierActor._taken_on,
    Send: NotifierActor._send,
    Down: NotifierActor._down,
    Drained: NotifierActor._drained,
    Ping: lambda _actor, _message: None,
}
