"""OpenHands' events: a list, an evaluation's line with its ``history``, or an event a line; actions and observations.

Both vocabularies are read: ``{action, args}`` with ``{observation, content, extras, cause}``, and the newer
``ActionEvent`` / ``ObservationEvent`` of its agent kit. Dollars are told as a sum that grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from actors.messages import Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.readers.records import Origin, Problem, Record, World, world_of
from actors.sensors.readers.shapes import dollars, joined, mapping, mappings, text, whole
from actors.sensors.readers.vocabulary import renamed

__all__ = ["read", "recognises"]

SOURCE = "openhands"
CALLS = frozenset({"run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive", "call_tool_mcp"})


def recognises(record: Any) -> bool:
    """Whether a decoded line or document is of this format."""
    if isinstance(record, list):
        return any(_is_event(one) for one in _flat(record[:20]))
    return isinstance(mapping(record).get("history"), list) or _is_event(record)


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield a world per list of events; single events of a file are one."""
    path = PurePath(origin.name)
    stem = path.parent.parent.name if path.parent.name == "events" else path.name.removesuffix(".gz").rpartition(".")[0]
    loose: list[dict[str, Any]] = []
    for record in records:
        if isinstance(record, Problem):
            yield record
        elif isinstance(record.value, list):
            yield from _world(stem or origin.name, _flat(record.value), origin)
        elif isinstance(mapping(record.value).get("history"), list):
            one = record.value
            yield from _world(text(one.get("instance_id")) or stem or origin.name, _flat(one["history"]), origin)
        elif _is_event(record.value):
            loose.append(record.value)
        else:
            yield Problem(record.where, "neither an event nor a list of events")
    yield from _world(stem or origin.name, loose, origin)


def _flat(values: list[Any]) -> list[dict[str, Any]]:
    """Early versions kept pairs of an action and its observation."""
    found: list[dict[str, Any]] = []
    for value in values:
        found += mappings(value) if isinstance(value, list) else mappings([value])
    return found


def _is_event(value: Any) -> bool:
    one = mapping(value)
    kit = text(one.get("kind")).endswith("Event") and "source" in one
    return kit or (("action" in one or "observation" in one) and ("source" in one or "args" in one or "extras" in one))


def _world(name: str, events: list[dict[str, Any]], origin: Origin) -> Iterator[World]:
    told = _Told(Session(name, agent="openhands", home=origin.home))
    for event in events:
        told.take(event)
    yield from world_of(SOURCE, [told.session])


@dataclass(slots=True)
class _Told:
    """The conversation while it is read: calls by the id of their action, dollars so far."""

    session: Session
    calls: dict[str, tuple[str, dict[str, Any], str]] = field(default_factory=dict)
    spent: float = 0.0
    last: str = ""

    def take(self, event: dict[str, Any]) -> None:
        t = clock(event.get("timestamp"))
        if text(event.get("kind")).endswith("Event"):
            self._kit(event, t)
        elif "action" in event:
            self._action(event, t)
        elif "observation" in event:
            self._observation(event, t)

    def _action(self, event: dict[str, Any], t: float | None) -> None:
        action, args = text(event.get("action")), mapping(event.get("args"))
        if action == "message":
            self._message(text(event.get("source")), text(args.get("content")), t)
            return
        round_ = text(mapping(mapping(event.get("tool_call_metadata")).get("model_response")).get("id"))
        if event.get("source") == "agent":
            self._turn(event, round_ or f"event-{event.get('id')}", t)
            self.session.said(t, round_ or None, text(args.get("thought")))
        if action == "finish":
            self.session.mark(t, Kind.DONE)
        elif action in CALLS:
            called = text(mapping(event.get("tool_call_metadata")).get("function_name")) or action
            kept = {key: value for key, value in args.items() if key not in ("thought", "hidden", "confirmation_state")}
            self.calls[str(event.get("id"))] = (action if action in ("run", "read", "write") else called, kept, round_)

    def _turn(self, event: dict[str, Any], round_: str, t: float | None) -> None:
        if round_ == self.last:
            return
        self.last = round_
        total = dollars(mapping(event.get("llm_metrics")).get("accumulated_cost"))
        grown = None if total is None else max(0.0, total - self.spent)
        self.spent = total if total is not None else self.spent
        self.session.turn(t, round_, Usage(usd=grown))

    def _message(self, source: str, said: str, t: float | None) -> None:
        if source == "user":
            self.session.prompt(t, said)
        elif source == "agent":
            self.session.said(t, None, said)

    def _observation(self, event: dict[str, Any], t: float | None) -> None:
        kind = event.get("observation")
        if kind == "condense":
            self.session.mark(t, Kind.COMPACTION)
        known = self.calls.pop(str(event.get("cause")), None)
        if known is None:
            return
        extras, content = mapping(event.get("extras")), joined(event.get("content"))
        exit_ = whole(mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
        failed = kind == "error" or content.startswith("ERROR:")
        self._call(known, exit_, content, failed, t)

    def _kit(self, event: dict[str, Any], t: float | None) -> None:
        kind = event.get("kind")
        if kind == "MessageEvent":
            said = joined(mapping(event.get("llm_message")).get("content"))
            self._message(text(event.get("source")), said, t)
        elif kind == "ActionEvent":
            round_ = text(event.get("llm_response_id")) or f"event-{event.get('id')}"
            self._turn(event, round_, t)
            self.session.said(t, round_, joined(event.get("thought")))
            args = {key: value for key, value in mapping(event.get("action")).items() if key != "kind"}
            name = text(event.get("tool_name"))
            if name == "finish":
                self.session.mark(t, Kind.DONE)
            else:
                self.calls[text(event.get("tool_call_id"))] = (name, args, round_)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._kit_observation(event, t)
        elif kind == "Condensation":
            self.session.mark(t, Kind.COMPACTION)

    def _kit_observation(self, event: dict[str, Any], t: float | None) -> None:
        known = self.calls.pop(text(event.get("tool_call_id")), None)
        if known is None:
            return
        seen = mapping(event.get("observation"))
        said = joined(seen.get("content")) or text(seen.get("output")) or text(event.get("error"))
        exit_ = whole(mapping(seen.get("metadata")).get("exit_code", seen.get("exit_code")))
        self._call(known, exit_, said, seen.get("is_error") is True or "error" in event, t)

    def _call(
        self, known: tuple[str, dict[str, Any], str], exit_: int | None, said: str, failed: bool, t: float | None
    ) -> None:
        name, given, round_ = known
        tool, args = renamed(name, given)
        outcome: dict[str, Any] = {"exit": exit_, "output": said}
        if tool == "bash":
            args = {"command": text(args.get("command"))}
        elif failed:
            outcome = {"failure": said}
        else:
            outcome = {"exit": 0, "output": said}
        self.session.call(Call(tool, args, round=round_ or None, t=t, **outcome))
