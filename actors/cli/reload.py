"""treewarden reload: the settings file is read anew and used by all processes or by none. ExecReload of the service."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from actors.cli.options import Json, RuntimeDir, emit_json
from actors.cli.table import columns

__all__ = ["reload"]

TIMEOUT_S = 30.0


def reload(
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
    note: Annotated[str, typer.Option("--note", help="Why, for the audit.")] = "reload",
) -> None:
    """Read the settings file anew; a file that is not valid changes nothing."""
    from actors.cli.client import Control

    with Control(runtime_dir, timeout_s=TIMEOUT_S) as control:
        answer = control.post("/v1/settings/reload", {"note": note})
    if json_output:
        emit_json(answer)
        return
    rows = [
        (item["path"], json.dumps(item["before"]), json.dumps(item["after"]), _used(item["hot"]))
        for item in answer["changes"]
    ]
    typer.echo(f"version {answer['version']}: " + ("reloaded" if rows else "nothing differs"))
    if rows:
        typer.echo("\n".join(columns(("KNOB", "BEFORE", "AFTER", "USED"), rows)))


def _used(hot: bool) -> str:
    return "now" if hot else "after a restart"
