"""Lengths of time as people write them: 90s, 30m, 2h, 1d."""

from __future__ import annotations

import re

from actors.cli.failure import Exit, Failure

__all__ = ["seconds_of"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds_of(text: str) -> float:
    """Return seconds. Errors: Failure."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise Failure(Exit.INVALID, f"{text} is not allowed; allowed: a number and s, m, h or d, such as 30m")
    return int(found[1]) * _UNITS[found[2]]
