"""Reads file and environment anew in a short-lived process: nothing that a file holds can hang or crash this one.

The process prints ``{"layers": {"file", "environment"}}`` or ``{"problems": [...]}``; it is killed after ``timeout_s``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any

from supervisor.settings.errors import InvalidSettings

__all__ = ["TIMEOUT_S", "reread"]

TIMEOUT_S = 8.0
_TAIL_CHARS = 300


async def reread(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, dict[str, Any]]:
    """Run ``command`` and return its layers. Errors: InvalidSettings, also when it fails in any other way."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        raise InvalidSettings([f"the settings could not be read in {timeout_s:g} s"]) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return _layers(out, err.decode(errors="replace").strip()[-_TAIL_CHARS:])


def _layers(out: bytes, err: str) -> dict[str, dict[str, Any]]:
    try:
        said = json.loads(out)
        if said["problems"]:
            raise InvalidSettings([str(problem) for problem in said["problems"]])
        return {name: dict(said["layers"][name]) for name in ("file", "environment")}
    except (ValueError, KeyError, TypeError):
        raise InvalidSettings([f"the settings could not be read: {err or 'no answer'}"]) from None
