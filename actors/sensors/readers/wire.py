"""Read wire format v1 as JSON lines: one event a line, or one conversation a line with its events (the corpus form).

Lazy: one line is in memory at a time, of a gzipped file too. A torn or foreign line gives one ``Problem`` and the
reading goes on; nothing is ever written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from actors.messages import ProgressEvent
from actors.sensors.readers.records import Problem, World
from actors.sensors.wire import normalised

__all__ = ["read", "recognises"]


def recognises(record: Any) -> bool:
    """Whether a decoded line is of this format."""
    return isinstance(record, dict) and (
        isinstance(record.get("events"), list) or isinstance(normalised(record).get("session_id"), str)
    )


def read(name: str, lines: Iterable[str]) -> Iterator[World | Problem]:
    """Yield a world per corpus line, and at the end one for all the single events of the file."""
    loose: list[ProgressEvent] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        record = _decoded(line, where)
        if isinstance(record, Problem):
            yield record
        elif isinstance(record.get("events"), list):
            yield from _world(record, where)
        else:
            event = _event(record, where)
            if isinstance(event, Problem):
                yield event
            else:
                loose.append(event)
    if loose:
        yield World(None, _named(loose[0].source, "wire"), tuple(loose))


def _decoded(line: str, where: str) -> dict[str, Any] | Problem:
    try:
        record = json.loads(line)
    except ValueError as error:
        return Problem(where, f"not a whole JSON line ({error})")
    if not recognises(record):
        return Problem(where, "neither an event (session_id) nor a conversation (conversation, events)")
    return record  # type: ignore[no-any-return]


def _world(record: dict[str, Any], where: str) -> Iterator[World | Problem]:
    events: list[ProgressEvent] = []
    for index, raw in enumerate(record["events"]):
        event = _event(raw, f"{where} event {index}")
        if isinstance(event, Problem):
            yield event
        else:
            events.append(event)
    first = events[0].session_id if events else where
    yield World(_named(record.get("conversation"), first), _named(record.get("source"), "wire"), tuple(events))


def _named(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value else otherwise


def _event(raw: Any, where: str) -> ProgressEvent | Problem:
    try:
        return ProgressEvent.model_validate(normalised(raw) if isinstance(raw, dict) else raw)  # as the edge folds it
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "event"
        return Problem(where, f"{field} = {str(first.get('input'))[:60]!r}: {first['msg']}")
