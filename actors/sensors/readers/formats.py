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

__all__ = ["AUTO", "FORMATS", "STDIN", "Format", "companions", "read_file"]

AUTO = "auto"
STDIN = Path("-")
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


def read_file(path: Path, name: str = AUTO, home: str = "") -> Iterator[World | Problem]:
    """Yield what one file holds, gzipped or not; ``-`` is the standard input. Never raises for what is in it."""
    broken: list[Problem] = []
    origin = Origin(str(path), home)
    if _is_store(path):
        yield from opencode_store.read(path, origin)
        return
    lines = _lines(path, broken)
    head = list(islice(lines, _LOOK_AT))
    decode = by_lines if is_lines(head) else by_documents
    records = decode(str(path), chain(head, lines))
    looked = list(islice(records, _LOOK_AT))
    chosen = FORMATS.get(name) or _recognised(looked)
    if chosen is not None:
        beside = chain.from_iterable(by_lines(str(one), _lines(one, broken)) for one in companions(path))
        yield from chosen.read(origin, chain(looked, records, beside if chosen.read is claude_code.read else ()))
    elif not broken:
        yield Problem(str(path), f"no known format, allowed: {', '.join(FORMATS)}")
    yield from broken


def companions(path: Path) -> list[Path]:
    """Return the transcripts of sub-agents that belong to a session of Claude Code: SESSION/subagents/*.jsonl."""
    try:
        return sorted((path.parent / path.name.partition(".")[0] / "subagents").glob("*.jsonl"))
    except OSError:
        return []


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
