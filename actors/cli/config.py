"""treewarden config: the settings in force and where they come from, checks of a file, changes, the reference."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.cli.failure import Exit, Failure, failing
from actors.cli.options import ConfigOption, Json, RuntimeDir, emit_json
from actors.cli.table import columns

__all__ = ["ENVIRONMENT_PREFIX", "HEADER", "app"]

ENVIRONMENT_PREFIX = "TREEWARDEN"
HEADER = """
Every knob of treewarden with its default. Generated: treewarden config reference.
Copy it to ~/.config/treewarden/treewarden.yaml and uncomment what you change; check it: treewarden config check.
A variable such as TREEWARDEN__PROGRESS__MODE beats this file; treewarden mode and treewarden config set beat both.
Thresholds marked provisional are not calibrated yet. No secret belongs here: only names of environment variables.
"""

app = typer.Typer(help="Show, check and change the settings.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
@failing
def show(
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not a default.")] = False,
) -> None:
    """Show every value in force and its source: default, file, environment or runtime."""
    from actors.cli.client import Control
    from supervisor.settings.render import value_at

    with Control(runtime_dir) as control:
        found = control.get("/v1/settings")
    if json_output:
        emit_json(found)
        return
    listed = [(path, source) for path, source in found["sources"].items() if source != "default" or not changed]
    if not listed:
        typer.echo(f"version {found['version']}: every value is a default")
        return
    rows = [(path, json.dumps(value_at(found["values"], path)), source) for path, source in listed]
    typer.echo("\n".join([f"version {found['version']}", "", *columns(("KNOB", "VALUE", "SOURCE"), rows)]))


@app.command()
@failing
def check(
    file: Annotated[Path | None, typer.Argument(help="File to check; default: the one that run would use.")] = None,
    config: ConfigOption = None,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Check a file together with the environment; with --runtime-dir also with the changes made in that daemon."""
    from actors.cli.directories import config_file
    from actors.knobs import Knobs
    from supervisor.settings.errors import InvalidSettings
    from supervisor.settings.layers import read_environment, read_file
    from supervisor.settings.render import Layers, render

    path = config_file(file or config, os.environ)
    try:
        layers = Layers(
            file=read_file(Knobs, path) if path else {},
            environment=read_environment(Knobs, os.environ, ENVIRONMENT_PREFIX),
            runtime=_overrides(runtime_dir) if runtime_dir else {},
        )
        render(Knobs, layers)
    except InvalidSettings as error:
        if json_output:
            emit_json({"file": str(path) if path else None, "problems": error.problems})
        raise Failure(Exit.INVALID, str(error)) from None
    if json_output:
        said = layers.model_dump(exclude={"runtime"})
        emit_json({"file": str(path) if path else None, "problems": [], "layers": said})
    else:
        typer.echo(
            f"{path or 'no file'}: ok, {len(layers.file)} knobs set, {len(layers.environment)} more in the environment"
        )


@app.command("set")
@failing
def set_(
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="An empty VALUE goes back.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    if_version: Annotated[int | None, typer.Option(min=0, help="Only if the settings are at this version.")] = None,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Change settings at once, in all processes or in none; kept over restarts."""
    from actors.cli.client import Control

    body = {"overrides": dict(_pair(change) for change in changes), "dry_run": dry_run, "note": "config set"}
    with Control(runtime_dir) as control:
        answer = control.patch("/v1/settings", body, if_version)
    if json_output:
        emit_json(answer)
    else:
        typer.echo("\n".join(_changes(answer)))


@app.command()
@failing
def reference() -> None:
    """Print the commented reference of every knob, as in config/treewarden.yaml."""
    from actors.knobs import Knobs
    from supervisor.settings.reference import reference as text

    typer.echo(text(Knobs, HEADER), nl=False)


def _overrides(runtime_dir: Path) -> dict[str, Any]:
    """Read what was changed in the daemon while it ran."""
    from actors.cli.client import Control
    from supervisor.settings.render import value_at

    with Control(runtime_dir) as control:
        found = control.get("/v1/settings")
    return {path: value_at(found["values"], path) for path, source in found["sources"].items() if source == "runtime"}


def _pair(change: str) -> tuple[str, Any]:
    from supervisor.settings.errors import InvalidSettings
    from supervisor.settings.layers import parse_scalar

    name, equals, value = change.partition("=")
    if not equals:
        raise Failure(Exit.USAGE, f"{change} must be NAME=VALUE, such as progress.stall_turns=30")
    try:
        return name, parse_scalar(value, name)
    except InvalidSettings as error:
        raise Failure(Exit.INVALID, str(error)) from None


def _changes(answer: dict[str, Any]) -> list[str]:
    rows = [
        (
            item["path"],
            json.dumps(item["before"]),
            json.dumps(item["after"]),
            "now" if item["hot"] else "after a restart",
        )
        for item in answer["changes"]
    ]
    what = "applied" if answer["applied"] else "would be applied"
    head = f"version {answer['version']} {what}" if rows else f"version {answer['version']}: nothing differs"
    return [head, *columns(("KNOB", "BEFORE", "AFTER", "USED"), rows)] if rows else [head]
