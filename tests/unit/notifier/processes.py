"""Real child processes on a real bus, with a stand-in for root that only hears them say ready."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.bus.endpoint import Endpoint
from tests.unit.notifier.desktop_session import WAIT_S, end

_START = """
import json, sys
from pathlib import Path
from supervisor.child import run_child
given = json.loads(sys.argv[1])
sys.exit(run_child(given["name"], given["start"], args={"shards": 2}, runtime_dir=Path(given["runtime_dir"]),
                   state_dir=Path(given["state_dir"]), sockets={}, settings=given["settings"]))
"""


@dataclass
class World:
    """``endpoint`` is root's place on the bus; ``directory`` holds runtime and state."""

    directory: Path
    endpoint: Endpoint
    ready: dict[str, asyncio.Event] = field(default_factory=dict)
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.directory / "state" / "treewarden.db"

    async def child(
        self, name: str, start: str, *, environ: Mapping[str, str] = {}, values: Mapping[str, Any] = {}
    ) -> asyncio.subprocess.Process:
        """Start ``module:function`` as the child ``name`` and wait until it is ready."""
        self.ready[name] = asyncio.Event()
        given = {
            "name": name,
            "start": start,
            "runtime_dir": str(self.directory),
            "state_dir": str(self.directory / "state"),
            "settings": {"version": 1, "values": dict(values), "sources": {}},
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _START, json.dumps(given), env=os.environ | dict(environ)
        )
        self.running.append(process)
        await asyncio.wait_for(self.ready[name].wait(), WAIT_S)
        return process


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    """Make the directories and listen as root; kill what was started at the end."""
    (directory / "bus").mkdir(mode=0o700)
    (directory / "state").mkdir(mode=0o700)
    endpoint = Endpoint("root", directory / "bus")
    made = World(directory, endpoint)

    async def ready(body: bytes) -> bytes:
        made.ready[json.loads(body)["child"]].set()
        return b"null"

    endpoint.on("Ready", ready)
    await endpoint.start()
    try:
        yield made
    finally:
        for process in made.running:
            await end(process)
        await endpoint.stop()
