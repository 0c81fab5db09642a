"""Plain text tables, ASCII only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

__all__ = ["ago", "clock", "columns", "plain", "usd"]


def plain(value: Any) -> str:
    """Render one cell: ASCII, one line; other characters are escaped, so that no id can move the cursor."""
    if value is None:
        return "-"
    text = str(value).encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def columns(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lay out rows under their heads, left aligned, two blanks apart."""
    cells = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def usd(value: float | None) -> str:
    return "-" if value is None else f"${value:.2f}"


def ago(at: float | None, now: float) -> str:
    """Say how long ago ``at`` was; both in epoch seconds."""
    if not at:
        return "-"
    seconds = max(0, int(now - at))
    for size, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{name} ago"
    return f"{seconds}s ago"


def clock(at: float) -> str:
    """Render epoch seconds as local time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
