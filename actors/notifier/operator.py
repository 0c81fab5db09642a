"""What operators do with alerts: silence, acknowledge, ask why, try a channel, say whether an alert was right.

Each is durable before it is answered; the actor is told afterwards and judges again at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pykka

from actors.messages import AlertState, Severity
from actors.notifier.actor import NotifierActor
from actors.notifier.alert import RANK, Alert
from actors.notifier.delivery import Settled
from actors.notifier.inbox import Inspect, Inspected, Send, Silenced, TakenOn
from actors.notifier.mute import Moment, Silence
from actors.notifier.outbox import Outbox
from actors.notifier.records import delivery_row, log_row
from actors.notifier.requests import (
    Acknowledge,
    Acknowledged,
    Explain,
    Explained,
    Judged,
    Mute,
    Muted,
    SayRightOrWrong,
    TestChannel,
    Tested,
    Unmute,
)
from actors.notifier.route import Rule
from actors.notifier.step import review
from actors.store.requests import Write
from supervisor.bus.errors import Refused
from supervisor.dispatcher import ask

__all__ = ["Operator"]

TEST = "test"


class Operator:
    """Handlers of the operator's messages. ``clock`` gives both clocks."""

    def __init__(self, ref: pykka.ActorRef[NotifierActor], outbox: Outbox, clock: Callable[[], Moment]) -> None:
        self._ref = ref
        self._outbox = outbox
        self._clock = clock

    async def mute(self, asked: Mute) -> Muted:
        row = asked.model_dump(mode="json", include={"key", "source", "severity", "until", "note"})
        writes = [
            Write(op="silence.add", row=row | {"by_whom": asked.by, "at": self._clock().wall}),
            self._audit(asked.by, "silence", row),
        ]
        number = (await self._outbox.commit(writes, durable=True))[0]
        silence = Silence.model_validate(row | {"id": number, "by": asked.by})
        self._ref.tell(Silenced(silence))
        state = (await self._inspected()).state
        return Muted(id=number, covers=sum(silence.covers(alert) for alert in state.open.values()))

    async def unmute(self, asked: Unmute) -> Muted:
        wall = self._clock().wall
        known = {row.id: row for row in self._outbox.reader.silences(wall)}
        if asked.id not in known:
            raise Refused("not_found", f"no silence {asked.id} is in force")
        end = Write(op="silence.end", row={"id": asked.id, "at": wall})
        await self._outbox.commit([end, self._audit(asked.by, "silence end", {"id": asked.id})], durable=True)
        row = known[asked.id]
        fields = row._asdict() | {"by": row.by_whom, "until": wall}
        self._ref.tell(Silenced(Silence.model_validate(fields)))
        return Muted(id=asked.id)

    async def acknowledge(self, asked: Acknowledge) -> Acknowledged:
        inspected = await self._inspected()
        alert, wall = inspected.state.open.get(asked.key), self._clock().wall
        if alert is None:
            return Acknowledged(found=False)
        said = alert.model_copy(update={"state": AlertState.ACKNOWLEDGE, "changed_at": wall})
        told = inspected.state.told.get(asked.key, {})
        channels = [
            rule.channel
            for rule in inspected.switchboard.rules
            if rule.enabled and rule.acknowledges and rule.channel in told and told[rule.channel].is_open
        ]
        row = {"key": alert.key, "severity": alert.severity.value, "opened_at": alert.opened_at}
        writes = [
            Write(op="acknowledgement.save", row=row | {"by_whom": asked.by, "at": wall}),
            Write(op="alert_log.add", row=log_row(said, wall, None)),
            self._audit(asked.by, "acknowledge", row),
            *(Write(op="delivery.add", row=delivery_row(said, name, said.state, wall)) for name in channels),
        ]
        rows = (await self._outbox.commit(writes, durable=True))[3:]
        deliveries = [self._outbox.made(number, name, said, wall) for number, name in zip(rows, channels, strict=True)]
        self._ref.tell(TakenOn(alert.key, alert.severity, alert.opened_at, deliveries))
        return Acknowledged(found=True, severity=alert.severity.value)

    async def test(self, asked: TestChannel) -> Tested:
        inspected = await self._inspected()
        rule = next((rule for rule in inspected.switchboard.rules if rule.channel == asked.channel), None)
        if rule is None:
            return Tested(found=False)
        alert = _test_alert(rule, asked.by, self._clock().wall)
        settled = await self._try(alert, asked)
        if settled is not None and settled.state == "delivered" and rule.silent_close:
            await self._try(alert.model_copy(update={"state": AlertState.RESOLVE}), asked)
        if settled is None:
            return Tested(found=True, state="pending", detail=f"no end within {asked.timeout_s:g} s; see channels")
        said = f"{settled.reason}: {settled.detail}" if settled.reason else settled.detail
        return Tested(found=True, state=settled.state, detail=said, attempts=settled.attempts)

    async def explain(self, asked: Explain) -> Explained:
        inspected, now = await self._inspected(), self._clock()
        state = inspected.state
        alert = state.alert(asked.key)
        decision = review(state, asked.key, inspected.switchboard.rules, now)
        if alert is None or decision is None:
            return Explained(found=False)
        told = state.told.get(asked.key, {})
        taken_on = state.acknowledged.get(asked.key)
        return Explained(
            found=True,
            channels=[
                {
                    "name": routed.channel,
                    "told": told[routed.channel].state.value if routed.channel in told else None,
                    "why": routed.why.value,
                    "again_s": routed.again_s,
                }
                for routed in decision.routed
            ],
            silences=[silence.id for silence in state.live_silences(now.wall) if silence.covers(alert)],
            acknowledged=None if taken_on is None else taken_on.value,
        )

    async def judge(self, asked: SayRightOrWrong) -> Judged:
        entry = self._outbox.reader.alert_log_entry(asked.alert_log_id)
        if entry is None:
            return Judged(found=False)
        now = self._outbox.reader.alert(entry.key)
        evidence = {**entry._asdict(), "details": None if now is None else json.loads(now.details)}
        row = {"alert_log_id": entry.id, "key": entry.key, "says": asked.says, "note": asked.note, "via": asked.via}
        more = {"evidence": json.dumps(evidence), "by_whom": asked.by, "at": self._clock().wall}
        (number,) = await self._outbox.commit([Write(op="feedback.add", row=row | more)], durable=True)
        return Judged(found=True, id=number)

    async def _try(self, alert: Alert, asked: TestChannel) -> Settled | None:
        delivery = await self._outbox.record_message(alert, asked.channel, self._clock().wall)
        try:
            async with asyncio.timeout(asked.timeout_s):
                settled: Settled = await ask(self._ref, Send(delivery))
        except TimeoutError:
            return None
        return settled

    async def _inspected(self) -> Inspected:
        inspected: Inspected = await ask(self._ref, Inspect())
        return inspected

    def _audit(self, by: str, action: str, detail: dict[str, Any]) -> Write:
        uid = int(by.removeprefix("uid:")) if by.startswith("uid:") else -1
        row = {"at": self._clock().wall, "uid": uid, "action": action, "detail": json.dumps({"by": by} | detail)}
        return Write(op="audit.add", row=row)


def _test_alert(rule: Rule, by: str, wall: float) -> Alert:
    severity = max(rule.min_severity, Severity.WARNING, key=RANK.__getitem__)
    return Alert(
        key=f"{TEST}:{rule.channel}",
        severity=severity,
        state=AlertState.TRIGGER,
        title=f"Test of channel {rule.channel}",
        summary=f"asked for by {by}; nothing is wrong",
        source=TEST,
        opened_at=wall,
        changed_at=wall,
        last_effect=0,
    )
