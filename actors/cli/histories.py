"""What replay and calibrate read: the paths that were given, or this user's own history; with a bar on long work.

Only looks and reads. The bar is on stderr and only there when both ends are a terminal.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.table import plain

if TYPE_CHECKING:
    from actors.sensors.readers.records import World

__all__ = ["History", "files_of", "own_history", "read_all"]

STDIN = Path("-")
REPEATING = "claude-code"
LONG_BYTES = 4_000_000  # about a second of reading
_ENDS = (".jsonl", ".ndjson", ".json", ".traj")
SUFFIXES = (*_ENDS, *(f"{end}.gz" for end in _ENDS), "opencode.db")


@dataclass(frozen=True)
class History:
    """A place where a client keeps its sessions; ``pattern`` is relative to it."""

    client: str
    place: Path
    pattern: str


def own_history(environ: Mapping[str, str], home: Path) -> list[History]:
    """Name the places of every client that is read, following the variables that the clients themselves follow."""
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    pi = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
    return [
        History("opencode", data / "opencode", "opencode.db"),
        History("Claude Code", claude / "projects", "**/*.jsonl"),
        History("Codex", codex / "sessions", "**/*.jsonl"),
        History("Codex", codex / "archived_sessions", "**/*.jsonl"),
        History("Gemini", home / ".gemini" / "tmp", "*/chats/*.json*"),
        History("pi", pi / "sessions", "**/*.jsonl"),
        History("oh-my-pi", home / ".omp" / "agent" / "sessions", "**/*.jsonl"),
    ]


def files_of(paths: list[Path]) -> list[Path]:
    """Return the files of the paths: files, directories, globs, ``-``; without paths this user's own history."""
    from actors.sensors.readers.formats import without_companions

    files: list[Path] = [] if paths else _own_files()
    for path in paths:
        if path == STDIN or path.is_file():
            files.append(path)
        elif path.is_dir():
            files += sorted(one for one in path.rglob("*") if one.name.endswith(SUFFIXES) and one.is_file())
        elif path.exists():
            files.append(path)
        else:
            files += _globbed(path)
    return without_companions(files)


def read_all(files: list[Path], format_: str, *, bar: bool) -> Iterator[World]:
    """Yield every world of the files; each problem is a line on stderr."""
    from actors.sensors.paid_once import PaidOnce
    from actors.sensors.readers.formats import read_file
    from actors.sensors.readers.records import Problem

    home, paid = str(Path.home()), PaidOnce()
    with _progress(files, wanted=bar) as progress:
        for path in files:
            for found in read_file(path, format_, home):
                if isinstance(found, Problem):
                    progress.say(f"treewarden: {plain(found.where)}: {plain(found.what)}")
                else:
                    progress.found()
                    yield paid.of(found) if found.source == REPEATING else found
            progress.done(path)


def _own_files() -> list[Path]:
    places = own_history(os.environ, Path.home())
    files = [one for place in places for one in sorted(place.place.glob(place.pattern)) if one.is_file()]
    if not files:
        looked = "\n".join(f"  {place.client}: {plain(place.place)}" for place in places)
        raise Failure(Exit.INVALID, f"no history of any client was found; looked in\n{looked}")
    return files


def _globbed(path: Path) -> list[Path]:
    found = sorted(Path(one) for one in glob.glob(str(path.expanduser()), recursive=True))
    if not found:
        raise Failure(Exit.USAGE, f"{plain(path)}: no such file or directory")
    return files_of(found)


class _Quiet:
    """Says problems, shows nothing else."""

    def say(self, line: str) -> None:
        typer.echo(line, err=True)

    def found(self) -> None:
        pass

    def done(self, path: Path) -> None:
        pass


class _Bar(_Quiet):
    """A bar over the bytes of the files, with the number of conversations that were found."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task
        self._worlds = 0

    def say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def found(self) -> None:
        self._worlds += 1
        self._progress.update(self._task, description=f"{self._worlds} trees")

    def done(self, path: Path) -> None:
        self._progress.advance(self._task, _size(path))


@contextmanager
def _progress(files: list[Path], *, wanted: bool) -> Iterator[_Quiet]:
    total = sum(map(_size, files))
    if not wanted or total < LONG_BYTES or not sys.stderr.isatty():
        yield _Quiet()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress, progress.add_task("reading", total=total))


def _size(path: Path) -> int:
    try:
        return 0 if path == STDIN else path.stat().st_size
    except OSError:
        return 0
