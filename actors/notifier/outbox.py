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
import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_exponential

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.step import Decision
from actors.store.reader import Reader
from actors.store.records import AlertLogRecord, AlertRecord, DeliveryRecord
from actors.store.requests import Commit, Committed, RefusalCode, Write
from supervisor.bus.errors import BusError, RemoteError
from supervisor.bus.refs import Ref

__all__ = ["AlreadyRecorded", "Outbox", "Resumed"]

_SETTLE_BATCH = 500
_ALL = 100_000
_HISTORY = 200  # transitions of one key that are looked at
_CONFLICT = RefusalCode.CONFLICT.value

_log = logging.getLogger(__name__)


class AlreadyRecorded(Exception):
    """The effect is in the store; load the state again."""


@dataclass
class Resumed:
    """What the store knows of some keys: alerts, who was addressed since they opened, who shows them, what is owed."""

    alerts: list[Alert] = field(default_factory=list)
    addressed: dict[str, frozenset[str]] = field(default_factory=dict)
    told: dict[str, set[str]] = field(default_factory=dict)
    pending: list[Delivery] = field(default_factory=list)


class Outbox:
    """Read and write the notifier's tables. Reading blocks for well under a millisecond a key."""

    def __init__(self, keeper: Ref, reader: Reader) -> None:
        self._keeper = keeper
        self._reader = reader
        self._unsettled: dict[int, Settled] = {}
        self._wake = asyncio.Event()

    def known(self, key: str) -> Alert | None:
        """Return the stored alert of ``key``. Raises Unreadable."""
        row = self._reader.alert(key)
        return None if row is None else _alert(row)

    async def record(self, decision: Decision, sent: Collection[str], at: float) -> list[Delivery]:
        """Commit a decision; return the deliveries it owes, those to ``sent`` channels excepted (already made).

        Raises BusError (nothing is promised, repeat it) or AlreadyRecorded.
        """
        save = Write(op="alert.save", row=_alert_row(decision.alert))
        if not decision.outcome.is_transition:
            await self._commit([save])
            return []
        log_id = await self._log_row(decision, at)
        adds = [_delivery_row(decision, routed.channel, log_id, sent, at) for routed in decision.routed]
        rows = await self._commit([save, *(Write(op="delivery.add", row=row) for row in adds)], durable=True)
        return [
            Delivery(id=number, effect_id=decision.effect_id, channel=row["channel"], alert=decision.alert)
            for row, number in zip(adds, rows[1:], strict=True)
            if row["state"] == "pending"
        ]

    def settle(self, settled: Settled) -> None:
        """Write the end of a delivery soon; returns at once."""
        if settled.delivery.id != UNRECORDED:
            self._unsettled[settled.delivery.id] = settled
            self._wake.set()

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
        """Read what is open and owed. Raises Unreadable."""
        resumed = Resumed()
        open_keys = (row.key for row in self._reader.alerts(limit=_ALL))
        owed_keys = (row.key for row in self._reader.deliveries_pending(_ALL))
        for key in dict.fromkeys([*open_keys, *owed_keys]):
            self._read(key, resumed)
        resumed.pending.sort(key=lambda delivery: delivery.id)
        return resumed

    def resume_key(self, key: str) -> Resumed:
        """Read what is known and owed of one key. Raises Unreadable."""
        resumed = Resumed()
        self._read(key, resumed)
        resumed.pending.sort(key=lambda delivery: delivery.id)
        return resumed

    async def _log_row(self, decision: Decision, at: float) -> int:
        row = _log_columns(decision, at)
        try:
            return (await self._commit([Write(op="alert_log.add", row=row)]))[0]
        except RemoteError as error:
            if error.code != _CONFLICT:
                raise
        found = self._reader.alert_log_of_effect(decision.effect_id)
        stored = self._reader.alert(decision.alert.key)
        if found is None or (stored is not None and stored.last_effect >= decision.effect_id):
            raise AlreadyRecorded(f"effect {decision.effect_id} of {decision.alert.key}")
        return found.id

    async def _commit(self, writes: list[Write], *, durable: bool = False) -> list[int]:
        return (await self._keeper.ask(Commit(writes=writes, durable=durable), Committed)).rows

    async def _write_settled(self, batch: Iterable[Settled]) -> None:
        batch = list(batch)
        await self._commit([Write(op="delivery.update", row=_settled_row(settled)) for settled in batch])
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
        """Walk a key's transitions, newest first: who was addressed since it opened, who shows it, what is owed."""
        stored = self.known(key)
        if stored is None:
            return
        resumed.alerts.append(stored)
        addressed: set[str] = set()
        last_shown: dict[str, str] = {}
        opened = not stored.is_open
        for log in self._reader.alert_log(key, limit=_HISTORY):
            rows = self._reader.deliveries(log.id)
            for row in rows:
                if row.state == "delivered":
                    last_shown.setdefault(row.channel, row.action)
            if not opened:
                addressed |= {row.channel for row in rows if row.state != "suppressed"}
            opened = opened or log.state == AlertState.TRIGGER
            owed = [row for row in rows if row.state == "pending" and row.id not in self._unsettled]
            resumed.pending += [_delivery(row, _alert_at(log, stored)) for row in owed]
        resumed.addressed[key] = frozenset(addressed)
        resumed.told[key] = {name for name, action in last_shown.items() if action != AlertState.RESOLVE}


def _delivery(row: DeliveryRecord, alert: Alert) -> Delivery:
    return Delivery(id=row.id, effect_id=alert.last_effect, channel=row.channel, alert=alert)


def _alert(row: AlertRecord) -> Alert:
    values = row._asdict() | {"details": json.loads(row.details)}
    return Alert(**values)


def _alert_at(log: AlertLogRecord, newest: Alert) -> Alert:
    """Rebuild the alert as it was at a transition; details and opening are the newest known."""
    return newest.model_copy(
        update={
            "severity": Severity(log.severity),
            "state": AlertState(log.state),
            "title": log.title,
            "summary": log.summary,
            "source": log.source,
            "changed_at": log.at,
            "last_effect": log.effect_id or UNRECORDED,
        }
    )


def _alert_row(alert: Alert) -> dict[str, Any]:
    return alert.model_dump(mode="json") | {"details": json.dumps(alert.details)}


def _log_columns(decision: Decision, at: float) -> dict[str, Any]:
    row = decision.alert.model_dump(mode="json", include={"key", "severity", "state", "title", "summary", "source"})
    return row | {"at": at, "effect_id": decision.effect_id}


def _delivery_row(decision: Decision, channel: str, log_id: int, sent: Collection[str], at: float) -> dict[str, Any]:
    why = next(routed.why for routed in decision.routed if routed.channel == channel)
    state, error = "pending", None
    if channel in sent:
        state, error = "delivered", "sent while the storage was away"
    elif why != "admitted":
        state, error = "suppressed", why.value
    row = {"alert_log_id": log_id, "key": decision.alert.key, "channel": channel, "action": decision.alert.state.value}
    return row | {"state": state, "attempts": 0, "next_at": at, "error": error, "at": at}


def _settled_row(settled: Settled) -> dict[str, Any]:
    text = f"{settled.reason}: {settled.detail}" if settled.detail else settled.reason
    return {
        "id": settled.delivery.id,
        "state": settled.state,
        "attempts": settled.attempts,
        "next_at": settled.at,
        "error": text if settled.reason else None,
        "at": settled.at,
    }
