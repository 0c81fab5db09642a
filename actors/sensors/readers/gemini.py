"""Gemini CLI's chats: ~/.gemini/tmp/PROJECT/chats/session-*.json (one document) or .jsonl (a message a line).

Calls and results stand inside one message. In the line form a message is written again as it grows, and ``$set`` sets
fields of the whole; the last of each id counts. The exit status of a command is text where it is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from actors.messages import ErrorClass, Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.normalise_digest import short
from actors.sensors.readers.records import Origin, Problem, Record, Unknown, World, world_of
from actors.sensors.readers.shapes import count, joined, mapping, mappings, text
from actors.sensors.readers.vocabulary import renamed

__all__ = ["read", "recognises"]

SOURCE = "gemini"
EXIT = re.compile(r"^Exit Code: (-?\d{1,5})$", re.M)
PRINTED = re.compile(r"(?:^|\n)Output: ")
WORKSPACE = re.compile(r"Workspace Directories:\*\*\n\s+- (\S+)")
GROUP = re.compile(r"^Process Group PGID: \d+$", re.M)


def recognises(record: Any) -> bool:
    """Whether a decoded line or document is of this format."""
    one = mapping(record)
    return isinstance(one.get("sessionId"), str) and ("projectHash" in one or "startTime" in one)


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield one world: the chat of the file."""
    unknown = Unknown(origin)
    name, parent = "", None
    messages: dict[str, dict[str, Any]] = {}
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        one = mapping(record.value)
        if recognises(one):
            name, parent = text(one.get("sessionId")), text(one.get("parentSessionId")) or None
        _collect(one, messages, unknown)
    session = Session(name or origin.name, parent, "gemini", home=origin.home)
    for message in messages.values():
        _add(session, message, unknown)
    yield from world_of(SOURCE, [session])
    yield from unknown.problems()


def _collect(one: dict[str, Any], messages: dict[str, dict[str, Any]], unknown: Unknown) -> None:
    whole = mapping(one.get("$set")) or one
    listed = list(mappings(whole.get("messages")))
    if "type" in one and "id" in one:
        listed = [one]
    elif not listed and "$set" not in one and not recognises(one) and "$rewindTo" not in one:
        unknown.note(one.get("type"))
    for message in listed:
        messages[text(message.get("id")) or f"message {len(messages)}"] = message


def _add(session: Session, message: dict[str, Any], unknown: Unknown) -> None:
    t, kind = clock(message.get("timestamp")), message.get("type")
    if kind == "user":
        _user(session, message.get("content"), t)
    elif kind == "gemini":
        _gemini(session, message, t)
    elif kind == "error":
        session.mark(t, Kind.RETRY, error=ErrorClass.PROVIDER)
    elif kind not in ("info", "warning"):
        unknown.note(kind)


def _user(session: Session, content: Any, t: float | None) -> None:
    said = joined(content)
    found = WORKSPACE.search(said[:4000])
    if found:
        session.rooted(found[1])
    if said:  # results of calls stand here once more, without a text
        session.prompt(t, said)


def _gemini(session: Session, message: dict[str, Any], t: float | None) -> None:
    round_ = text(message.get("id"))
    for thought in mappings(message.get("thoughts")):
        session.said(t, round_, text(thought.get("description")), reasoning=True)
    session.said(t, round_, joined(message.get("content")))
    calls = list(mappings(message.get("toolCalls")))
    for call in calls:
        _call(session, call, round_, t)
    tokens = mapping(message.get("tokens"))
    usage = Usage(
        prompt=count(tokens.get("input")),
        cached=count(tokens.get("cached")),
        completion=count(tokens.get("output")) + count(tokens.get("thoughts")),
        model=text(message.get("model")) or None,
        provider="google",
    )
    session.turn(t, round_, usage)
    if not calls:
        session.mark(t, Kind.DONE, round=round_[:200] or None)


def _call(session: Session, call: dict[str, Any], round_: str, t: float | None) -> None:
    tool, args = renamed(text(call.get("name")), mapping(call.get("args")))
    at = clock(call.get("timestamp")) or t
    outcome = _outcome(tool, call)
    session.call(Call(tool, args, call_id=text(call.get("id")) or None, round=round_, t=at, **outcome))


def _outcome(tool: str, call: dict[str, Any]) -> dict[str, Any]:
    status = call.get("status")
    if status == "cancelled":
        return {"aborted": True}
    answers = [mapping(mapping(part.get("functionResponse")).get("response")) for part in mappings(call.get("result"))]
    printed = "\n".join(text(answer.get("output")) for answer in answers)
    refused = "\n".join(text(answer.get("error")) for answer in answers if answer.get("error"))
    if refused or status == "error":
        return {"failure": refused or joined(call.get("resultDisplay")) or printed}
    if tool == "bash":
        return _shell(printed)
    display = mapping(call.get("resultDisplay"))
    after, diff = display.get("newContent"), display.get("fileDiff")
    changed = None if after is None else after != display.get("originalContent")
    if isinstance(diff, str) and not diff.strip():
        changed = False
    return {"output": printed, "state": short(after) if isinstance(after, str) else None, "changed": changed}


def _shell(printed: str) -> dict[str, Any]:
    tail = printed[-4000:]
    found = EXIT.search(tail)
    output = GROUP.sub("", EXIT.sub("", PRINTED.sub("\n", printed, count=1)))
    return {"exit": int(found[1]) if found else 0, "output": output}
