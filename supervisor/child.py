"""The runtime of one child process: the handshake with the supervisor, so that ``main`` need not know it.

A child listens on the bus first, runs its ``main(child)``, says ready, answers Ping through its own probe, and ends
when asked to Stop or on SIGTERM; ``main`` may raise ``Leave`` and ``NothingToDo`` (supervisor.leaving). It never
outlives root: root's death kills it (parent-death signal of the starter).
Open databases, threads and sockets inside ``main`` only, never at import: the process was forked with modules loaded.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor import logs
from supervisor.bus.endpoint import Endpoint
from supervisor.leaving import Leave, NothingToDo

__all__ = ["BUS_DIRECTORY", "Child", "Main", "RenderedSettings", "run_child"]

BUS_DIRECTORY = "bus"
ROOT = "root"

_log = logging.getLogger(__name__)

Main = Callable[["Child"], Awaitable[None]]
Probe = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class RenderedSettings:
    """Settings as the renderer left them: a version, plain values, where each came from, and what the layers say."""

    version: int
    values: dict[str, Any]
    sources: dict[str, str]
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)


async def _no_probe() -> None:
    return None


@dataclass
class Child:
    """Everything a child's ``main`` gets. ``stopping`` is set when it should finish and return."""

    name: str
    endpoint: Endpoint
    runtime_dir: Path
    state_dir: Path
    args: dict[str, Any]
    sockets: dict[str, socket.socket]
    settings: RenderedSettings
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _probe: Probe = _no_probe

    def on_probe(self, probe: Probe) -> None:
        """Run every heartbeat through ``probe``: it should pass the loop and the actors. It may raise."""
        self._probe = probe

    async def ready(self) -> None:
        """Tell root that this child serves. Raises a BusError when root is gone."""
        self.endpoint.open()
        body = json.dumps({"child": self.name, "pid": os.getpid()}).encode()
        await self.endpoint.ask(ROOT, "Ready", body, timeout_s=10)

    async def say_ending(self, ending: str, reason: str = "") -> None:
        """Tell root how this child is about to end; counts when the process ends with exit code 0."""
        word = {"child": self.name, "pid": os.getpid(), "ending": ending, "reason": reason}
        await self.endpoint.ask(ROOT, "Ending", json.dumps(word).encode(), timeout_s=10)

    async def answer_ping(self, _body: bytes) -> bytes:
        await self._probe()
        return b"null"

    async def answer_stop(self, _body: bytes) -> bytes:
        self.stopping.set()
        return b"null"


def run_child(
    name: str,
    start: str,
    *,
    args: dict[str, Any],
    runtime_dir: Path,
    state_dir: Path,
    sockets: dict[str, socket.socket],
    settings: dict[str, Any],
) -> int:
    """Run ``module:function`` as the main of child ``name`` in this process; return its exit code."""
    logs.configure(name)
    values, sources, layers = (settings.get(key, {}) for key in ("values", "sources", "layers"))
    rendered = RenderedSettings(settings.get("version", 0), values, sources, layers)

    async def life() -> None:
        endpoint = Endpoint(name, runtime_dir / BUS_DIRECTORY)
        child = Child(name, endpoint, runtime_dir, state_dir, args, sockets, rendered)
        await _live(child, _load(start))

    try:
        _run_on_fast_loop(life())
    except Exception:  # noqa: BLE001 - the traceback must reach the log before the process ends
        _log.exception("%s crashed", name)
        return 1
    return 0


async def _live(child: Child, main: Main) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, child.stopping.set)
    child.endpoint.on("Ping", child.answer_ping)
    child.endpoint.on("Stop", child.answer_stop)
    await child.endpoint.start(opened=False)
    try:
        await main(child)
    except Leave as leaving:
        await child.say_ending(leaving.ending, str(leaving))
    except NothingToDo:
        await child.say_ending("ignore")
    finally:
        await child.endpoint.stop()


def _load(start: str) -> Main:
    module, _, function = start.partition(":")
    main: Main = getattr(importlib.import_module(module), function)
    return main


def _run_on_fast_loop(life: Any) -> None:
    import uvloop  # not at import: root imports nothing of it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life)
