"""treewarden doctor: one line a check, with its fix; exit code 7 when something is wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

import typer

from actors.cli.checks import Check, answered, here, unanswered
from actors.cli.failure import Exit, Failure
from actors.cli.options import Json, RuntimeDir, StateDir, colour, emit_json
from actors.cli.table import plain

__all__ = ["doctor"]

_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


def doctor(json_output: Json = False, runtime_dir: RuntimeDir = None, state_dir: StateDir = None) -> None:
    """Check the daemon, its channels and sensors, and the files around it; name the fix of what is not well."""
    found = _all(runtime_dir, state_dir)
    if json_output:
        emit_json({"checks": [check.as_json() for check in found]})
    else:
        typer.echo("\n".join(_line(check) for check in found))
    if any(check.state == "bad" for check in found):
        raise typer.Exit(Exit.DEGRADED)


def _all(runtime_dir: Path | None, state_dir: Path | None) -> list[Check]:
    from actors.cli import directories
    from actors.cli.client import Control

    runtime = directories.runtime_dir(runtime_dir, os.environ)
    state = directories.state_dir(state_dir, os.environ)
    try:
        with Control(runtime) as control:
            status, health = control.get("/v1/status"), control.get("/v1/health")
    except Failure as failure:
        return [*unanswered(failure.message), *here(state, runtime, os.environ)]
    return [*answered(status, health, time.time()), *here(Path(status["state_dir"]), runtime, os.environ)]


def _line(check: Check) -> str:
    fix = f"  (fix: {plain(check.fix)})" if check.fix and check.state != "ok" else ""
    return f"{colour(_MARKS[check.state], check.state)}  {check.name}: {plain(check.detail)}{fix}"
