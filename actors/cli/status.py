"""treewarden status: one screen of what the daemon does, with the right exit code."""

from __future__ import annotations

import time
from typing import Any

import typer

from actors.cli.failure import Exit
from actors.cli.options import Json, RuntimeDir, colour, emit_json
from actors.cli.table import ago, columns, plain

__all__ = ["status", "unwell"]

TIMEOUT_S = 5.0


def status(json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Show the daemon, its processes and the trees. Exit code 7 when a process is not ready."""
    from actors.cli.client import Control

    with Control(runtime_dir, timeout_s=TIMEOUT_S) as control:
        found = control.get("/v1/status")
    if json_output:
        emit_json(found)
    else:
        typer.echo("\n".join(_screen(found)))
    if unwell(found):
        raise typer.Exit(Exit.DEGRADED)


def unwell(found: dict[str, Any]) -> list[str]:
    """Name what is not as it should be."""
    wrong = [f"{child['id']} is {child['state']}" for child in found["children"] if child["state"] != "ready"]
    if "root" in found:
        wrong.append(f"root {found['root']}")
    if found["trees"].get("error"):
        wrong.append(f"database: {found['trees']['error']}")
    return wrong


def _crash(found: dict[str, Any]) -> list[str]:
    """The newest crash, for the eye; treewarden children shows them all."""
    newest = next(iter(found.get("crashes", ())), None)
    if newest is None:
        return []
    what = f"{newest['offender']}: {plain(newest['reason'])} ({newest['context'].replace('_', ' ')})"
    return ["", f"last crash {ago(newest['at'], time.time())}: {what}; see treewarden children"]


def _screen(found: dict[str, Any]) -> list[str]:
    trees = found["trees"]
    counts = ", ".join(f"{count} {colour(name, name)}" for name, count in trees["by_verdict"].items())
    wrong = unwell(found)
    head = colour("ok", "ok") if not wrong else colour("degraded: ", "bad") + "; ".join(wrong)
    rows = [(child["id"], child["pid"], child["state"], child["restarts"]) for child in found["children"]]
    return [
        f"treewarden {found['version']}  {head}",
        f"mode      {found['mode']}",
        f"trees     {trees['total']}  ({counts})",
        f"api       {found['url']}",
        f"control   {found['control_socket']}",
        f"token     {found['token_file']}",
        "",
        *columns(("PROCESS", "PID", "STATE", "RESTARTS"), rows),
        *_crash(found),
    ]
