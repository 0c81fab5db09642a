"""Durable side of the notifier: alerts, their log and their deliveries, through the keeper.

``record`` returns after a commit with synchronous=FULL, so a recorded alert survives kill -9 and power loss together
with the deliveries it owes; ``resume`` reads back what is owed. It is two commits: first the log row, whose unique
effect id makes repeating harmless and whose id the deliveries carry, then the alert with its deliveries. After a crash
between the two the sender repeats the effect and the second one follows. Outcomes are written behind (``settle``), in
batches, again and again until the keeper takes them: one that is lost to kill -9 means that its message is sent again.

AlreadyRecorded    the store has taken this effect although we never heard so: what is in memory is stale
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_exponential

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert, Outcome
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.records import (
    Resumed,
    alert_of,
    alert_row,
    delivery_of,
    delivery_row,
    log_row,
    settled_row,
    told_of,
)
from actors.notifier.route import HELD, Why
from actors.notifier.step import DIGEST, Decision, Digest
from actors.store.alert_reader import AlertReader
from actors.store.requests import Commit, Committed, RefusalCode, Write
from supervisor.bus.errors import BusError, RemoteError
from supervisor.bus.refs import Ref

__all__ = ["LONG_COMMIT_S", "AlreadyRecorded", "Outbox"]

COMMIT_S = 5.0
LONG_COMMIT_S = 30.0  # a digest has as many rows as alerts
_SETTLE_BATCH = 500
_ALL = 100_000
_HISTORY = 500  # transitions of one key that are looked at
_CONFLICT = RefusalCode.CONFLICT.value

_log = logging.getLogger(__name__)


class AlreadyRecorded(Exception):
    """The effect is in the store; load the state again."""


class Outbox:
    """Read and write the notifier's tables. Reading blocks for well under a millisecond a key."""

    def __init__(self, keeper: Ref, reader: AlertReader) -> None:
        self._keeper = keeper
        self.reader = reader
        self._unsettled: dict[int, Settled] = {}
        self._wake = asyncio.Event()

    async def record(self, decision: Decision, sent: Collection[str], at: float) -> list[Delivery]:
        """Commit a decision; return the deliveries it owes, those to ``sent`` channels excepted (already made).

        Raises BusError (nothing is promised, repeat it) or AlreadyRecorded.
        """
        if decision.outcome is Outcome.REVIEWED:
            return await self._record_review(decision, at)
        save = Write(op="alert.save", row=alert_row(decision.alert))
        if not decision.outcome.is_transition:
            await self.commit([save])
            return []
        log_id = await self._log_row(decision, at)
        adds = []
        for routed in decision.routed:
            row = delivery_row(decision.alert, routed.channel, routed.action, at, log_id=log_id, why=_why(routed.why))
            if routed.channel in sent:
                row |= {"state": "delivered", "error": "sent while the storage was away"}
            adds.append(row)
        rows = await self.commit([save, *(Write(op="delivery.add", row=row) for row in adds)], durable=True)
        return _owed(decision, zip(adds, rows[1:], strict=True), at)

    async def record_digest(self, made: Digest, at: float) -> Delivery:
        """Commit a digest with what it stands for; return its delivery. Raises BusError."""
        parts = [delivery_row(alert, made.channel, action, at, why=Why.IN_DIGEST) for alert, action in made.parts]
        delivery = await self.record_message(made.alert, made.channel, at, parts=parts)
        shown = {alert.key: action is not AlertState.RESOLVE and alert.is_open for alert, action in made.parts}
        return delivery.model_copy(update={"parts": shown})

    async def record_message(
        self, alert: Alert, channel: str, at: float, *, parts: Iterable[dict[str, object]] = ()
    ) -> Delivery:
        """Commit a message to one channel that belongs to no stored alert. Raises BusError."""
        writes = [Write(op="alert_log.add", row=log_row(alert, at, None))]
        writes.append(Write(op="delivery.add", row=delivery_row(alert, channel, alert.state, at)))
        writes += [Write(op="delivery.add", row=row) for row in parts]
        rows = await self.commit(writes, durable=True, timeout_s=LONG_COMMIT_S)
        return self.made(rows[1], channel, alert, at)

    def made(self, number: int, channel: str, alert: Alert, at: float) -> Delivery:
        """Return the delivery of a row that was just committed."""
        numbered = alert.model_copy(update={"serial": number})
        return Delivery(id=number, effect_id=UNRECORDED, channel=channel, alert=numbered, created_at=at)

    def settle(self, settled: Settled) -> None:
        """Write the end of a delivery soon; returns at once."""
        if settled.delivery.id != UNRECORDED:
            self._unsettled[settled.delivery.id] = settled
            self._wake.set()

    async def claim(self, delivery: Delivery, said: str) -> None:
        """Write down that an attempt is made, or was made; a keeper that is away does not hold it up."""
        if delivery.id == UNRECORDED:
            return
        row = {"id": delivery.id, "state": "pending", "attempts": delivery.attempts, "error": said}
        times = {"next_at": delivery.created_at, "at": delivery.created_at}
        try:
            await self.commit([Write(op="delivery.update", row=row | times)])
        except BusError as error:
            _log.warning("an attempt on %s is not written down: %s", delivery.channel, error)

    async def run(self) -> None:
        """Write settled deliveries as they come, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            retrying = AsyncRetrying(
                retry=retry_if_exception_type(BusError),
                wait=wait_exponential(multiplier=0.2, max=10),
                before_sleep=before_sleep_log(_log, logging.INFO),
            )
            await retrying(self.flush)

    async def flush(self) -> None:
        """Write what is settled now. Raises BusError; what was not written stays."""
        while self._unsettled:
            batch = list(self._unsettled.values())[:_SETTLE_BATCH]
            try:
                await self._write_settled(batch)
            except RemoteError as error:
                if error.code != _CONFLICT:
                    raise
                for settled in batch:  # a row was pruned meanwhile: find it and let it go
                    await self._write_alone(settled)

    def resume(self) -> Resumed:
        """Read what is open, owed and held back. Raises Unreadable."""
        resumed = Resumed()
        open_keys = (row.key for row in self.reader.alerts(limit=_ALL))
        owed_keys = (row.key for row in self.reader.deliveries_pending(_ALL))
        held_keys = self.reader.keys_last_held([why.value for why in HELD])
        for key in dict.fromkeys([*open_keys, *owed_keys, *held_keys]):
            self._read(key, resumed)
        resumed.pending.sort(key=lambda delivery: delivery.id)
        return resumed

    def resume_key(self, key: str) -> Resumed:
        """Read what is known and owed of one key. Raises Unreadable."""
        resumed = Resumed()
        self._read(key, resumed)
        resumed.pending.sort(key=lambda delivery: delivery.id)
        return resumed

    def owed(self, channel: str, limit: int) -> list[Delivery]:
        """Return what a channel is owed, oldest first. Raises Unreadable."""
        resumed = Resumed()
        for key in dict.fromkeys(row.key for row in self.reader.pending_of_channel(channel, limit)):
            self._read(key, resumed)
        return sorted((one for one in resumed.pending if one.channel == channel), key=lambda one: one.id)

    async def commit(self, writes: list[Write], *, durable: bool = False, timeout_s: float = COMMIT_S) -> list[int]:
        """Commit all or nothing; return the ids of new rows. Raises BusError."""
        return (await self._keeper.ask(Commit(writes=writes, durable=durable), Committed, timeout_s=timeout_s)).rows

    async def _record_review(self, decision: Decision, at: float) -> list[Delivery]:
        admitted = [routed for routed in decision.routed if routed.admitted]
        adds = [delivery_row(decision.alert, routed.channel, routed.action, at) for routed in admitted]
        rows = await self.commit([Write(op="delivery.add", row=row) for row in adds], durable=True)
        return _owed(decision, zip(adds, rows, strict=True), at)

    async def _log_row(self, decision: Decision, at: float) -> int:
        row = log_row(decision.alert, at, decision.effect_id)
        try:
            return (await self.commit([Write(op="alert_log.add", row=row)]))[0]
        except RemoteError as error:
            if error.code != _CONFLICT:
                raise
        found = self.reader.alert_log_of_effect(decision.effect_id)
        stored = self.reader.alert(decision.alert.key)
        if found is None or (stored is not None and stored.last_effect >= decision.effect_id):
            raise AlreadyRecorded(f"effect {decision.effect_id} of {decision.alert.key}")
        return found.id

    async def _write_settled(self, batch: Iterable[Settled]) -> None:
        batch = list(batch)
        await self.commit([Write(op="delivery.update", row=settled_row(settled)) for settled in batch])
        self._drop(batch)

    async def _write_alone(self, settled: Settled) -> None:
        try:
            await self._write_settled([settled])
        except RemoteError as error:
            if error.code != _CONFLICT:
                raise
            self._drop([settled])

    def _drop(self, batch: Iterable[Settled]) -> None:
        for settled in batch:
            if self._unsettled.get(settled.delivery.id) is settled:
                del self._unsettled[settled.delivery.id]

    def _read(self, key: str, resumed: Resumed) -> None:
        """Read one key: its alert, who was told of it, who shows it, what is owed."""
        row = self.reader.alert(key)
        logs = {log.id: log for log in self.reader.alert_log(key, limit=_HISTORY)}
        change = next((log.effect_id for log in logs.values() if log.effect_id), UNRECORDED)
        stored = None if row is None else alert_of(row, change)
        rows = self.reader.deliveries_of_key(key)
        owed = [one for one in rows if one.state == "pending" and one.id not in self._unsettled]
        for one in owed:
            log = logs.get(one.alert_log_id)
            if log is not None:
                resumed.pending.append(self._with_parts(delivery_of(one, log, stored)))
        if stored is None:
            return
        resumed.alerts.append(stored)
        resumed.told[key], resumed.shown[key] = told_of(rows, logs)
        taken_on = self.reader.acknowledgement(key)
        if taken_on is not None and stored.is_open and taken_on.opened_at == stored.opened_at:
            resumed.acknowledged[key] = Severity(taken_on.severity)

    def _with_parts(self, delivery: Delivery) -> Delivery:
        if delivery.alert.source != DIGEST:
            return delivery
        rows = self.reader.digest_parts(delivery.channel, delivery.created_at, Why.IN_DIGEST)
        return delivery.model_copy(update={"parts": {row.key: row.action != AlertState.RESOLVE for row in rows}})


def _why(why: Why) -> str:
    return "" if why is Why.ADMITTED else why.value


def _owed(decision: Decision, made: Iterable[tuple[dict[str, object], int]], at: float) -> list[Delivery]:
    owed = []
    for row, number in made:
        if row["state"] == "pending":
            alert = decision.alert.model_copy(update={"state": AlertState(str(row["action"])), "serial": number})
            fields = {"id": number, "effect_id": decision.effect_id, "channel": row["channel"], "alert": alert}
            owed.append(Delivery.model_validate(fields | {"created_at": at}))
    return owed
