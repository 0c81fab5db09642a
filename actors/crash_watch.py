"""Root's crash reports, kept: control reads them as they come, has the keeper store them, and raises alerts.

An alert about a process (key ``process:NAME``) begins when root only retries it slowly and ends when it is ready again;
a single crash is a report, no alert. Order: reports are stored in the order of their numbers. Crash guarantee: reports
carry root's life and their number, so telling them twice stores them once; an alert is in the outbox of the same
transaction, and when it cannot be handed over at once, the shard whose share its key falls into sends it later. An
alert about the notifier itself goes to the desktop directly, since the one that is down cannot tell of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.alert import fold
from actors.notifier.channels.contract import Channel, Delivered
from actors.notifier.channels.desktop import Desktop
from actors.notifier.requests import Raise, Raised
from actors.store.reader import Reader, Unreadable
from actors.store.requests import Commit, Committed, Write
from actors.tree.record import alert_write
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["SOURCE", "CrashWatch", "alerts_due", "key_of"]

SOURCE = "supervisor"
WAIT_S = 5.0
PAUSE_S = 1.0

_log = logging.getLogger(__name__)


def key_of(process: str) -> str:
    """Return the dedup key of alerts about a process."""
    return f"process:{process}"


def alerts_due(children: list[dict[str, Any]], opened: set[str], now: float) -> list[AlertEffect]:
    """Return what the alerts need: one begins for each slow process, ends for each that is ready again. Pure."""
    due = []
    for child in children:
        name, key = child["id"], key_of(child["id"])
        if child["slow"] and key not in opened:
            due.append(_trouble(name, key, child, now))
        elif key in opened and child["state"] == "ready" and not child["slow"]:
            due.append(_over(name, key, now))
    return due


def _trouble(name: str, key: str, child: dict[str, Any], now: float) -> AlertEffect:
    return AlertEffect(
        key=key,
        state=AlertState.TRIGGER,
        severity=Severity.CRITICAL,
        title=f"treewarden's {name} keeps failing",
        summary=f"process {name} ended {child['restarts']} times, last with {child['last_exit']}; retried slowly",
        details={"process": name, "restarts": child["restarts"], "last_exit": child["last_exit"]},
        source=SOURCE,
        t=now,
    )


def _over(name: str, key: str, now: float) -> AlertEffect:
    return AlertEffect(
        key=key,
        state=AlertState.RESOLVE,
        severity=Severity.INFO,
        title=f"treewarden's {name} works again",
        summary=f"process {name} is ready",
        details={"process": name},
        source=SOURCE,
        t=now,
    )


class CrashWatch:
    """Runs in control. ``now`` is wall time in epoch seconds."""

    def __init__(
        self, endpoint: Endpoint, reader: Reader, now: Callable[[], float], desktop: Channel | None = None
    ) -> None:
        self._endpoint = endpoint
        self._keeper = Ref(endpoint, "keeper")
        self._notifier = Ref(endpoint, "notifier")
        self._reader = reader
        self._now = now
        self._desktop = desktop or Desktop(resolve_messages=True)
        self._after = 0
        self._raised: dict[str, AlertState] = {}

    async def run(self) -> None:
        """Watch until cancelled. Failures are logged once each and tried again."""
        said = ""
        while True:
            try:
                await self.look()
                said = ""
            except (BusError, Unreadable) as error:
                trouble = str(error) or type(error).__name__
                if trouble != said:
                    _log.warning("crash reports wait: %s", trouble)
                said = trouble
                await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """Store the reports that came since the last look, waiting a little for one; bring the alerts up to date."""
        asked = json.dumps({"after": self._after, "wait_s": WAIT_S}).encode()
        told = json.loads(await self._endpoint.ask("root", "Reports", asked, timeout_s=WAIT_S + 5))
        children = json.loads(await self._endpoint.ask("root", "Children"))["children"]
        alerts = alerts_due(children, self._opened(), self._now())
        await self._store(told, alerts)
        self._after = told["last"]

    def _opened(self) -> set[str]:
        """Return the keys with an open alert: what the notifier stored, then what was raised since."""
        known = {one.key for one in self._reader.alerts() if one.source == SOURCE}
        for key, state in self._raised.items():
            (known.discard if state is AlertState.RESOLVE else known.add)(key)
        return known

    async def _store(self, told: dict[str, Any], alerts: list[AlertEffect]) -> None:
        writes = [_report_row(told["since"], report) for report in told["reports"]]
        writes += [alert_write(alert.key, alert, self._now()) for alert in alerts]
        if not writes:
            return
        done = await self._keeper.ask(Commit(writes=writes, durable=bool(alerts)), Committed)
        for effect, alert in zip(done.rows[len(told["reports"]) :], alerts, strict=True):
            self._raised[alert.key] = alert.state
            await self._hand_over(effect, alert)

    async def _hand_over(self, effect: int, alert: AlertEffect) -> None:
        try:
            await self._notifier.ask(Raise(effect_id=effect, alert=alert), Raised)
            await self._keeper.ask(Commit(writes=[Write(op="outbox.done", row={"id": effect})]), Committed)
        except BusError as error:
            _log.warning("alert %s waits in the outbox: %s", alert.key, error)
            if alert.key == key_of("notifier"):
                await self._show(effect, alert)

    async def _show(self, effect: int, alert: AlertEffect) -> None:
        answer = await self._desktop.deliver(fold(None, effect, alert)[0], self._now())
        if not isinstance(answer, Delivered):
            _log.critical("%s: %s; nobody could be told: %s", alert.title, alert.summary, answer.detail)


def _report_row(life: float, report: dict[str, Any]) -> Write:
    fields = ("n", "at", "supervisor", "context", "reason", "offender", "pid")
    row = {name: report[name] for name in fields}
    return Write(op="crash.add", row={**row, "life": life, "log": json.dumps(report["log"])})
