"""mini-swe-agent's trajectories: one JSON document with ``trajectory_format`` and messages.

Version 1 has the command in a bash fence of the assistant's text and the outcome in the next message
(``<returncode>``, ``<output>``); version 1.1 has tool calls and results. The shell is its only tool, so an edit
through the shell counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from actors.messages import Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.readers.records import Origin, Problem, Record, World, world_of
from actors.sensors.readers.shapes import arguments, count, dollars, joined, mapping, mappings, text, whole

__all__ = ["read", "recognises"]

SOURCE = "mini-swe-agent"
FENCE = re.compile(r"```(?:bash|mswea_bash_command|sh)\s*\n(.*?)\n?```", re.S)
RETURNED = re.compile(r"<returncode>\s*(-?\d{1,10})\s*</returncode>")
OUTPUT = re.compile(r"<output>\n?(.*?)\n?</output>", re.S)


def recognises(record: Any) -> bool:
    """Whether a decoded document is of this format."""
    one = mapping(record)
    return text(one.get("trajectory_format")).startswith("mini-swe-agent") and isinstance(one.get("messages"), list)


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield a world per trajectory."""
    for record in records:
        if isinstance(record, Problem):
            yield record
        elif not recognises(record.value):
            yield Problem(record.where, "not a trajectory (trajectory_format, messages)")
        else:
            one = record.value
            stem = PurePath(origin.name).name.removesuffix(".gz").removesuffix(".json").removesuffix(".traj")
            session = Session(text(one.get("instance_id")) or stem, agent="mini", home=origin.home)
            _add(session, list(mappings(one["messages"])), mapping(one.get("info")))
            yield from world_of(SOURCE, [session])


def _add(session: Session, messages: list[dict[str, Any]], info: dict[str, Any]) -> None:
    model = text(mapping(mapping(mapping(info.get("config")).get("model"))).get("model_name")) or None
    open_: dict[str, tuple[str, str]] = {}  # id of a call, "" in version 1 -> its command and round
    turns = 0
    for message in messages:
        role, t = message.get("role"), clock(_extra(message).get("timestamp"))
        if role == "assistant":
            turns += 1
            open_ = _commands(message, f"turn-{turns}")
            session.said(t, f"turn-{turns}", joined(message.get("content")))
            session.turn(t, f"turn-{turns}", _usage(message, model))
        elif role == "exit":
            session.mark(t, Kind.DONE)
        elif role in ("tool", "user"):
            _heard(session, message, open_, t, first=turns == 0)


def _extra(message: dict[str, Any]) -> dict[str, Any]:
    return mapping(message.get("extra")) or ({"timestamp": message["timestamp"]} if "timestamp" in message else {})


def _commands(message: dict[str, Any], round_: str) -> dict[str, tuple[str, str]]:
    calls = {
        text(call.get("id")): (text(arguments(mapping(call.get("function")).get("arguments")).get("command")), round_)
        for call in mappings(message.get("tool_calls"))
    }
    if calls:
        return calls
    found = FENCE.findall(joined(message.get("content")))
    return {"": (found[0], round_)} if len(found) == 1 else {}


def _usage(message: dict[str, Any], model: str | None) -> Usage:
    extra = mapping(message.get("extra"))
    response = mapping(extra.get("response"))
    usage = mapping(response.get("usage"))
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    usd = dollars(extra.get("cost"))
    name = text(response.get("model")) or model
    return Usage(count(usage.get("prompt_tokens")), cached, count(usage.get("completion_tokens")), usd=usd, model=name)


def _heard(
    session: Session, message: dict[str, Any], open_: dict[str, tuple[str, str]], t: float | None, *, first: bool
) -> None:
    call_id = text(message.get("tool_call_id"))
    known = open_.pop(call_id, None)
    if known is None:
        # a command in no fence, or in two, is answered by the agent's own words
        session.prompt(t, joined(message.get("content")), injected=not first)
        return
    exit_, output = _outcome(message)
    command, round_ = known
    call = Call("bash", {"command": command}, output, exit_, call_id=call_id or None, round=round_, t=t)
    session.call(replace(call, shell_lands=True))


def _outcome(message: dict[str, Any]) -> tuple[int | None, str]:
    extra, content = mapping(message.get("extra")), joined(message.get("content"))
    if "returncode" in extra:
        return whole(extra.get("returncode")), text(extra.get("raw_output")) + text(extra.get("exception_info"))
    found, output = RETURNED.search(content), OUTPUT.search(content)
    return (whole(int(found[1])) if found else None), output[1] if output else content
