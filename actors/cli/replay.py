"""treewarden replay: judge recorded conversations offline, through the same step as the daemon; reads only.

One JSON line per conversation with ``--json`` (a contract, see ``actors.sensors.replay``), a table otherwise. Whatever
cannot be read gives one line on stderr and does not stop the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.cli.config import ENVIRONMENT_PREFIX
from actors.cli.failure import Exit, Failure
from actors.cli.options import ConfigOption, RuntimeDir, colour
from actors.cli.table import columns, plain, usd

__all__ = ["replay"]

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
_HEAD = ("CONVERSATION", "SOURCE", "EVENTS", "VERDICT", "WORST", "FIRST FLAG", "REASON", "TURNS", "SPENT", "AFTER FLAG")


def replay(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or directories, .gz too.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON line per conversation.")] = False,
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help="auto, or wire.")] = "auto",
    config: ConfigOption = None,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Judge recorded conversations offline and show what would have been flagged, when and why."""
    from actors.sensors.readers.formats import AUTO, FORMATS

    if format_ != AUTO and format_ not in FORMATS:
        allowed = ", ".join((AUTO, *FORMATS))
        raise Failure(Exit.USAGE, f"--format = {format_!r}, allowed: {allowed}")
    rows = _rows(_files(paths), format_, _knobs(config, runtime_dir))
    shown = _print_json(rows) if json_ else _print_table(list(rows))
    if not shown:
        raise Failure(Exit.INVALID, "no conversation could be read")


def _files(paths: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(one for one in path.rglob("*") if one.is_file() and one.name.endswith(_SUFFIXES))
        elif path.exists():
            files.append(path)
        else:
            raise Failure(Exit.USAGE, f"{plain(path)}: no such file or directory")
    return files


def _rows(files: list[Path], format_: str, knobs: Any) -> Iterator[dict[str, Any]]:
    from actors.sensors.readers.formats import read_file
    from actors.sensors.readers.records import Problem
    from actors.sensors.replay import replay_world

    for path in files:
        for found in read_file(path, format_):
            if isinstance(found, Problem):
                typer.echo(f"treewarden: {plain(found.where)}: {plain(found.what)}", err=True)
            else:
                yield from replay_world(found, knobs)


def _knobs(config: Path | None, runtime_dir: Path | None) -> Any:
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


def _print_json(rows: Iterator[dict[str, Any]]) -> int:
    printed = 0
    for row in rows:
        typer.echo(json.dumps(row))
        printed += 1
    return printed


def _print_table(rows: list[dict[str, Any]]) -> int:
    if rows:
        typer.echo("\n".join(columns(_HEAD, [_cells(row) for row in rows])))
        typer.echo(_total(rows))
    return len(rows)


def _cells(row: dict[str, Any]) -> list[Any]:
    first = row["first_flag"] or {}
    at = f"event {first['index'] + 1}" if first else None
    flagged = usd(row["usd_after_first_flag"]) if first else None
    return [
        row["conversation"],
        row["source"],
        row["events"],
        row["verdict"],
        row["worst"],
        at,
        first.get("reason"),
        row["turns"],
        usd(row["usd"]),
        flagged,
    ]


def _total(rows: list[dict[str, Any]]) -> str:
    flagged = [row for row in rows if row["first_flag"]]
    spent = sum(row["usd_after_first_flag"] for row in flagged)
    text = f"{len(rows)} conversations, {len(flagged)} flagged, {usd(spent)} spent after a first flag"
    return colour(text, "stalling" if flagged else "ok")
