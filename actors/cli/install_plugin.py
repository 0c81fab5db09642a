"""treewarden install-plugin: put the sensor into a client. An operator's step, never automatic (P119)."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.options import Json, emit_json

__all__ = ["install_plugin"]


class Client(StrEnum):
    OPENCODE = "opencode"


def install_plugin(
    client: Annotated[Client, typer.Argument(help="The client to connect.")],
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", metavar="DIR", help="Its configuration directory.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Install the plugin that reports what agents do, or bring an older one up to date."""
    from actors.clients.install_plugin import InstallError, default_config_dir, install

    directory = (config_dir or default_config_dir(os.environ)).expanduser().absolute()
    try:
        done = install(directory)
    except InstallError as error:
        raise Failure(Exit.CONFLICT, str(error)) from None
    except OSError as error:
        code = Exit.DENIED if isinstance(error, PermissionError) else Exit.INVALID
        raise Failure(code, f"{error.filename or directory}: {error.strerror}") from None
    changes = [{"action": change.action, "path": str(change.path)} for change in done.changes]
    if json_output:
        emit_json({"client": client, "version": done.version, "previous": done.previous, "changes": changes})
        return
    for change in changes:
        typer.echo(f"{change['action']} {change['path']}")
    typer.echo(_verdict(client, done.version, done.previous, bool(changes)))


def _verdict(client: str, version: str, previous: str | None, changed: bool) -> str:
    if not changed:
        return f"{client} plugin {version} is already installed: nothing changed"
    was = "" if previous in {None, version} else f" (was {previous or 'broken'})"
    return f"{client} plugin {version} installed{was}: restart {client} to load it"
