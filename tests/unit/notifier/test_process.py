"""The notifier as a process: real bus, real keeper, real session bus; what survives kill -9."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.requests import Health, NotifierHealth, Raise, Raised
from actors.store.reader import Reader
from supervisor.bus.errors import RemoteError
from supervisor.bus.refs import Ref
from tests.unit.notifier.desktop_session import WAIT_S, end, notification_service, session_bus
from tests.unit.notifier.processes import World, world

KEEPER = ("keeper", "actors.store.keeper:main")
NOTIFIER = ("notifier", "actors.notifier.main:main")
QUICK = {"notifications": {"timeout_s": 0.5, "retries": 0}}


def effect(state: AlertState, severity: Severity = Severity.WARNING, key: str = "ses_1", t: float = 5.0) -> AlertEffect:
    return AlertEffect(key=key, state=state, severity=severity, title=f"{severity}: {key}", summary="s", t=t)


async def raise_alert(notifier: Ref, number: int, alert: AlertEffect) -> str:
    return (await notifier.ask(Raise(effect_id=number, alert=alert), Raised, timeout_s=WAIT_S)).outcome


@asynccontextmanager
async def running(directory: Path, address: str) -> AsyncIterator[tuple[World, Ref]]:
    async with world(directory) as made:
        await made.child(*KEEPER)
        await made.child(*NOTIFIER, environ={"DBUS_SESSION_BUS_ADDRESS": address}, values=QUICK)
        yield made, Ref(made.endpoint, "notifier")


def test_notifier_lifecycle_reaches_desktop_and_store(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            session_bus(tmp_path) as address,
            notification_service(address) as desk,
            running(tmp_path, address) as (made, notifier),
        ):
            sent = [
                effect(AlertState.TRIGGER),
                effect(AlertState.TRIGGER),
                effect(AlertState.ESCALATE, Severity.CRITICAL),
                effect(AlertState.RESOLVE),
            ]
            said = [await raise_alert(notifier, number, alert) for number, alert in enumerate(sent, 1)]
            assert said == ["opened", "repeated", "escalated", "resolved"]
            calls = [await desk.line() for _ in range(4)]
            assert [line.get("urgency") for line in calls] == [1, 2, None, 0]
            assert calls[1]["replaces"] == calls[0]["id"] == calls[2]["id"]
            await stop(made, notifier)
            reader = Reader(made.database)
            logs = reader.alert_log("ses_1")
            assert [log.state for log in logs] == ["resolve", "escalate", "trigger"]
            states = [row.state for log in logs for row in reader.deliveries(log.id)]
            assert states == ["delivered"] * 3

    asyncio.run(run())


async def stop(made: World, notifier: Ref) -> None:
    """Let the notifier end by itself: it writes what it settled."""
    await made.endpoint.ask("notifier", "Stop")
    await asyncio.wait_for(made.running[-1].wait(), WAIT_S)
    assert made.running[-1].returncode == 0


def test_notifier_thousand_identical_triggers_are_one_notification(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            session_bus(tmp_path) as address,
            notification_service(address) as desk,
            running(tmp_path, address) as (_, notifier),
        ):
            sent = [raise_alert(notifier, number, effect(AlertState.TRIGGER)) for number in range(1, 1001)]
            said = await asyncio.gather(*sent)
            assert [said.count(outcome) for outcome in ("opened", "repeated")] == [1, 999]
            await raise_alert(notifier, 1001, effect(AlertState.RESOLVE))
            assert [(await desk.line())["call"] for _ in range(2)] == ["Notify", "CloseNotification"]

    asyncio.run(run())


def test_notifier_same_effect_twice_is_one_alert_also_after_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            session_bus(tmp_path) as address,
            notification_service(address) as desk,
            running(tmp_path, address) as (made, notifier),
        ):
            assert await raise_alert(notifier, 7, effect(AlertState.TRIGGER)) == "opened"
            assert await raise_alert(notifier, 7, effect(AlertState.TRIGGER)) == "duplicate"
            shown = await desk.line()
            await stop(made, notifier)
            await made.child(*NOTIFIER, environ={"DBUS_SESSION_BUS_ADDRESS": address}, values=QUICK)
            assert await raise_alert(notifier, 7, effect(AlertState.TRIGGER)) == "duplicate"
            assert await raise_alert(notifier, 8, effect(AlertState.RESOLVE)) == "resolved"
            assert await desk.line() == {"call": "CloseNotification", "id": shown["id"], "known": True}
            assert (await desk.line())["title"].startswith("Resolved: ")

    asyncio.run(run())


def test_notifier_killed_between_commit_and_delivery_delivers_after_restart(tmp_path: Path) -> None:
    """notify-send hangs while the notifier is killed; the restarted one finds a working session bus."""
    hanging = tmp_path / "bin" / "notify-send"
    hanging.parent.mkdir()
    os.mkfifo(tmp_path / "began")
    hanging.write_text(f"#!/bin/sh\necho x > {tmp_path}/began\nexec tail -f /dev/null\n")
    hanging.chmod(0o755)
    path = f"{hanging.parent}:{os.environ['PATH']}"
    long = {"notifications": {"timeout_s": 30, "retries": 0}}
    blind = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/nothing", "PATH": path}

    async def run() -> None:
        async with (
            session_bus(tmp_path) as address,
            notification_service(address) as desk,
            world(tmp_path) as made,
        ):
            await made.child(*KEEPER)
            victim = await made.child(*NOTIFIER, environ=blind, values=long)
            notifier = Ref(made.endpoint, "notifier")
            assert await raise_alert(notifier, 1, effect(AlertState.TRIGGER, Severity.CRITICAL)) == "opened"
            began = await asyncio.wait_for(asyncio.to_thread((tmp_path / "began").read_text), WAIT_S)
            assert began == "x\n"
            await end(victim)
            assert [row.state for row in Reader(made.database).deliveries_pending()] == ["pending"]
            await made.child(*NOTIFIER, environ={"DBUS_SESSION_BUS_ADDRESS": address}, values=QUICK)
            shown = await desk.line()
            assert (shown["title"], shown["urgency"]) == ("critical: ses_1 (may have come before)", 2)
            await stop(made, notifier)
            assert Reader(made.database).deliveries_pending() == []

    try:
        asyncio.run(run())
    finally:
        reap(hanging)


def reap(script: Path) -> None:
    """End the orphan that the killed notifier left: the process whose command line is the hanging tail."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"tail\0") and os.fsencode(str(script.parent)) in environ:
            os.kill(int(entry.name), 9)


def test_notifier_without_desktop_is_blind_in_health_and_deliveries(tmp_path: Path) -> None:
    blind = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/nothing", "PATH": str(tmp_path)}

    async def run() -> None:
        async with world(tmp_path) as made:
            await made.child(*KEEPER)
            await made.child(*NOTIFIER, environ=blind, values=QUICK)
            notifier = Ref(made.endpoint, "notifier")
            assert await raise_alert(notifier, 1, effect(AlertState.TRIGGER)) == "opened"
            health = await notifier.ask(NotifierHealth(), Health)
            assert health.channels[0].state == "blind"
            assert "libnotify-bin" in health.channels[0].detail
            await stop(made, notifier)
            reader = Reader(made.database)
            (row,) = reader.deliveries(reader.alert_log()[0].id)
            assert row.state == "failed"
            assert row.error is not None
            assert row.error.startswith("blind: ")

    asyncio.run(run())


def test_notifier_without_keeper_shows_critical_once_and_recovers(tmp_path: Path) -> None:
    critical = effect(AlertState.TRIGGER, Severity.CRITICAL)

    async def run() -> None:
        async with (
            session_bus(tmp_path) as address,
            notification_service(address) as desk,
            running(tmp_path, address) as (made, notifier),
        ):
            keeper = made.running[0]
            await end(keeper)
            for number, alert in ((1, effect(AlertState.TRIGGER, key="ses_2")), (2, critical), (2, critical)):
                with pytest.raises(RemoteError) as refused:
                    await raise_alert(notifier, number, alert)
                assert refused.value.code == "storage"
            assert (await desk.line())["title"] == "critical: ses_1"
            assert (await notifier.ask(NotifierHealth(), Health)).degraded
            await made.child(*KEEPER)
            assert await raise_alert(notifier, 1, effect(AlertState.TRIGGER, key="ses_2")) == "opened"
            assert await raise_alert(notifier, 2, critical) == "opened"
            assert await raise_alert(notifier, 3, effect(AlertState.RESOLVE)) == "resolved"
            titles = [await desk.line() for _ in range(2)]
            assert [line["call"] for line in titles] == ["Notify", "CloseNotification"]
            assert titles[0]["title"] == "warning: ses_2"
            assert not (await notifier.ask(NotifierHealth(), Health)).degraded

    asyncio.run(run())
