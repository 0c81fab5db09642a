"""Sessions of pi and oh-my-pi: JSON lines of ~/.pi/agent/sessions and ~/.omp/agent/sessions.

The first records name the session; messages are the user's, the assistant's (with usage and dollars) and results of
tools. A tree of branches is written in one file in the order in which things happened: that order is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from actors.messages import ErrorClass, Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.readers.records import Origin, Problem, Record, Unknown, World, world_of
from actors.sensors.readers.shapes import arguments, count, dollars, joined, mapping, mappings, text, whole
from actors.sensors.readers.vocabulary import renamed

__all__ = ["read", "recognises"]

SOURCE = "pi"
EXIT = re.compile(r"Command exited with code (-?\d{1,5})")
IGNORED = frozenset(
    {
        *("title", "session", "model_change", "thinking_level_change", "custom", "label", "session_info"),
        *("branch_summary", "mode_change", "session_init", "title_change", "service_tier_change", "ttsr_injection"),
    }
)

Pending = dict[str, tuple[str, dict[str, Any], str]]


def recognises(record: Any) -> bool:
    """Whether a decoded line is of this format."""
    one = mapping(record)
    if one.get("type") == "session" and "cwd" in one and isinstance(one.get("id"), str):
        return True
    return one.get("type") == "message" and "parentId" in one and isinstance(one.get("message"), dict)


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield one world: the session of the file."""
    unknown = Unknown(origin)
    session = Session(origin.name.rpartition("/")[2], agent="pi", home=origin.home)
    calls: Pending = {}
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        one = mapping(record.value)
        kind, t = text(one.get("type")), clock(one.get("timestamp"))
        if kind == "session" and not session.events:
            session = Session(text(one.get("id")), None, "pi", text(one.get("cwd")), origin.home)
        elif kind == "message":
            _message(session, mapping(one.get("message")), text(one.get("id")), t, calls)
        elif kind == "compaction":
            session.mark(t, Kind.COMPACTION)
        elif kind == "custom_message":
            session.prompt(t, joined(one.get("content")), injected=True)
        elif kind not in IGNORED:
            unknown.note(kind)
    yield from world_of(SOURCE, [session])
    yield from unknown.problems()


def _message(session: Session, message: dict[str, Any], round_: str, t: float | None, calls: Pending) -> None:
    role = message.get("role")
    if role == "user":
        machine = message.get("attribution") == "agent" or message.get("synthetic") is True
        session.prompt(t, joined(message.get("content")), injected=machine)
    elif role == "assistant":
        _assistant(session, message, round_, t, calls)
    elif role == "toolResult":
        _result(session, message, t, calls)


def _assistant(session: Session, message: dict[str, Any], round_: str, t: float | None, calls: Pending) -> None:
    for block in mappings(message.get("content")):
        kind = block.get("type")
        if kind == "toolCall":
            calls[text(block.get("id"))] = (text(block.get("name")), arguments(block.get("arguments")), round_)
        elif kind == "text":
            session.said(t, round_, text(block.get("text")))
        elif kind == "thinking":
            session.said(t, round_, text(block.get("thinking")), reasoning=True)
    reason = message.get("stopReason")
    session.turn(t, round_, _usage(message), ErrorClass.PROVIDER if reason == "error" else None)
    if reason == "aborted":
        session.mark(t, Kind.INTERRUPT)
    elif reason == "stop":
        session.mark(t, Kind.DONE, round=round_[:200] or None)


def _usage(message: dict[str, Any]) -> Usage:
    usage = mapping(message.get("usage"))
    cached, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    return Usage(
        prompt=count(usage.get("input")) + cached + written,
        cached=cached,
        written=written,
        completion=count(usage.get("output")),
        usd=dollars(mapping(usage.get("cost")).get("total")),
        model=text(message.get("model")) or None,
        provider=text(message.get("provider")) or None,
    )


def _result(session: Session, message: dict[str, Any], t: float | None, calls: Pending) -> None:
    call_id = text(message.get("toolCallId"))
    known = calls.pop(call_id, None)
    if known is None:
        return
    name, given, round_ = known
    tool, args = renamed(name, given)
    output = joined(message.get("content"))
    outcome = _outcome(tool, output, message.get("isError") is True, mapping(message.get("details")))
    session.call(Call(tool, args, call_id=call_id, round=round_, t=t, **outcome))


def _outcome(tool: str, output: str, failed: bool, details: dict[str, Any]) -> dict[str, Any]:
    if tool == "bash":
        found = EXIT.search(output[-400:])
        exit_ = whole(details.get("exitCode"))
        exit_ = int(found[1]) if exit_ is None and found else exit_
        if failed and exit_ is None:
            return {"exit": None, "output": output} if "timed out" in output[-400:] else {"failure": output}
        return {"exit": exit_ or 0, "output": output}
    if failed:
        return {"failure": output}
    diff = details.get("diff")
    return {"output": output, "changed": bool(diff.strip()) if isinstance(diff, str) else None}
