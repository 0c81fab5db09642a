"""treewarden restart: one process, or all of them one after the other, while the rest goes on serving."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.options import Json, RuntimeDir, emit_json

__all__ = ["restart"]

TIMEOUT_S = 310.0
BACK_S = 60.0
_POLL_S = 0.2


def restart(
    child: Annotated[str | None, typer.Argument(metavar="[CHILD]", help="Process to restart; see children.")] = None,
    rolling: Annotated[bool, typer.Option("--rolling", help="Restart all, one after the other.")] = False,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Restart a process, or all with --rolling, which stops at the first one that does not get ready."""
    from actors.cli.client import Control

    if (child is None) is not rolling:
        raise Failure(Exit.USAGE, "name a process, or say --rolling for all of them; see treewarden children")
    with Control(runtime_dir, timeout_s=TIMEOUT_S) as control:
        before = {one["id"]: one["pid"] for one in control.get("/v1/status")["children"]}
        answer = control.post("/v1/children/restart", {} if rolling else {"child": child})
        if answer.get("watch"):
            answer = _watched(control, before, list(before) if rolling else [str(child)])
    _show(answer, json_output, before)


def _watched(control: Any, before: dict[str, int], wanted: list[str]) -> dict[str, Any]:
    """Control was restarted too and cannot answer: look until the wanted ones are ready under another pid."""
    deadline = time.monotonic() + BACK_S
    left = wanted
    while time.monotonic() < deadline:
        left = [name for name in wanted if not _anew(control, before, name)]
        if not left:
            break
        time.sleep(_POLL_S)
    done = [name for name in wanted if name not in left]
    failed = {"child": left[0], "ready": False, "reason": f"not ready after {BACK_S:.0f} s"} if left else None
    return {"restarted": done, "failed": failed, "left": left[1:]}


def _anew(control: Any, before: dict[str, int], name: str) -> bool:
    try:
        found = {one["id"]: one for one in control.get("/v1/status")["children"]}
    except Failure:
        return False
    return bool(found[name]["state"] == "ready" and found[name]["pid"] != before[name])


def _show(answer: dict[str, Any], json_output: bool, before: dict[str, int]) -> None:
    failed = answer.get("failed") if "restarted" in answer else (None if answer["ready"] else answer)
    if json_output:
        emit_json(answer)
    else:
        for name in answer.get("restarted", [] if failed else [answer.get("child")]):
            typer.echo(f"{name}: ready again (was pid {before.get(name)})")
        if failed:
            typer.echo(f"{failed['child']}: not ready: {failed['reason']}")
            if answer.get("left"):
                typer.echo(f"left as they were: {', '.join(answer['left'])}")
    if failed:
        raise typer.Exit(Exit.DEGRADED)
