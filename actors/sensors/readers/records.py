"""What every reader takes and yields: decoded records in; worlds of events, and problems for a person to read, out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.messages import ProgressEvent
from actors.sensors.normalise import Session

__all__ = ["Origin", "Problem", "Record", "Unknown", "World", "world_of"]


@dataclass(frozen=True, slots=True)
class World:
    """Events that are judged together and apart from all others.

    ``conversation`` names a world that is reported as one; None when each session of it is reported for itself.
    ``label`` is what the recording itself says of it: "stuck", "ok" or nothing. ``priced``: its dollars are estimated
    from list prices.
    """

    conversation: str | None
    source: str
    events: tuple[ProgressEvent, ...]
    label: str | None = None
    priced: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read; the reading went on behind it."""

    where: str
    what: str


class Record(NamedTuple):
    """One decoded JSON value of a file and where it stands (``file:line``)."""

    where: str
    value: Any


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that is read; ``home`` is what targets show as ``~``."""

    name: str
    home: str = ""


class Unknown:
    """Counts what a reader has no use for and does not know: one line per kind, however many there were."""

    def __init__(self, origin: Origin) -> None:
        self._name = origin.name
        self._kinds: Counter[str] = Counter()

    def note(self, kind: Any) -> None:
        self._kinds[str(kind)[:40] if isinstance(kind, str) else type(kind).__name__] += 1

    def problems(self) -> Iterator[Problem]:
        for kind, count in self._kinds.most_common(10):
            yield Problem(self._name, f"{count} records of the unknown type {kind!r} were left out")


def world_of(source: str, sessions: Iterable[Session]) -> Iterator[World]:
    """Yield the world of sessions that belong together, in order of time; none when nothing happened in them."""
    listed = list(sessions)
    events = [event for session in listed for event in session.events]
    if len(listed) > 1:
        events = _in_order(listed)
    if events:
        yield World(None, source, tuple(events), priced=any(session.priced for session in listed))


def _in_order(sessions: list[Session]) -> list[ProgressEvent]:
    """An event without a time keeps its place behind the one before it in its session."""
    timed: list[tuple[float, ProgressEvent]] = []
    for session in sessions:
        at = 0.0
        for event in session.events:
            at = event.t if event.t is not None else at
            timed.append((at, event))
    timed.sort(key=lambda pair: pair[0])
    return [event for _, event in timed]
