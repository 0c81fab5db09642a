"""From the text of a file to decoded JSON records: a record a line, or documents that span many lines.

Lazy for lines: one is in memory at a time. Torn and foreign pieces become one ``Problem`` each and the reading goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from actors.sensors.readers.records import Problem, Record

__all__ = ["by_documents", "by_lines", "is_lines"]

_decoder = json.JSONDecoder()


def is_lines(head: list[str]) -> bool:
    """Tell whether the first lines of a file hold a record each, or can be no document that goes over many lines."""
    first = next((line.lstrip("\ufeff \t") for line in head if line.strip()), "")
    return not first.startswith(("{", "[")) or any(isinstance(_value(line), dict | list) for line in head)


def by_lines(name: str, lines: Iterable[str]) -> Iterator[Record | Problem]:
    """Yield the record of every line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            value, where = _value(line), f"{name}:{number}"
            torn = isinstance(value, _Torn)
            yield Problem(where, f"not a whole JSON line ({value})") if torn else Record(where, value)


def by_documents(name: str, lines: Iterable[str]) -> Iterator[Record | Problem]:
    """Yield the values of concatenated, pretty-printed JSON; after a torn one the next that begins a line."""
    text = "".join(lines)
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        where = f"{name}:{text.count(chr(10), 0, at) + 1}"
        try:
            value, at = _decoder.raw_decode(text, at)
            yield Record(where, value)
        except (ValueError, RecursionError) as error:
            yield Problem(where, f"not a whole JSON document ({error or type(error).__name__})")
            at = _next_start(text, at + 1)


def _next_start(text: str, at: int) -> int:
    found = [place for place in (text.find(f"\n{char}", at) for char in "{[") if place >= 0]
    return min(found) if found else len(text)


class _Torn(str):
    """Why a line could not be decoded."""

    __slots__ = ()


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return _Torn(error or type(error).__name__)
