"""Read rc-servers.json of opencode's session-registry plugin: which servers exist (P091). Pure but for ``read``.

The file belongs to a third-party plugin (T49), so its shape is taken as it comes: every ``serverUrl`` in it counts,
wherever it stands. What cannot be understood becomes one sentence for the operator, never an exception.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Found", "parse", "read"]

MAX_BYTES = 1_048_576
MAX_URLS = 50
_MAX_DEPTH = 5


@dataclass(frozen=True)
class Found:
    """URLs in order of appearance. ``blind``: why nothing can be known. ``absent``: there is no file at all."""

    urls: tuple[str, ...] = ()
    blind: str = ""
    absent: bool = False


def read(path: Path) -> Found:
    """Read and parse the file at ``path``; at most MAX_BYTES, only from a regular file."""
    try:
        if not path.is_file():
            return Found(absent=not path.exists(), blind=f"{path} is no file" if path.exists() else "")
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        return Found(blind=f"{path} cannot be read: {error.strerror}")
    if len(text) > MAX_BYTES:
        return Found(blind=f"{path} is larger than {MAX_BYTES} bytes")
    return parse(text, str(path))


def parse(text: bytes, name: str) -> Found:
    """Return the URLs in ``text``; ``name`` is what the sentence calls it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Found(blind=f"{name} is not JSON: {error}")
    urls = list(dict.fromkeys(_urls(value, _MAX_DEPTH)))
    if value and not urls:
        return Found(blind=f"{name} names no serverUrl: its shape is not known to this version")
    if len(urls) > MAX_URLS:
        return Found(tuple(urls[:MAX_URLS]), blind=f"{name} names {len(urls)} servers; the first {MAX_URLS} are asked")
    return Found(tuple(urls))


def _urls(value: Any, depth: int) -> list[str]:
    if depth == 0:
        return []
    if isinstance(value, dict):
        own = value.get("serverUrl")
        here = [own.rstrip("/")] if isinstance(own, str) and own else []
        return here + [url for child in value.values() for url in _urls(child, depth - 1)]
    if isinstance(value, list):
        return [url for child in value for url in _urls(child, depth - 1)]
    return []
