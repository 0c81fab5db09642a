"""Runs scenarios through OTP's own supervisor: compiles otp/conformance.erl and starts a few Erlang VMs.

The VMs mostly wait (for budgets in ms, for periods to pass), so several of them share a core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.conformance.generate import Scenario, to_erlang

__all__ = ["INSTALL", "available", "required", "traces"]

INSTALL = "apt-get install --no-install-recommends erlang-base"
_SOURCE = Path(__file__).parent / "otp" / "conformance.erl"
_VMS = 8
_LEAST = 25
_TIMEOUT_S = 900


def available() -> bool:
    """Say whether Erlang is installed."""
    return shutil.which("erl") is not None and shutil.which("erlc") is not None


def required() -> bool:
    """Say whether a missing Erlang is a failure."""
    return os.environ.get("TREEWARDEN_E2E_REQUIRED") == "1"


def traces(scenarios: list[Scenario]) -> dict[int, list[str]]:
    """Return what OTP does with each scenario, by seed."""
    with tempfile.TemporaryDirectory(prefix="otp") as name:
        directory = Path(name)
        subprocess.run(["erlc", "-o", name, str(_SOURCE)], check=True)
        vms = max(1, min(_VMS, len(scenarios) // _LEAST))
        running = [_start(directory, number, scenarios[number::vms]) for number in range(vms)]
        found: dict[int, list[str]] = {}
        for number, process in enumerate(running):
            if process.wait(_TIMEOUT_S) != 0:
                raise RuntimeError(f"the Erlang side ended with {process.returncode}")
            found |= _read(directory / f"out{number}")
        return found


def _start(directory: Path, number: int, scenarios: list[Scenario]) -> subprocess.Popen[bytes]:
    (directory / f"in{number}").write_text("".join(map(to_erlang, scenarios)), encoding="ascii")
    # One scheduler: the Erlang side sees by the empty run queue that nothing moves any more.
    options = ["+S", "1:1", "-noshell", "-run", "conformance", "main"]
    return subprocess.Popen(["erl", *options, f"in{number}", f"out{number}"], cwd=directory, stdin=subprocess.DEVNULL)


def _read(path: Path) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            lines = found.setdefault(int(line[1:]), [])
        else:
            lines.append(line)
    return found
