"""The desktop channel against a real session bus and against machines without one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Delivered, Failure, Rejected, Retry
from actors.notifier.channels.desktop import Desktop, notify_send_argv
from actors.notifier.channels.session_bus import BusUnavailable, SessionBus, session_address
from tests.unit.notifier.desktop_session import Desk, notification_service, session_bus

NOW = 1000.0


def alert(state: AlertState, severity: Severity = Severity.WARNING, **values: Any) -> Alert:
    given = {"key": "ses_1", "title": "Stalling: build", "summary": "30 turns, 1.20 USD since anything landed"}
    return Alert(
        **(given | values),
        severity=severity,
        state=state,
        source="no-progress",
        opened_at=NOW,
        changed_at=NOW,
        last_effect=1,
    )


def on_desk(directory: Path, check: Any, *options: str) -> None:
    async def run() -> None:
        async with session_bus(directory) as address, notification_service(address, *options) as desk:
            channel = Desktop(resolve_messages=True, bus=SessionBus(address))
            await check(channel, desk)
            await channel.close()

    asyncio.run(run())


def test_desktop_trigger_shows_normal_notification(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        assert isinstance(await channel.deliver(alert(AlertState.TRIGGER), NOW), Delivered)
        line = await desk.line()
        assert (line["app"], line["title"], line["urgency"]) == ("treewarden", "Stalling: build", 1)
        assert (line["replaces"], line["expire_ms"]) == (0, -1)

    on_desk(tmp_path, check)


def test_desktop_escalate_replaces_and_critical_persists(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        await channel.deliver(alert(AlertState.TRIGGER), NOW)
        await channel.deliver(alert(AlertState.ESCALATE, Severity.CRITICAL), NOW)
        first, second = await desk.line(), await desk.line()
        assert second["replaces"] == first["id"]
        assert (second["urgency"], second["expire_ms"]) == (2, 0)

    on_desk(tmp_path, check)


def test_desktop_resolve_closes_and_says_so(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        await channel.deliver(alert(AlertState.TRIGGER), NOW)
        assert isinstance(await channel.deliver(alert(AlertState.RESOLVE), NOW), Delivered)
        first, closed, short = [await desk.line() for _ in range(3)]
        assert closed == {"call": "CloseNotification", "id": first["id"], "known": True}
        assert short["title"] == "Resolved: Stalling: build"
        assert short["urgency"] == 0

    on_desk(tmp_path, check)


def test_desktop_resolve_after_user_closed_is_delivered(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        await channel.deliver(alert(AlertState.TRIGGER), NOW)
        shown = await desk.line()
        bus = SessionBus(channel._bus._address)
        bus._ids["other"] = shown["id"]
        await bus.dismiss("other")  # as if the user had closed it
        bus.disconnect()
        assert (await desk.line())["known"]
        assert isinstance(await channel.deliver(alert(AlertState.RESOLVE), NOW), Delivered)

    on_desk(tmp_path, check)


def test_desktop_without_resolve_messages_only_closes(tmp_path: Path) -> None:
    async def run() -> None:
        async with session_bus(tmp_path) as address, notification_service(address) as desk:
            channel = Desktop(resolve_messages=False, bus=SessionBus(address))
            for state in (AlertState.TRIGGER, AlertState.RESOLVE, AlertState.TRIGGER):
                await channel.deliver(alert(state), NOW)
            calls = [(await desk.line())["call"] for _ in range(3)]
            assert calls == ["Notify", "CloseNotification", "Notify"]
            await channel.close()

    asyncio.run(run())


def test_desktop_markup_in_names_is_escaped(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        await channel.deliver(alert(AlertState.TRIGGER, title="a\n\x1b[31m", summary="<b>x</b> & y"), NOW)
        line = await desk.line()
        assert line["body"] == "&lt;b&gt;x&lt;/b&gt; &amp; y"
        assert line["title"] == "a [31m"

    on_desk(tmp_path, check)


def test_desktop_service_without_markup_gets_plain_text(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        await channel.deliver(alert(AlertState.TRIGGER, summary="a < b"), NOW)
        assert (await desk.line())["body"] == "a < b"

    on_desk(tmp_path, check, "--plain")


def test_desktop_bus_restarted_delivers_again_and_reuses_no_id(tmp_path: Path) -> None:
    async def run() -> None:
        channel = Desktop(resolve_messages=True, bus=SessionBus(f"unix:path={tmp_path}/session-bus"))
        async with session_bus(tmp_path) as address, notification_service(address) as desk:
            await channel.deliver(alert(AlertState.TRIGGER), NOW)
            assert (await desk.line())["replaces"] == 0
        async with session_bus(tmp_path) as address, notification_service(address) as desk:
            answer = await channel.deliver(alert(AlertState.ESCALATE), NOW)
            assert isinstance(answer, Delivered), answer
            assert (await desk.line())["replaces"] == 0
            await channel.close()

    asyncio.run(run())


def test_desktop_service_restarted_reuses_no_id(tmp_path: Path) -> None:
    async def run() -> None:
        async with session_bus(tmp_path) as address:
            channel = Desktop(resolve_messages=True, bus=SessionBus(address))
            async with notification_service(address):
                await channel.deliver(alert(AlertState.TRIGGER), NOW)
            async with notification_service(address) as desk:
                assert isinstance(await channel.deliver(alert(AlertState.ESCALATE), NOW), Delivered)
                assert (await desk.line())["replaces"] == 0
            await channel.close()

    asyncio.run(run())


def test_desktop_bus_without_service_is_retried_as_blind(tmp_path: Path) -> None:
    async def run() -> None:
        async with session_bus(tmp_path) as address:
            channel = Desktop(resolve_messages=True, bus=SessionBus(address))
            answer = await channel.deliver(alert(AlertState.TRIGGER), NOW)
            assert isinstance(answer, Retry)
            assert answer.reason is Failure.BLIND
            assert "no notification service" in await channel.sight()
            await channel.close()

    asyncio.run(run())


@pytest.mark.parametrize("address", ["nonsense", "unix:path=", "tcp:host=", "unix:abstract=none-such"])
def test_desktop_broken_address_is_blind(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = asyncio.run(Desktop(True, SessionBus(address)).deliver(alert(AlertState.TRIGGER), NOW))
    assert isinstance(answer, Rejected)
    assert answer.reason is Failure.BLIND


def test_desktop_looked_at_while_delivering_uses_one_connection(tmp_path: Path) -> None:
    async def check(channel: Desktop, desk: Desk) -> None:
        told = [channel.deliver(alert(AlertState.TRIGGER), NOW), channel.sight(), channel.sight()]
        assert await asyncio.gather(*told) == [Delivered("session bus"), "", ""]
        assert (await desk.line())["call"] == "Notify"

    on_desk(tmp_path, check)


def fake_notify_send(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """Put a notify-send on PATH that writes its arguments, one a line."""
    written = directory / "argv"
    binary = directory / "notify-send"
    binary.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {written}\n{body}\n')
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return written


def no_bus(directory: Path) -> SessionBus:
    return SessionBus(f"unix:path={directory}/nothing-here")


def test_desktop_without_bus_uses_notify_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = fake_notify_send(tmp_path, monkeypatch, "exit 0")
    channel = Desktop(resolve_messages=True, bus=no_bus(tmp_path))
    answer = asyncio.run(channel.deliver(alert(AlertState.TRIGGER, Severity.CRITICAL, title="--help"), NOW))
    assert answer == Delivered("notify-send")
    argv = written.read_text().splitlines()
    assert argv[:4] == ["--app-name=treewarden", "--urgency=critical", "--", "--help"]
    assert asyncio.run(channel.sight()) == ""


def test_desktop_notify_send_that_fails_is_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_notify_send(tmp_path, monkeypatch, "echo cannot show >&2; exit 1")
    answer = asyncio.run(Desktop(True, no_bus(tmp_path)).deliver(alert(AlertState.TRIGGER), NOW))
    assert isinstance(answer, Rejected)
    assert answer.reason is Failure.BLIND
    assert "cannot show" in answer.detail


def test_desktop_with_neither_is_blind_and_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    channel = Desktop(resolve_messages=True, bus=no_bus(tmp_path))
    answer = asyncio.run(channel.deliver(alert(AlertState.TRIGGER), NOW))
    assert isinstance(answer, Rejected)
    assert answer.reason is Failure.BLIND
    assert "cannot be reached" in answer.detail
    assert "libnotify-bin" in answer.detail
    assert asyncio.run(channel.sight()) == answer.detail


@pytest.mark.parametrize(("severity", "urgency"), [("info", "low"), ("warning", "normal"), ("critical", "critical")])
def test_notify_send_argv_every_severity_has_its_urgency(severity: str, urgency: str) -> None:
    from actors.notifier.channels.desktop import URGENCY

    argv = notify_send_argv("/usr/bin/notify-send", URGENCY[Severity(severity)], "t", "a<b")
    assert argv == ["/usr/bin/notify-send", "--app-name=treewarden", f"--urgency={urgency}", "--", "t", "a&lt;b"]


def test_session_address_variable_wins() -> None:
    assert session_address({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, 0) == "unix:path=/x"


def test_session_address_without_variable_and_socket_names_both() -> None:
    with pytest.raises(BusUnavailable, match=r"DBUS_SESSION_BUS_ADDRESS is not set and /run/user/4242/bus"):
        session_address({}, 4242)
