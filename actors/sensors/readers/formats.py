"""The formats that replay reads, and how a file's format is recognised by its first whole line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from actors.sensors.readers import wire
from actors.sensors.readers.records import Problem, World

__all__ = ["AUTO", "FORMATS", "Format", "read_file"]

AUTO = "auto"
_LOOK_AT_LINES = 20  # a torn first line must not hide what the rest is


class Format(NamedTuple):
    """A reader and how it knows its files."""

    recognises: Callable[[Any], bool]
    read: Callable[[str, Iterable[str]], Iterator[World | Problem]]


FORMATS = {"wire": Format(wire.recognises, wire.read)}


def read_file(path: Path, name: str = AUTO) -> Iterator[World | Problem]:
    """Yield what one file holds, gzipped or not; whatever is wrong with it is a ``Problem``, never an exception."""
    broken: list[Problem] = []
    lines = _lines(path, broken)
    head = list(islice(lines, _LOOK_AT_LINES))
    chosen = FORMATS.get(name) or _recognised(head)
    if chosen is not None:
        yield from chosen.read(str(path), chain(head, lines))
    elif not broken:
        yield Problem(str(path), f"no known format, allowed: {', '.join(FORMATS)}")
    yield from broken


def _recognised(head: list[str]) -> Format | None:
    for line in head:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        for known in FORMATS.values():
            if known.recognises(record):
                return known
    return None


def _lines(path: Path, broken: list[Problem]) -> Iterator[str]:
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            opened = gzip.GzipFile(fileobj=raw) if zipped else raw
            yield from io.TextIOWrapper(opened, encoding="utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        broken.append(Problem(str(path), f"cannot be read to its end ({error})"))
