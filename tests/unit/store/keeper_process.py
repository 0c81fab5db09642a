"""A real keeper in a process of its own, and the bus to talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from actors.store.database import FILE_NAME
from actors.store.requests import Commit, Committed, Health, KeeperHealth, Write
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["Bench", "bench", "keeper_command"]

_MAIN = """
import sys
from pathlib import Path
from supervisor.child import run_child
runtime, state = map(Path, sys.argv[1:])
sys.exit(run_child("keeper", "actors.store.keeper:main", args={}, runtime_dir=runtime, state_dir=state,
                   sockets={}, settings={"version": 0, "values": {}, "sources": {}}))
"""
DEADLINE_S = 20.0


def keeper_command(runtime: Path, state: Path) -> list[str]:
    return [sys.executable, "-c", _MAIN, str(runtime), str(state)]


class Bench:
    """Plays root and senders for one keeper."""

    def __init__(self, directory: Path, endpoint: Endpoint) -> None:
        self.runtime = directory
        self.state = directory / "state"
        self.path = self.state / FILE_NAME
        self.endpoint = endpoint
        self.keeper = Ref(endpoint, "keeper")
        self.process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        endpoint.on("Ready", self._on_ready)

    async def _on_ready(self, _body: bytes) -> bytes:
        self._ready.set()
        return b"null"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self, command: Sequence[str] | None = None) -> None:
        """Start a keeper (by ``command`` where a wrapper is needed) and wait until it is ready."""
        self._ready.clear()
        words = command or keeper_command(self.runtime, self.state)
        self.process = await asyncio.create_subprocess_exec(*words, cwd=Path(__file__).parents[3])
        await asyncio.wait_for(self._ready.wait(), DEADLINE_S)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and return the exit code."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), DEADLINE_S)

    async def commit(self, *writes: Write, durable: bool = False) -> Committed:
        return await self.keeper.ask(Commit(writes=list(writes), durable=durable), Committed, timeout_s=DEADLINE_S)

    async def health(self) -> Health:
        return await self.keeper.ask(KeeperHealth(), Health)

    async def until_ok(self) -> None:
        """Ask again and again until the keeper says ok."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self.health()).state != "ok":
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    bus = directory / "bus"
    bus.mkdir()
    endpoint = Endpoint("root", bus)
    await endpoint.start()
    made = Bench(directory, endpoint)
    try:
        yield made
    finally:
        if made.process is not None and made.process.returncode is None:
            with contextlib.suppress(BusError, TimeoutError):
                await made.end(signal.SIGKILL)
        await endpoint.stop()
