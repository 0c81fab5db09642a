"""The options that many commands have, and what a command does with its result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ConfigOption", "Json", "RuntimeDir", "StateDir", "colour", "emit_json"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RuntimeDir = Annotated[
    Path | None,
    typer.Option(
        "--runtime-dir",
        metavar="DIR",
        help="Directory of the sockets of the daemon; default: $TREEWARDEN_RUNTIME_DIR, else "
        "$XDG_RUNTIME_DIR/treewarden, else /tmp/treewarden-UID.",
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Directory of the database and the tokens; default: $TREEWARDEN_STATE_DIR, else "
        "$XDG_STATE_HOME/treewarden, else ~/.local/state/treewarden.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file (YAML); default: $TREEWARDEN_CONFIG, else ~/.config/treewarden/treewarden.yaml.",
    ),
]

_CODES = {"ok": "32", "stalling": "33", "looping": "31", "note": "33", "bad": "31"}


def emit_json(value: Any) -> None:
    """Print one JSON document; ASCII only."""
    typer.echo(json.dumps(value))


def colour(text: str, kind: str) -> str:
    """Colour ``text`` on a terminal; never with NO_COLOR set (https://no-color.org) or into a pipe."""
    import sys

    plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty() or kind not in _CODES
    return text if plain else f"\x1b[{_CODES[kind]}m{text}\x1b[0m"
