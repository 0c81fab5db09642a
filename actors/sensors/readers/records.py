"""What every reader yields: worlds of events, and problems for a person to read."""

from __future__ import annotations

from dataclasses import dataclass

from actors.messages import ProgressEvent

__all__ = ["Problem", "World"]


@dataclass(frozen=True, slots=True)
class World:
    """Events that are judged together and apart from all others.

    ``conversation`` names a world that is reported as one; None when each session of it is reported for itself.
    """

    conversation: str | None
    source: str
    events: tuple[ProgressEvent, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read; the reading went on behind it."""

    where: str
    what: str
