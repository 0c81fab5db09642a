"""Read wire format v1 as JSON lines: one event a line, or one conversation a line with its events (the corpus form).

Lazy: one conversation is in memory at a time; single events of a file are kept to its end, for they are one world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from actors.messages import ProgressEvent
from actors.sensors.readers.records import Origin, Problem, Record, World
from actors.sensors.wire import normalised

__all__ = ["read", "recognises"]


def recognises(record: Any) -> bool:
    """Whether a decoded line is of this format."""
    return isinstance(record, dict) and (
        isinstance(record.get("events"), list) or isinstance(normalised(record).get("session_id"), str)
    )


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield a world per corpus line, and at the end one for all the single events of the file."""
    loose: list[ProgressEvent] = []
    for record in records:
        if isinstance(record, Problem):
            yield record
        elif not recognises(record.value):
            yield Problem(record.where, "neither an event (session_id) nor a conversation (conversation, events)")
        elif isinstance(record.value.get("events"), list):
            yield from _world(record.value, record.where)
        else:
            event = _event(record.value, record.where)
            if isinstance(event, Problem):
                yield event
            else:
                loose.append(event)
    if loose:
        yield World(None, _named(loose[0].source, "wire"), tuple(loose))


def _world(record: dict[str, Any], where: str) -> Iterator[World | Problem]:
    events: list[ProgressEvent] = []
    for index, raw in enumerate(record["events"]):
        event = _event(raw, f"{where} event {index}")
        if isinstance(event, Problem):
            yield event
        else:
            events.append(event)
    first = events[0].session_id if events else where
    label = _named(record.get("label"), "") or None
    source = _named(record.get("source"), "wire")
    yield World(_named(record.get("conversation"), first), source, tuple(events), label)


def _named(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value else otherwise


def _event(raw: Any, where: str) -> ProgressEvent | Problem:
    try:
        return ProgressEvent.model_validate(normalised(raw) if isinstance(raw, dict) else raw)  # as the edge folds it
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "event"
        return Problem(where, f"{field} = {str(first.get('input'))[:60]!r}: {first['msg']}")
