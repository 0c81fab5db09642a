"""Performs the core's commands on OS processes, and tells what stands.

Runs on root's event loop and never blocks it. One run per child id at a time, which the core guarantees. Every process
that becomes root's child is a run, the fork server, or a stray (an orphaned grandchild): strays that have ended are
reaped by ``sweep``, on every SIGCHLD, so that no zombie stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from supervisor import linux
from supervisor.bus.endpoint import Endpoint
from supervisor.events import Ending, Event, Forget, Start, StartFailed, Stop
from supervisor.launcher import Launcher
from supervisor.logtail import LogPipe, LogSink
from supervisor.process import Process, Surroundings
from supervisor.spec import ChildSpec

__all__ = ["Outfit", "Processes"]

_KILL_GAP_S = 10.0
_log = logging.getLogger(__name__)


@dataclass
class Outfit:
    """What every child is given. ``settings`` is opaque and may be replaced: later starts get the new one."""

    runtime_dir: Path
    state_dir: Path
    settings: Any = field(default_factory=dict)
    sockets: dict[str, dict[str, socket.socket]] = field(default_factory=dict)

    def launch(self, spec: ChildSpec) -> dict[str, Any]:
        """Return what the fork server needs to run the child, as JSON data."""
        return {
            "name": spec.id,
            "start": spec.start,
            "args": dict(spec.args),
            "runtime_dir": str(self.runtime_dir),
            "state_dir": str(self.state_dir),
            "settings": self.settings,
            "sockets": list(self.sockets.get(spec.id, {})),
        }

    def descriptors(self, spec: ChildSpec) -> list[int]:
        """Return the descriptors of the child's listening sockets, in the order of ``launch``."""
        return [listener.fileno() for listener in self.sockets.get(spec.id, {}).values()]


class Processes:
    """The runner. ``emit`` takes events for the core; ``changed`` is called when a pid came or went."""

    def __init__(
        self,
        specs: Mapping[str, ChildSpec],
        *,
        launcher: Launcher,
        endpoint: Endpoint,
        outfit: Outfit,
        sink: LogSink,
        emit: Callable[[Event], None],
        changed: Callable[[], None],
    ) -> None:
        self.specs = specs
        self._launcher = launcher
        self._outfit = outfit
        self._sink = sink
        self._around = Surroundings(endpoint, launcher.available, emit, changed, self._may_kill)
        self._runs: dict[str, Process] = {}
        self._starts: Counter[str] = Counter()
        self._killed_at = float("-inf")
        self._exits: dict[str, str] = {}

    def start(self, command: Start) -> None:
        """Start a run in the background; one that cannot begin (no descriptor is free) fails in the next turn."""
        spec = command.spec or self.specs[command.id]
        previous = self._runs.get(spec.id)
        if previous is not None and previous.end is None:
            raise RuntimeError(f"{spec.id}: run {command.run} started while run {previous.run} lives")
        try:
            pipe = LogPipe(self._sink)
        except OSError as error:
            self._cannot(spec, command.run, f"no log pipe: {error.strerror}")
            return

        async def launch() -> int:
            descriptors = [pipe.write_fd, *self._outfit.descriptors(spec)]
            return await self._launcher.launch(self._outfit.launch(spec), descriptors)

        if previous is not None and previous.end is not None:
            self._exits[spec.id] = previous.end
        self._starts[spec.id] += 1
        self._runs[spec.id] = Process(spec, command.run, pipe, launch, self._around)

    def _cannot(self, spec: ChildSpec, run: int, reason: str) -> None:
        previous = self._runs.pop(spec.id, None)
        self._exits[spec.id] = reason
        self._starts[spec.id] += 1
        _log.error("%s cannot be started: %s", spec.id, reason)
        failed = StartFailed(spec.id, run, reason)
        asyncio.get_running_loop().call_soon(self._around.emit, failed)  # the core is not done with its commands yet
        if previous is not None:
            self._around.changed()

    def forget(self, command: Forget) -> None:
        """Drop what is remembered of a child that has left the tree for good."""
        for memory in (self._runs, self._exits, self._starts):
            memory.pop(command.id, None)

    def stop(self, command: Stop) -> None:
        """Stop a run in the background."""
        process = self._runs.get(command.id)
        if process is not None and process.run == command.run:
            process.stop(command.shutdown)

    def ready(self, child: str, pid: int) -> bool:
        """Pass on a child's word that it serves; False when no such child is being run."""
        process = self._runs.get(child)
        if process is None or process.end is not None:
            return False
        process.ready(pid)
        return True

    def farewell(self, child: str, pid: int, ending: Ending | Literal["ignore"], reason: str) -> None:
        """Pass on a child's word how it is about to end: an exit code says less than OTP's reasons."""
        process = self._runs.get(child)
        if process is not None and process.pid == pid:
            process.farewell(ending, reason)

    def restarts(self, child: str) -> int:
        """Return how often the child has been started again."""
        return max(0, self._starts[child] - 1)

    def pid(self, child: str) -> int | None:
        """Return the pid of the child's living process."""
        process = self._runs.get(child)
        return process.pid if process is not None and process.end is None else None

    def last_exit(self, child: str) -> str | None:
        """Return how the newest run that has ended did so."""
        process = self._runs.get(child)
        return process.end if process is not None and process.end is not None else self._exits.get(child)

    def last_run(self, child: str) -> tuple[int | None, tuple[str, ...]]:
        """Return pid and last log lines of the newest run."""
        process = self._runs.get(child)
        return (process.pid, process.pipe.tail()) if process is not None else (None, ())

    def answered_since(self, child: str, moment: float) -> bool:
        """Say whether the child has answered a heartbeat since ``moment`` on the loop's clock."""
        process = self._runs.get(child)
        return process is not None and process.end is None and process.answered_at >= moment

    def living(self) -> dict[str, int]:
        """Return the pids of all living children."""
        return {name: p.pid for name, p in self._runs.items() if p.end is None and p.pid is not None}

    def kill_all(self) -> None:
        """Kill every child and its group at once, strays included."""
        for process in self._runs.values():
            process.signal(signal.SIGKILL)
        for pid in self._strays():
            linux.kill_group(pid)

    def sweep(self) -> None:
        """Reap strays that have ended. Not while a launch is under way: its pid is not known yet."""
        if self._launcher.busy:
            return
        for pid in self._strays():
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue

    def _strays(self) -> list[int]:
        ours = {*self.living().values(), self._launcher.pid}
        return [pid for pid in linux.children_of(os.getpid()) if pid not in ours]

    def _may_kill(self) -> bool:
        """One slow disk must not cost several children at once: silent ones are killed one by one."""
        now = asyncio.get_running_loop().time()
        if now - self._killed_at < _KILL_GAP_S:
            return False
        self._killed_at = now
        return True
