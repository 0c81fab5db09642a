"""A real treewarden for tests: the command line starts it in directories of its own, on a free port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

START_S = 30.0
_READY = "all children ready"


class Daemon:
    """Start, ask, hurt and stop one daemon. Paths are short: a Unix socket's path has 108 bytes."""

    def __init__(self, config: str | None = None, env: dict[str, str] | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="tw-")
        self.home = Path(self._home.name)
        self.runtime, self.state = self.home / "r", self.home / "s"
        self.log = self.home / "log"
        self.config = self.home / "treewarden.yaml" if config is not None else None
        if self.config is not None:
            self.config.write_text(config or "")
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TREEWARDEN_", "XDG_", "NOTIFY_")) or name == "TREEWARDEN_E2E_REQUIRED"
        }
        self.env |= {"HOME": str(self.home), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"} | (env or {})
        self.process: subprocess.Popen[str] | None = None
        self.printed: list[str] = []

    # life

    def start(self, *, wait: bool = True) -> Daemon:
        command = self.command("run", "--port", "0", "--state-dir", str(self.state))
        if self.config is not None:
            command += ["--config", str(self.config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=self.env, text=True, start_new_session=True
            )
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process, ready), daemon=True).start()
        if wait and not ready.wait(START_S):
            raise AssertionError(f"the daemon did not get ready:\n{self.tail()}")
        return self

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.printed.append(line.rstrip("\n"))
            if _READY in line:
                ready.set()

    def stop(self) -> float:
        """SIGTERM; return how many seconds the stop took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.terminate()
        self.process.wait(20)
        return time.monotonic() - began

    def kill_root(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self._home.cleanup()

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    # asking

    @property
    def sensor(self) -> dict[str, Any]:
        return json.loads((self.runtime / "sensor.json").read_text())

    def token(self, scope: str) -> str:
        return (self.state / "tokens" / f"{scope}.token").read_text().strip()

    def client(self, scope: str = "operator", timeout_s: float = 30.0) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token(scope)}"}
        return httpx.Client(base_url=self.sensor["url"], headers=headers, timeout=timeout_s)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "actors.cli", *arguments, "--runtime-dir", str(self.runtime)]

    def cli(self, *arguments: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env=self.env, timeout=60, check=False
        )
        if check is not None and done.returncode != check:
            raise AssertionError(f"{arguments}: exit {done.returncode}, wanted {check}\n{done.stdout}\n{done.stderr}")
        return done

    def status(self) -> dict[str, Any]:
        """What ``treewarden status --json`` prints, asked of the control socket directly: a test asks often."""
        transport = httpx.HTTPTransport(uds=str(self.runtime / "control.sock"))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=10) as client:
            return client.get("/v1/status").raise_for_status().json()

    def children(self) -> dict[str, dict[str, Any]]:
        return {child["id"]: child for child in self.status()["children"]}

    # hurting

    def kill(self, child: str) -> int:
        """kill -9 one child; return its pid."""
        pid = self.children()[child]["pid"]
        os.kill(pid, signal.SIGKILL)
        return int(pid)


@contextlib.contextmanager
def daemon(config: str | None = None, env: dict[str, str] | None = None) -> Iterator[Daemon]:
    """A started daemon that is stopped and removed at the end."""
    made = Daemon(config, env)
    try:
        yield made.start()
    finally:
        made.close()


def until(condition: Any, timeout_s: float = 10.0, what: str = "the condition") -> Any:
    """Return the first true value of ``condition()``; fail when there is none in time."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        pause.wait(0.05)
    raise AssertionError(f"{what} never held within {timeout_s} s")
