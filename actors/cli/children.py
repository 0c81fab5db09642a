"""treewarden children: the processes, how often each ended, and what was last heard of those that did."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from actors.cli.options import Json, RuntimeDir, emit_json
from actors.cli.table import ago, columns, plain

__all__ = ["children"]

LOG_LINES = 5


def children(
    tree: Annotated[bool, typer.Option("--tree", help="Show who supervises whom.")] = False,
    process: Annotated[
        str | None, typer.Option("--process", metavar="NAME", help="Only this one, with its log.")
    ] = None,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Show the processes: state, restarts, deaths, the last exits with their last log lines."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        found = control.get("/v1/status")["children"]
        crashes = control.get("/v1/crashes", **({"process": process} if process else {}))
    shown = [one for one in found if process in (None, one["id"])]
    if json_output:
        emit_json({"children": shown, **crashes})
        return
    lines = _tree(shown) if tree else _table(shown, crashes["deaths"])
    typer.echo("\n".join([*lines, *_crashes(crashes["crashes"])]))


def _table(found: list[dict[str, Any]], deaths: dict[str, int]) -> list[str]:
    head = ("PROCESS", "PID", "STATE", "RESTARTS", "DEATHS", "SUPERVISOR", "LAST EXIT")
    rows = [
        (
            *(one["id"], one["pid"], "slow retry" if one["slow"] else one["state"], one["restarts"]),
            *(deaths.get(one["id"], 0), one["supervisor"], one["last_exit"]),
        )
        for one in found
    ]
    return columns(head, rows)


def _tree(found: list[dict[str, Any]]) -> list[str]:
    """Root first, each supervisor's children below it, in order of start."""
    lines = ["root"]
    nested = ""
    for one in found:
        if one["supervisor"] != "root" and one["supervisor"] != nested:
            nested = one["supervisor"]
            lines.append(f"  {nested}")
        indent = "  " if one["supervisor"] == "root" else "    "
        lines.append(f"{indent}{one['id']}  {one['state']}  pid {one['pid']}  restarts {one['restarts']}")
    return lines


def _crashes(crashes: list[dict[str, Any]]) -> list[str]:
    lines = ["", "no process has ended of itself"] if not crashes else ["", "LAST CRASHES"]
    now = time.time()
    for one in crashes:
        what = f"{one['supervisor']}: {one['context'].replace('_', ' ')}: {one['offender']}: {plain(one['reason'])}"
        lines.append(f"{ago(one['at'], now)}  {what}")
        lines += [f"    {plain(line)}" for line in one["log"][-LOG_LINES:]]
    return lines
