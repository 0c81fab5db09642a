"""What a shard does with its alerts, for tests: number them through the keeper, offer them until they are taken."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.requests import Health, NotifierHealth, Raise, Raised
from actors.store.requests import Commit, Committed, Write
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["Sender", "effect"]

PAUSE_S = 0.05


def effect(key: str, state: AlertState, severity: Severity = Severity.WARNING, **more: object) -> AlertEffect:
    fields = {"key": key, "state": state, "severity": severity, "title": f"{key} {severity} {state}", "summary": "s"}
    return AlertEffect.model_validate({**fields, "t": 5.0, **more})


class Sender:
    """A peer on a daemon's bus. Both calls go on through deaths of whoever they ask."""

    def __init__(self, runtime: Path, name: str = "sender") -> None:
        self._endpoint = Endpoint(name, runtime / "bus")
        self._keeper = Ref(self._endpoint, "keeper")
        self._notifier = Ref(self._endpoint, "notifier")
        self.repeats = 0

    async def raise_alert(self, alert: AlertEffect) -> str:
        return await self.offer(await self.number(alert), alert)

    async def number(self, alert: AlertEffect) -> int:
        row = {"tree": alert.key, "kind": "alert", "target": "sender", "one_shot": 0, "state": "done"}
        commit = Commit(writes=[Write(op="outbox.add", row=row | {"body": "{}", "created_at": 1.0})])
        while True:
            try:
                return (await self._keeper.ask(commit, Committed)).rows[0]
            except BusError:
                await self._again()

    async def offer(self, number: int, alert: AlertEffect) -> str:
        while True:
            try:
                return (await self._notifier.ask(Raise(effect_id=number, alert=alert), Raised, timeout_s=2.0)).outcome
            except BusError:
                await self._again()

    async def queued(self) -> int:
        """Return the longest queue of any channel."""
        while True:
            try:
                health = await self._notifier.ask(NotifierHealth(), Health, timeout_s=2.0)
                return max((channel.queued for channel in health.channels), default=0)
            except BusError:
                await self._again()

    async def _again(self) -> None:
        self.repeats += 1
        await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        await self._endpoint.stop()
