"""The one line that `systemctl status` shows: how many children serve, what the application says, what went wrong.

Root knows nothing of the application: a child may tell it a few words (kind Headline), shown while that child serves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from supervisor.bus.errors import Refused
from supervisor.strategy import ChildState, Standing

__all__ = ["Headline", "away", "status_line"]

_MAX_CHARS = 160


class Headline:
    """The words of the child that spoke last."""

    def __init__(self) -> None:
        self._child = ""
        self._text = ""

    def set(self, body: bytes) -> None:
        """Take ``{"child", "text"}``. Raises Refused."""
        try:
            word = json.loads(body)
            self._child, self._text = str(word["child"]), str(word["text"])[:_MAX_CHARS]
        except (ValueError, KeyError, TypeError):
            raise Refused("invalid", "Headline needs child and text") from None

    def text(self, standings: Sequence[Standing]) -> str:
        """Return the words, empty while the child that said them is away."""
        serving = any(s.id == self._child and s.state is ChildState.READY for s in standings)
        return self._text if serving else ""


def away(standings: Sequence[Standing]) -> list[Standing]:
    """List the children that should serve and do not; one that has done its work is not away."""
    return [s for s in standings if s.state is not ChildState.READY and not _finished(s)]


def status_line(standings: Sequence[Standing], total: int, headline: str, problem: str) -> str:
    """Say it: ``7 children ready; 12 trees, 1 stalling``. A problem comes last and is not cut short here."""
    missing = away(standings)
    count = f"{total - len(missing)} of {total}" if missing else str(total)
    absent = ", ".join(f"{s.id} {s.state}" for s in missing)
    noun = "child" if count == "1" else "children"
    return "; ".join(filter(None, [f"{count} {noun} ready", absent, headline, problem]))


def _finished(standing: Standing) -> bool:
    return standing.state is ChildState.STOPPED and standing.run > 0
