"""A private session bus with a notification service, as processes; what it showed is read from a file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType
from dbus_fast.aio.message_bus import MessageBus

from tests.unit.notifier.desktop_session import SERVICE, need


class Desktop:
    """``env`` makes a process use this desktop; ``calls`` is what was shown and closed so far, in order."""

    def __init__(self, address: str, shown: Path) -> None:
        self.env = {"DBUS_SESSION_BUS_ADDRESS": address}
        self._shown = shown

    @property
    def calls(self) -> list[dict[str, Any]]:
        if not self._shown.exists():
            return []
        return [json.loads(line) for line in self._shown.read_text().splitlines()]

    def press(self, number: int, action: str) -> None:
        """Click a button of a notification."""
        asyncio.run(_press(self.env["DBUS_SESSION_BUS_ADDRESS"], number, action))

    def shown(self, word: str) -> list[dict[str, Any]]:
        """Return the notifications with ``word`` in their title or body."""
        return [one for one in self.calls if one["call"] == "Notify" and word in one["title"] + one["body"]]


async def _press(address: str, number: int, action: str) -> None:
    bus = await MessageBus(bus_address=address).connect()
    name, path = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
    call = Message(destination=name, path=path, interface=name, member="Press", signature="us", body=[number, action])
    reply = await bus.call(call)
    assert reply is not None
    assert reply.message_type is MessageType.METHOD_RETURN, reply.body
    bus.disconnect()


@contextlib.contextmanager
def desktop() -> Iterator[Desktop]:
    """Run dbus-daemon and the service. Without dbus-daemon: skip, or fail where end-to-end tests are required."""
    binary = need("dbus-daemon", "dbus-daemon (Debian, Ubuntu) or dbus")
    with tempfile.TemporaryDirectory(prefix="tw-bus-") as name, contextlib.ExitStack() as stack:
        address = f"unix:path={name}/bus"
        command = [binary, "--session", "--nofork", "--print-address=1", f"--address={address}"]
        stack.enter_context(_running(command, dict(os.environ)))
        shown = Path(name) / "shown.jsonl"
        env = os.environ | {"DBUS_SESSION_BUS_ADDRESS": address}
        stack.enter_context(_running([sys.executable, str(SERVICE), str(shown)], env))
        yield Desktop(address, shown)


@contextlib.contextmanager
def _running(command: list[str], env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), f"{command[0]} did not start"
        yield
    finally:
        process.terminate()
        process.wait(10)
