"""treewarden mode: what may be done about a detection, for the daemon or for one tree."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.options import Json, RuntimeDir, emit_json

__all__ = ["MODES", "mode"]

# those of actors.messages.Mode, whose import would cost every command 100 ms; a test holds them together
MODES = ("warn", "auto_compact", "auto_limit_context", "auto_recover")
CLEAR = "default"
_ALLOWED = (*MODES, CLEAR)


def mode(
    mode: Annotated[
        str | None, typer.Argument(metavar="[MODE]", help=f"One of {', '.join(_ALLOWED)}; without it: show the mode.")
    ] = None,
    tree: Annotated[str | None, typer.Argument(metavar="[TREE]", help="Only for this tree.")] = None,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Show or change the mode at once; "default" goes back to what is configured. Every mode only warns as yet."""
    from actors.cli.client import Control

    if mode is None:
        with Control(runtime_dir) as control:
            found = control.get("/v1/status")["mode"]
        emit_json({"mode": found}) if json_output else typer.echo(f"mode {found}")
        return
    if mode not in _ALLOWED:
        raise Failure(Exit.INVALID, f"mode = {mode} must be one of {', '.join(_ALLOWED)}")
    with Control(runtime_dir) as control:
        answer = control.post("/v1/mode", {"mode": None if mode == CLEAR else mode, "tree": tree})
    if json_output:
        emit_json(answer)
    else:
        typer.echo("\n".join(_screen(answer)))


def _screen(answer: dict[str, Any]) -> list[str]:
    note = f"note: {answer['note']}" if answer.get("note") else ""
    if "tree" in answer:
        return [f"tree {answer['tree']}: mode {answer['mode'] or 'as the daemon'}", note]
    changes = answer["changes"]
    before = changes[0]["before"] if changes else answer["mode"]
    return [f"mode {before} -> {answer['mode']} (settings version {answer['version']})", note]
