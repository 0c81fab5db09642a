"""A real root with tiny children, for tests: started from a plan, asked over the bus, watched through pidfds."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError

__all__ = ["Death", "RootUnderTest", "child", "forest", "short_directory"]

WAIT_S = 15.0
REPOSITORY = Path(__file__).parents[3]


def child(name: str, function: str = "serve", **spec: Any) -> dict[str, Any]:
    """A child spec of a plan."""
    return {"id": name, "start": f"tests.unit.supervisor.children:{function}", **spec}


def forest(*children: dict[str, Any]) -> dict[str, Any]:
    """A nested supervisor of a plan."""
    return {"id": "forest", "nested": {"children": list(children)}}


@contextmanager
def short_directory() -> Iterator[Path]:
    """A temporary directory whose path leaves room for socket names."""
    with tempfile.TemporaryDirectory(prefix="tw", dir="/tmp") as name:
        yield Path(name)


class Death:
    """Waits for the end of a process that is not ours, by pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def within(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def close(self) -> None:
        os.close(self._pidfd)


class RootUnderTest:
    """``with RootUnderTest(directory, [children]) as root``: started, all ready; killed at the end."""

    def __init__(
        self,
        directory: Path,
        children: list[dict[str, Any]],
        *,
        environment: dict[str, str] | None = None,
        command: list[str] | None = None,
        wait: bool = True,
        supervisor: dict[str, Any] | None = None,
        **plan: Any,
    ) -> None:
        self.directory = directory
        self.runtime_dir = directory / "run"
        self._wait = wait
        self._deaths: list[Death] = []
        data = {
            "supervisor": {"children": children, **(supervisor or {})},
            "runtime_dir": str(self.runtime_dir),
            "state_dir": str(directory / "state"),
            **plan,
        }
        (directory / "plan.json").write_text(json.dumps(data), encoding="utf-8")
        self._stderr = (directory / "stderr").open("ab")
        self.process = subprocess.Popen(
            [*(command or [sys.executable, "-m", "supervisor.root"]), "--plan", str(directory / "plan.json")],
            cwd=REPOSITORY,
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        try:
            if self._wait:
                self.await_ready()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()
        self._stderr.close()
        for death in self._deaths:
            death.close()
        if error is not None:
            sys.stderr.write(self.stderr())

    def await_ready(self) -> None:
        """Read the banner up to its last line."""
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        said = b""
        while b"all children ready\n" not in said:
            assert poll.poll(WAIT_S * 1000), f"not ready in {WAIT_S} s: {said!r}"
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"root ended: {self.stderr()}"
            said += more
        self.lines = said.decode().splitlines()

    def stderr(self) -> str:
        return (self.directory / "stderr").read_text(encoding="utf-8", errors="replace")

    def ask(self, peer: str, kind: str, body: Any = None) -> Any:
        """Ask a process over the bus."""

        async def asking() -> Any:
            endpoint = Endpoint("test", self.runtime_dir / "bus")
            try:
                return json.loads(await endpoint.ask(peer, kind, json.dumps(body).encode(), timeout_s=5))
            finally:
                await endpoint.stop()

        return asyncio.run(asking())

    def children(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.ask("root", "Children")["children"]}

    def until(self, holds: Callable[[dict[str, dict[str, Any]]], bool], timeout_s: float = WAIT_S) -> float:
        """Ask for the children until it holds; return the seconds it took."""
        begin = time.monotonic()
        while time.monotonic() - begin < timeout_s:
            try:
                if holds(self.children()):
                    return time.monotonic() - begin
            except BusError:
                continue
        raise AssertionError(f"did not come to hold in {timeout_s} s: {self.children()}")

    def watch(self, *pids: int) -> list[Death]:
        """Open pidfds while the processes live, to see their end later."""
        deaths = [Death(pid) for pid in pids]
        self._deaths += deaths
        return deaths

    def watch_all(self) -> list[Death]:
        """Watch every process below root."""
        return self.watch(*descendants(self.process.pid))

    def kill(self, name: str) -> float:
        """Kill a child; return how long it takes until it serves again."""
        before = self.children()[name]
        os.kill(before["pid"], signal.SIGKILL)
        return self.until(lambda rows: rows[name]["restarts"] > before["restarts"] and rows[name]["state"] == "ready")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Signal root; return its exit code and how long it took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        return code, time.monotonic() - begin


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``."""
    try:
        own = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return own + [below for each in own for below in descendants(each)]
