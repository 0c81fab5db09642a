"""Reading foreign JSON: each function takes anything and gives the shape that was asked for, empty where it is not.

Transcripts come from many versions of many clients, and from torn files; no value in them may end a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

__all__ = ["arguments", "count", "dollars", "joined", "mapping", "mappings", "text", "whole"]

MOST_TOKENS = 1_000_000_000
MOST_USD = 1e6


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, empty for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def text(value: Any) -> str:
    """Return a string, empty for anything else."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """Return an integer of 32 bits; None for anything else, true and false too."""
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
    return value if fits else None


def count(value: Any) -> int:
    """Return a number of tokens, 0 for anything that is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return min(int(value), MOST_TOKENS) if fits else 0


def dollars(value: Any) -> float | None:
    """Return an amount of money, None for anything that is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits and 0 <= value <= MOST_USD else None


def joined(value: Any) -> str:
    """Return the text of a message: a string, or a list of parts with a text, input or output of their own."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(part if isinstance(part, str) else text(mapping(part).get("text")) for part in value)
    return ""


def arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of a call: an object, or the JSON text of one; other texts become ``input``."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return {"input": value} if value else {}
        return decoded if isinstance(decoded, dict) else {"input": value}
    return mapping(value)
