"""treewarden channels: how each way to the operator is, and a test of one (P086)."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from actors.cli.failure import Exit, failing
from actors.cli.options import Json, RuntimeDir, emit_json
from actors.cli.table import ago, columns, plain

__all__ = ["app"]

app = typer.Typer(help="Channels: how each is and what it delivered; send a test alert.")


@app.callback(invoke_without_command=True)
@failing
def channels(context: typer.Context, json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Show every channel with its state, what waits and its last delivery."""
    from actors.cli.client import Control

    if context.invoked_subcommand is not None:
        return
    with Control(runtime_dir) as control:
        found = control.get("/v1/channels", limit=1)
    if json_output:
        emit_json(found)
        return
    now = time.time()
    rows = [
        (one["name"], one["type"], one["state"], one["min_severity"], one["queued"], one["held"], _last(one, now))
        for one in found["channels"]
    ]
    head = ("CHANNEL", "TYPE", "STATE", "FROM", "QUEUED", "HELD", "LAST DELIVERY")
    lines = columns(head, rows) if rows else ["no channel is configured: set notifications.channels"]
    lines += [f"{one['name']}: {plain(one['detail'])}" for one in found["channels"] if one["detail"]]
    typer.echo("\n".join(lines))


@app.command("test")
@failing
def send_test(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the channel.")],
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Send a real test alert through one channel; exit code 7 when it does not arrive."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        answer = control.post(f"/v1/channels/{name}/test", {})
    if json_output:
        emit_json(answer)
    else:
        detail = f" ({plain(answer['detail'])})" if answer["detail"] else ""
        typer.echo(f"{plain(name)}: {answer['state']} after {answer['attempts']} attempts{detail}")
    if answer["state"] != "delivered":
        raise typer.Exit(Exit.DEGRADED)


def _last(channel: dict[str, list[dict[str, str]]], now: float) -> str:
    if not channel["recent"]:
        return "-"
    newest = channel["recent"][0]
    return f"{newest['action']} {newest['state']} {ago(float(newest['at']), now)}"
