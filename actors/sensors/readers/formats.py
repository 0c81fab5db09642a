"""The formats that replay reads, and how a file's format is recognised by what it holds, not by its name.

Reads only: files are opened for reading, a database read-only. Whatever is wrong with a file is a ``Problem``.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from actors.sensors.readers import (
    claude_code,
    codex,
    gemini,
    mini_swe_agent,
    opencode,
    opencode_store,
    openhands,
    pi,
    swe_agent,
    wire,
)
from actors.sensors.readers.decode import by_documents, by_lines, is_lines
from actors.sensors.readers.records import Origin, Problem, Record, World

__all__ = ["AUTO", "FORMATS", "STDIN", "Format", "companions", "read_file", "without_companions"]

AUTO = "auto"
STDIN = Path("-")
EVENTS, SUBAGENTS = "events", "subagents"
_LOOK_AT = 50  # records: a torn first line, or many of a kind that says nothing, must not hide what the rest is
_SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"


class Format(NamedTuple):
    """A reader and how it knows its records."""

    recognises: Callable[[Any], bool]
    read: Callable[[Origin, Iterable[Record | Problem]], Iterator[World | Problem]]


# the first that recognises a record reads the file: the ones with the most particular marks come first
FORMATS = {
    "opencode": Format(opencode.recognises, opencode.read),
    "claude-code": Format(claude_code.recognises, claude_code.read),
    "codex": Format(codex.recognises, codex.read),
    "gemini": Format(gemini.recognises, gemini.read),
    "pi": Format(pi.recognises, pi.read),
    "mini-swe-agent": Format(mini_swe_agent.recognises, mini_swe_agent.read),
    "swe-agent": Format(swe_agent.recognises, swe_agent.read),
    "openhands": Format(openhands.recognises, openhands.read),
    "wire": Format(wire.recognises, wire.read),
}


_WITH_COMPANIONS = (claude_code.read, openhands.read)


def read_file(path: Path, name: str = AUTO, home: str = "") -> Iterator[World | Problem]:
    """Yield what one file holds, gzipped or not; ``-`` is the standard input. Never raises for what is in it."""
    broken: list[Problem] = []
    origin = Origin(str(path), home)
    if _is_store(path):
        yield from opencode_store.read(path, origin)
        return
    records = _decoded(path, broken)
    looked = list(islice(records, _LOOK_AT))
    chosen = FORMATS.get(name) or _recognised(looked)
    if chosen is not None:
        beside = chain.from_iterable(_decoded(one, broken) for one in companions(path))
        alone = chosen.read not in _WITH_COMPANIONS
        yield from chosen.read(origin, chain(looked, records, () if alone else beside))
    elif not broken:
        yield Problem(str(path), f"no known format, allowed: {', '.join(FORMATS)}")
    yield from broken


def companions(path: Path) -> list[Path]:
    """Return the files that belong to one: sub-agents of a session of Claude Code, further events of OpenHands.

    The former are SESSION/subagents/*.jsonl; the latter stand in a folder ``events``, one a file.
    """
    try:
        if _is_event(path):
            return sorted((one for one in path.parent.glob("*.json") if one != path), key=_number)
        return sorted((path.parent / path.name.partition(".")[0] / SUBAGENTS).glob("*.jsonl"))
    except OSError:
        return []


def without_companions(files: list[Path]) -> list[Path]:
    """Return the files that are read by themselves: those whose companions the others are."""
    there = set(files)
    first: dict[Path, Path] = {}
    for one in files:
        if _is_event(one):
            first[one.parent] = min(one, first.get(one.parent, one), key=_number)
    read_with_another = {
        one for one in files if _session_of(one) in there or (_is_event(one) and first[one.parent] != one)
    }
    return [one for one in files if one not in read_with_another]


def _is_event(path: Path) -> bool:
    return path.parent.name == EVENTS and path.suffix == ".json"


def _session_of(path: Path) -> Path | None:
    folder = path.parent.parent
    return folder.with_name(f"{folder.name}.jsonl") if path.parent.name == SUBAGENTS and folder.name else None


def _number(path: Path) -> tuple[int, str]:
    digits = "".join(char for char in path.stem.split("-")[1 if "-" in path.stem else 0] if char.isdecimal())
    return int(digits[:18] or 0), path.name


def _decoded(path: Path, broken: list[Problem]) -> Iterator[Record | Problem]:
    lines = _lines(path, broken)
    head = list(islice(lines, _LOOK_AT))
    return (by_lines if is_lines(head) else by_documents)(str(path), chain(head, lines))


def _recognised(looked: list[Record | Problem]) -> Format | None:
    for known in FORMATS.values():
        if any(isinstance(one, Record) and known.recognises(one.value) for one in looked):
            return known
    return None


def _is_store(path: Path) -> bool:
    if path == STDIN:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _lines(path: Path, broken: list[Problem]) -> Iterator[str]:
    try:
        if path == STDIN:
            yield from _text(sys.stdin.buffer)
            return
        with path.open("rb") as raw:
            yield from _text(raw)
    except (OSError, EOFError, zlib.error) as error:
        broken.append(Problem(str(path), f"cannot be read to its end ({error})"))


def _text(raw: BinaryIO) -> Iterator[str]:
    buffered: Any = raw if hasattr(raw, "peek") else io.BytesIO(raw.read())
    start = buffered.peek(2)[:2] if hasattr(buffered, "peek") else buffered.getvalue()[:2]
    opened: Any = gzip.GzipFile(fileobj=buffered) if start == _GZIP else buffered
    yield from io.TextIOWrapper(opened, encoding="utf-8", errors="replace")
