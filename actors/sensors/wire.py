"""The wire of ``POST /v1/progress``: bytes and identity in, progress events and per-item errors out.

Pure: the receipt time and the maker of delivery ids are injected. Nothing is dropped in silence: every item of the
body becomes an event, in order, or gets at least one error that names field, value and allowed set.

    WireError
    |-- Malformed   the body is not JSON at all              (400)
    |-- Foreign     a content type that is not JSON          (415)
    `-- TooMany     more items than one request may carry    (413)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from actors.messages import ProgressEvent
from actors.sensors.identity import ALIASES, Identity, slug, unprefixed
from actors.sensors.item_errors import CONTROL, ItemError, explain, shortened

__all__ = ["MAX_EVENTS", "Foreign", "Malformed", "Parsed", "Receipt", "TooMany", "WireError", "normalised", "parse"]

MAX_EVENTS = 1_000

JSON_TYPES = frozenset({"application/json", "text/json"})
LINE_TYPES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
UNSAID_TYPES = frozenset({"", "text/plain", "application/octet-stream"})  # what plain clients send unasked: sniffed

# Bounds that the vocabulary does not have. Milliseconds in ``t`` would push the tree's clock out of reach for ever.
LIMITS: dict[str, float] = {
    "t": 4_102_444_800,
    "cost_usd": 1e6,
    "context_tokens": 1e9,
    "exit": 2**31,
    "tokens": 1e9,
}
IDS = ("session_id", "parent_session_id", "id")

FIELDS = frozenset(ProgressEvent.model_fields)
MAX_IGNORED_NAMES = 100
NOBODY = Identity()


class WireError(Exception):
    """The whole body was refused."""


class Malformed(WireError):
    """The body is not JSON."""


class Foreign(WireError):
    """The content type is none of the JSON ones."""


class TooMany(WireError):
    """The body holds more items than one request may carry."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the edge knows of a request: who speaks, when it came (epoch seconds), how delivery ids are made."""

    identity: Identity
    now: float
    new_id: Callable[[], str]


@dataclass(slots=True)
class Parsed:
    """``events[k]`` came from item ``indexes[k]``; ``assigned`` are the ids that the edge gave, not the sensor."""

    items: int = 0
    events: list[ProgressEvent] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    errors: list[ItemError] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    ignored_fields: dict[str, int] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return self.items - len(self.events)


class Unreadable:
    """An NDJSON line that is not JSON: an item of its own, so that its neighbours still count."""

    def __init__(self, line: bytes, why: str) -> None:
        self.line = line
        self.why = why


def parse(body: bytes, content_type: str, receipt: Receipt, *, max_events: int = MAX_EVENTS) -> Parsed:
    """Parse one request body: an object, an array or NDJSON, by content type or by sniffing.

    Events without ``t`` get the receipt's time, events without ``id`` a delivery id. Raises Malformed, Foreign or
    TooMany for the whole body; an invalid item is an entry of ``errors``.
    """
    items = _items(body, content_type)
    if len(items) > max_events:
        raise TooMany(f"{len(items)} events in one request; allowed: up to {max_events}")
    parsed = Parsed(items=len(items))
    for index, item in enumerate(items):
        event = _event(index, item, receipt, parsed)
        if event is not None:
            parsed.events.append(event)
            parsed.indexes.append(index)
    return parsed


def normalised(
    item: dict[str, Any], identity: Identity = NOBODY, ignored: dict[str, int] | None = None
) -> dict[str, Any]:
    """Return the fields of one item as ProgressEvent names them, names and ids folded; replay reads with it as well.

    ``ignored`` counts the names of unknown fields. Values are not checked.
    """
    fields = _fields(item, {} if ignored is None else ignored)
    _identify(fields, identity)
    return fields


def _items(body: bytes, content_type: str) -> list[Any]:
    media = content_type.partition(";")[0].strip().lower()
    if media in LINE_TYPES:
        return list(_lines(body))
    if media not in JSON_TYPES and media not in UNSAID_TYPES:
        allowed = ", ".join(sorted(JSON_TYPES | LINE_TYPES))
        raise Foreign(f"content type {shortened(media)!r}; allowed: {allowed}")
    try:
        value = _json(body)
    except ValueError as error:
        if _looks_like_lines(body):
            return list(_lines(body))
        raise Malformed(f"the body is not JSON: {shortened(str(error))}") from None
    return value if isinstance(value, list) else [value]


def _json(text: bytes) -> Any:
    return from_json(text, allow_inf_nan=False, cache_strings="keys")


def _lines(body: bytes) -> Iterator[Any]:
    for line in body.split(b"\n"):
        if line.strip():
            try:
                yield _json(line)
            except ValueError as error:
                yield Unreadable(line, str(error))


def _looks_like_lines(body: bytes) -> bool:
    first, _, rest = body.strip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        return isinstance(_json(first), dict)
    except ValueError:
        return False


def _event(index: int, item: object, receipt: Receipt, parsed: Parsed) -> ProgressEvent | None:
    if not isinstance(item, dict):
        parsed.errors.append(_not_an_object(index, item))
        return None
    fields = normalised(item, receipt.identity, parsed.ignored_fields)
    fields.setdefault("t", receipt.now)
    if "id" not in fields:
        fields["id"] = receipt.new_id()
        parsed.assigned.add(fields["id"])
    errors = _bounds(index, fields)
    try:
        event = ProgressEvent.model_validate(fields)
    except ValidationError as error:
        named = {known.field for known in errors}
        errors += [known for known in explain(index, error) if known.field not in named]
    parsed.errors.extend(errors)
    return None if errors else event


def _not_an_object(index: int, item: object) -> ItemError:
    shown, why = shortened(item), "an event is a JSON object"
    if isinstance(item, Unreadable):
        shown, why = shortened(item.line.decode("utf-8", "replace")), f"the line is not JSON: {item.why}"[:200]
    return ItemError(index=index, field="", value=shown, allowed="a JSON object", message=why)


def _fields(item: dict[str, Any], ignored: dict[str, int]) -> dict[str, Any]:
    """Keep known fields under their canonical names; null is the same as absent."""
    fields: dict[str, Any] = {}
    for name, value in item.items():
        known = name if name in FIELDS else ALIASES.get(name)
        if known is None or (known != name and (known in fields or item.get(known) is not None)):
            _ignore(name, ignored)
        elif value is not None:
            fields[known] = value
    return fields


def _ignore(name: str, ignored: dict[str, int]) -> None:
    shown = shortened(name)
    if shown not in ignored and len(ignored) >= MAX_IGNORED_NAMES:  # the names come from outside
        shown = "..."
    ignored[shown] = ignored.get(shown, 0) + 1


def _identify(fields: dict[str, Any], identity: Identity) -> None:
    """Fill identity from the headers; parent and agent only where the headers speak of this conversation."""
    for name in ("session_id", "parent_session_id"):
        if isinstance(fields.get(name), str):
            fields[name] = unprefixed(fields[name])
    _default(fields, "session_id", identity.conversation)
    _default(fields, "source", identity.source)
    if identity.conversation in (None, fields.get("session_id")):
        _default(fields, "parent_session_id", identity.parent)
        _default(fields, "agent", identity.agent)
    if fields.get("parent_session_id") in ("", fields.get("session_id")):
        fields.pop("parent_session_id", None)  # none, or its own parent: a root
    if isinstance(fields.get("agent"), str):
        fields["agent"] = slug(fields["agent"])


def _default(fields: dict[str, Any], name: str, value: str | None) -> None:
    if value is not None:
        fields.setdefault(name, value)


def _bounds(index: int, fields: dict[str, Any]) -> list[ItemError]:
    errors = []
    for name, limit in LIMITS.items():
        value = fields.get(name)
        numbers = value.values() if isinstance(value, dict) else (value,)
        if any(_magnitude(number) > limit for number in numbers):
            allowed = f"at most {limit:.0f}" + (" (epoch seconds)" if name == "t" else "")
            errors.append(_refuse(index, name, value, allowed, "the value is too large"))
    for name in IDS:
        value = fields.get(name)
        if isinstance(value, str) and CONTROL.search(value):
            errors.append(_refuse(index, name, value, "no control characters", "the id would not print"))
    return errors


def _magnitude(value: object) -> float:
    """Return how large a number is, also one in a string, which validation will take for a number; else 0."""
    if not isinstance(value, int | float | str):
        return 0.0
    try:
        return abs(float(value))
    except ValueError:  # no number: the validator says so
        return 0.0
    except OverflowError:
        return math.inf


def _refuse(index: int, name: str, value: object, allowed: str, message: str) -> ItemError:
    return ItemError(index=index, field=name, value=shortened(value), allowed=allowed, message=message)
