"""The world of real processes: the runner that root uses, with its fork server, bus, pidfds and shutdown ladder.

``python -m tests.conformance.process_world`` reads seeds as JSON from stdin and writes their traces to stdout; it is a
process of its own because it becomes a subreaper. ``process_traces`` starts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from supervisor import linux
from supervisor.bus.endpoint import Endpoint
from supervisor.events import Ending, Start, Stop
from supervisor.launcher import Launcher
from supervisor.logtail import LogSink
from supervisor.process import IGNORE
from supervisor.processes import Outfit, Processes
from tests.conformance.generate import scenario
from tests.conformance.moving import MovingWorld
from tests.conformance.rig import Rig
from tests.conformance.trace import Life

__all__ = ["ProcessWorld", "process_traces"]

SHORT_MS = 600
"""Budget that runs out. Real processes need some 10 ms to stop, more on a busy machine."""

_REPOSITORY = Path(__file__).parents[2]


class Office:
    """What every scenario shares: the bus, the fork server; and which world is on stage."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.endpoint = Endpoint("root", directory / "bus")
        self.launcher = Launcher(["supervisor.child", "uvloop", "tests.conformance.worker"])
        self.sink = LogSink(os.open(os.devnull, os.O_WRONLY))
        self.world: ProcessWorld | None = None

    async def start(self) -> None:
        for name in ("Ready", "Ending", "Begin", "MayStop"):
            self.endpoint.on(name, self._handler(name))
        await self.endpoint.start()
        self.launcher.start()

    async def stop(self) -> None:
        self.launcher.close()
        await self.endpoint.stop()

    def _handler(self, kind: str) -> Callable[[bytes], asyncio.Future[bytes]]:
        async def handle(body: bytes) -> bytes:
            assert self.world is not None
            return await self.world.on_message(kind, json.loads(body))

        return handle  # type: ignore[return-value]


class ProcessWorld(MovingWorld):
    """Runs workers as processes."""

    def __init__(self, rig: Rig, office: Office) -> None:
        super().__init__(rig)
        self._office = office
        self._tells: set[asyncio.Task[None]] = set()
        self._processes = Processes(
            {},
            launcher=office.launcher,
            endpoint=office.endpoint,
            outfit=Outfit(office.directory, office.directory),
            sink=office.sink,
            emit=self.emit,
            changed=lambda: None,
        )
        office.world = self

    # Orders of the rig

    def begin(self, life: Life, command: Start) -> None:
        self.move(life)
        self.close_gate(life)
        self._processes.start(command)

    def grant(self, life: Life) -> None:
        self.move(life)
        self.open_gate(life.run)

    def stop(self, life: Life, command: Stop) -> None:
        self.move(life)
        if life.state == "stopping":
            self.close_gate(life)
        self._processes.stop(command)

    def let_go(self, life: Life) -> None:
        self.grant(life)

    def die(self, life: Life, reason: str) -> None:
        self.move(life)
        if reason == "kill":
            pid = self._processes.pid(life.id)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            return
        task = self.loop.create_task(self._office.endpoint.tell(life.id, "Die", json.dumps(reason).encode()))
        self._tells.add(task)
        task.add_done_callback(self._tells.discard)

    # News of the children

    async def on_message(self, kind: str, word: dict[str, str]) -> bytes:
        child, pid = word["child"], int(word["pid"])
        if kind == "Ready":
            self._processes.ready(child, pid)
        elif kind == "Ending":
            ending = word["ending"] if word["ending"] == IGNORE else Ending(word["ending"])
            self._processes.farewell(child, pid, ending, word["reason"])  # type: ignore[arg-type]
        else:
            life = next(life for life in self.rig.lives.values() if life.id == child)
            if kind == "Begin" or life.shutdown != SHORT_MS:
                self.rest(life.run)
            await self.gates[life.run]
            return json.dumps({"outcome": life.outcome, "manner": life.manner}).encode()
        return b"null"


def process_traces(wanted: list[int]) -> dict[int, list[str]]:
    """Run scenarios with real processes, two at a time."""
    command = [sys.executable, "-m", "tests.conformance.process_world"]
    running = []
    for half in (wanted[::2], wanted[1::2]):
        process = subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append((process, json.dumps(half).encode()))
    assert all(process.stdin is not None for process, _text in running)
    for process, text in running:
        process.stdin.write(text)  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]
    found: dict[int, list[str]] = {}
    for process, _text in running:
        answer = process.stdout.read()  # type: ignore[union-attr]
        if process.wait() != 0:
            raise RuntimeError(f"the process side ended with {process.returncode}")
        found |= {int(seed): lines for seed, lines in json.loads(answer).items()}
    return found


async def _run_all(wanted: list[int]) -> dict[int, list[str]]:
    with tempfile.TemporaryDirectory(prefix="cf", dir="/tmp") as name:
        office = Office(Path(name))
        (Path(name) / "bus").mkdir(mode=0o700)
        await office.start()
        try:
            return {seed: await _trace(seed, office) for seed in wanted}
        finally:
            await office.stop()


async def _trace(seed: int, office: Office) -> list[str]:
    try:
        return await Rig(scenario(seed, SHORT_MS), lambda rig: ProcessWorld(rig, office)).run()
    except Exception:  # noqa: BLE001 - a crash of ours is a difference like any other
        return traceback.format_exc().splitlines()


if __name__ == "__main__":
    linux.become_subreaper()
    json.dump(asyncio.run(_run_all(json.load(sys.stdin))), sys.stdout)
