"""treewarden resume: end a tree's flags and reset its counters."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from actors.cli.options import Json, RuntimeDir, emit_json
from actors.cli.table import plain

__all__ = ["resume"]


def resume(
    tree: Annotated[str, typer.Argument(metavar="TREE", help="Id of the tree: its root conversation.")],
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Say that a tree may go on: its counters start again from here, and its alert resolves."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        answer = control.post(f"/v1/trees/{quote(tree, safe='')}/resume", {})
    if json_output:
        emit_json(answer)
    else:
        typer.echo(f"tree {plain(tree)} resumed: verdict {answer['view'].get('verdict', 'ok')}")
