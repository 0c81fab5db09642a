"""A resumed or forked session of Claude Code repeats what it came from: the same replies in another file. Pure.

They are judged in both, for both conversations had them, but they were paid for once: in the file that is read first.
"""

from __future__ import annotations

from dataclasses import replace

from actors.messages import Kind, ProgressEvent
from actors.sensors.readers.records import World

__all__ = ["PaidOnce"]

UNIQUE = "msg_"  # ids of replies that the provider gives, unique over all sessions


class PaidOnce:
    """Takes the dollars off replies that were seen in a world before."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def of(self, world: World) -> World:
        """Return the world with the dollars of its own replies."""
        rounds = {event.round for event in world.events if _is_paid(event) and event.round is not None}
        known = rounds & self._seen
        self._seen |= rounds
        if not known:
            return world
        return replace(world, events=tuple(_unpaid(event) if event.round in known else event for event in world.events))


def _is_paid(event: ProgressEvent) -> bool:
    return event.kind is Kind.TURN and event.round is not None and event.round.startswith(UNIQUE)


def _unpaid(event: ProgressEvent) -> ProgressEvent:
    return event.model_copy(update={"cost_usd": None}) if event.kind is Kind.TURN else event
