"""treewarden replay: judge recorded conversations offline, through the same step as the daemon; reads only.

Without a path it reads this user's own history. One JSON line per conversation with ``--json`` (a contract, see
``actors.sensors.replay``), a table otherwise. Whatever cannot be read gives one line on stderr and does not stop the
run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.cli import replay_screen
from actors.cli.config import ENVIRONMENT_PREFIX
from actors.cli.failure import Exit, Failure
from actors.cli.histories import files_of, read_all
from actors.cli.options import ConfigOption, RuntimeDir

__all__ = ["FORMAT_HELP", "FormatOption", "PathsArgument", "chosen_format", "knobs_of", "replay"]

PathsArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH]...", help="Files, directories, globs, - ; .gz too. Default: your own history."),
]
FORMAT_HELP = "auto, opencode, claude-code, codex, gemini, pi, mini-swe-agent, swe-agent, openhands or wire."
FormatOption = Annotated[str, typer.Option("--format", metavar="FORMAT", help=FORMAT_HELP)]


def replay(  # noqa: PLR0917 - typer makes options of them
    paths: PathsArgument = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON line per conversation.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Show every change of verdict.")] = False,
    why: Annotated[
        str | None, typer.Option("--why", metavar="CONVERSATION", help="Explain one: evidence against thresholds.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="List conversations without a flag too, however many.")] = False,
    format_: FormatOption = "auto",
    config: ConfigOption = None,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Judge recorded conversations offline: what would have been flagged, when, why, and what that would have saved."""
    from actors.sensors.replay import replay_world

    chosen_format(format_)
    files, knobs = files_of(paths or []), knobs_of(config, runtime_dir)
    worlds = read_all(files, format_, bar=not json_ or not sys.stdout.isatty())
    rows = (row for world in worlds for row in replay_world(world, knobs))
    if json_:
        shown = _print_json(rows, why)
    else:
        listed = list(rows)
        _print(listed, knobs, why, timeline=timeline, everything=all_)
        shown = len(listed)
    if not shown:
        raise Failure(Exit.INVALID, "no conversation could be read" if why is None else f"no conversation {why}")


def chosen_format(name: str) -> None:
    """Refuse a format that does not exist."""
    from actors.sensors.readers.formats import AUTO, FORMATS

    if name != AUTO and name not in FORMATS:
        allowed = ", ".join((AUTO, *FORMATS))
        raise Failure(Exit.USAGE, f"--format = {name!r}, allowed: {allowed}")


def knobs_of(config: Path | None, runtime_dir: Path | None) -> Any:
    """Return the judge's knobs: those of the daemon in ``runtime_dir``, else what file and environment say."""
    if runtime_dir is not None and config is not None:
        raise Failure(Exit.USAGE, "--config and --runtime-dir exclude each other: whose settings shall count?")
    return _offline_knobs(config) if runtime_dir is None else _knobs_of_daemon(runtime_dir)


def _knobs_of_daemon(runtime_dir: Path) -> Any:
    from actors.cli.client import Control
    from actors.knobs import Knobs

    with Control(runtime_dir) as control:
        return Knobs.model_validate(control.get("/v1/settings")["values"]).progress


def _offline_knobs(config: Path | None) -> Any:
    """Return what the file that run would use and the environment say; overrides belong to a daemon."""
    import os

    from actors.cli.directories import config_file
    from actors.knobs import Knobs
    from supervisor.settings.errors import InvalidSettings
    from supervisor.settings.layers import read_environment, read_file
    from supervisor.settings.render import Layers, render

    try:
        path = config_file(config, os.environ)
        file = read_file(Knobs, path) if path is not None else {}
        layers = Layers(file=file, environment=read_environment(Knobs, os.environ, ENVIRONMENT_PREFIX))
        return Knobs.model_validate(render(Knobs, layers).values).progress
    except InvalidSettings as error:
        raise Failure(Exit.INVALID, str(error)) from error


def _print_json(rows: Iterator[dict[str, Any]], why: str | None) -> int:
    printed = 0
    for row in rows:
        if why is None or row["conversation"].startswith(why):
            typer.echo(json.dumps(row))
            printed += 1
    return printed


def _print(rows: list[dict[str, Any]], knobs: Any, why: str | None, *, timeline: bool, everything: bool) -> None:
    if why is not None:
        rows[:] = replay_screen.named(rows, why)
        for row in rows:
            typer.echo("\n".join(replay_screen.explained(row, knobs)))
    elif rows:
        typer.echo("\n".join(replay_screen.table(rows, timeline=timeline, everything=everything)))
        typer.echo("\n".join(replay_screen.summary(rows)))
