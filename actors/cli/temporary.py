"""A daemon for the time of one command: own directories, a free port, ended and removed afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.cli.client import Control
from actors.cli.failure import Exit, Failure
from actors.cli.run import prepare, root_command, root_environment

__all__ = ["temporary_daemon"]

START_S = 20.0
STOP_S = 10.0
_POLL_S = 0.1


@contextlib.contextmanager
def temporary_daemon() -> Iterator[Path]:
    """Run a daemon with default settings; give its runtime directory once all its processes are ready."""
    with tempfile.TemporaryDirectory(prefix="treewarden-") as name:
        home = Path(name)
        plan = prepare(state_dir=home / "state", runtime_dir=home / "run", port=0, config=None, env={"HOME": name})
        log = home / "log"
        with log.open("wb") as file:
            process = _start(plan, file)
        try:
            _wait(process, home / "run", log)
            yield home / "run"
        finally:
            _end(process)


def _start(plan: dict[str, Any], log: Any) -> subprocess.Popen[bytes]:
    fd = os.memfd_create("treewarden-plan")
    try:
        with open(fd, "w", encoding="utf-8", closefd=False) as file:
            json.dump(plan, file)
        os.lseek(fd, 0, os.SEEK_SET)
        environment = root_environment(os.environ, terminal=False)
        return subprocess.Popen(root_command(fd), pass_fds=[fd], env=environment, stdout=log, stderr=log)
    finally:
        os.close(fd)


def _wait(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> None:
    deadline = time.monotonic() + START_S
    with Control(runtime) as control:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                children = control.get("/v1/status")["children"]
            except Failure:
                children = []
            if children and all(child["state"] == "ready" for child in children) and (runtime / "sensor.json").exists():
                return
            time.sleep(_POLL_S)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    raise Failure(Exit.DEGRADED, f"the temporary daemon did not start:\n{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
