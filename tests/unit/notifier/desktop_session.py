"""A private session bus with a notification service on it, as async context managers. Real processes, no polling."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SERVICE = Path(__file__).parents[2] / "e2e" / "notification_service.py"
WAIT_S = 15


def need(binary: str, package: str) -> str:
    """Return the path of ``binary``; without it skip and name the package, or fail where the tests are required."""
    found = shutil.which(binary)
    if found:
        return found
    text = f"{binary} is missing: install {package}"
    if os.environ.get("TREEWARDEN_E2E_REQUIRED") == "1":
        pytest.fail(text)
    pytest.skip(text)


@asynccontextmanager
async def session_bus(directory: Path) -> AsyncIterator[str]:
    """Run dbus-daemon on a socket in ``directory``; yield its address. It is gone afterwards."""
    address = f"unix:path={directory}/session-bus"
    daemon = await asyncio.create_subprocess_exec(
        need("dbus-daemon", "dbus-daemon (Debian, Ubuntu) or dbus"),
        *("--session", "--nofork", "--print-address=1", f"--address={address}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert daemon.stdout is not None
        assert await asyncio.wait_for(daemon.stdout.readline(), WAIT_S), "dbus-daemon did not start"
        yield address
    finally:
        await end(daemon)
        (directory / "session-bus").unlink(missing_ok=True)


@dataclass
class Desk:
    """What a user would see: the calls that the notification service got, in order."""

    process: asyncio.subprocess.Process

    async def line(self) -> dict[str, Any]:
        """Return the next call."""
        assert self.process.stdout is not None
        text = await asyncio.wait_for(self.process.stdout.readline(), WAIT_S)
        found: dict[str, Any] = json.loads(text)
        return found


@asynccontextmanager
async def notification_service(address: str, *options: str) -> AsyncIterator[Desk]:
    """Own org.freedesktop.Notifications on the bus at ``address``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(str(SERVICE), "-", *options),
        env=os.environ | {"DBUS_SESSION_BUS_ADDRESS": address},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), WAIT_S) == b"ready\n"
        yield Desk(process)
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process that may have ended already."""
    if process.returncode is None:
        process.kill()
    await process.wait()
