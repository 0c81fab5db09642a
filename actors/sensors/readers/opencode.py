"""opencode's sessions as ``opencode export`` prints them: pretty-printed JSON, several sessions in one file or one.

The same reading of messages and tool parts as the plugin's (deploy/opencode-plugin/treewarden/messages.js, tools.js);
the store has the same records in its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.messages import ErrorClass, Kind
from actors.sensors.normalise import UNFIT, Call, Session, Usage, clock
from actors.sensors.normalise_digest import short
from actors.sensors.readers.records import Origin, Problem, Record, World, world_of
from actors.sensors.readers.shapes import count, dollars, joined, mapping, mappings, text, whole

__all__ = ["SOURCE", "add_messages", "read", "recognises", "session_of"]

SOURCE = "opencode"
ABORTED = ("Tool execution aborted", "Cancelled", "Aborted", "Task cancelled")
ERRORS = {"ProviderAuthError": ErrorClass.AUTH, "StructuredOutputError": ErrorClass.PARSE}


def recognises(record: Any) -> bool:
    """Whether a decoded document is of this format: a session with its messages, or a list of messages."""
    one = mapping(record)
    return isinstance(one.get("info"), dict) and (
        isinstance(one.get("messages"), list) and "trajectory_format" not in one and "id" in one["info"]
    )


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield one world: the sessions of a file are a root and its children, or do not touch each other."""
    sessions: list[Session] = []
    for record in records:
        if isinstance(record, Problem):
            yield record
        elif recognises(record.value):
            session = session_of(record.value["info"], origin.home)
            add_messages(session, list(mappings(record.value["messages"])))
            sessions.append(session)
        else:
            yield Problem(record.where, "neither a session (info, messages)")
    yield from world_of(SOURCE, sessions)


def session_of(info: dict[str, Any], home: str) -> Session:
    """Return the empty conversation of a session's record."""
    parent = text(info.get("parentID")) or None
    return Session(text(info.get("id")), parent, text(info.get("agent")) or None, text(info.get("directory")), home)


def add_messages(session: Session, messages: list[dict[str, Any]]) -> None:
    """Add the messages of a session, each ``{info, parts}``, in their order."""
    answered = {text(mapping(one.get("info")).get("parentID")) for one in messages}
    busy_until = 0.0
    for one in messages:
        info, parts = mapping(one.get("info")), list(mappings(one.get("parts")))
        time = mapping(info.get("time"))
        started, ended = clock(time.get("created")), clock(time.get("completed"))
        if info.get("role") == "user":
            heard = text(info.get("id")) in answered or (started or 0.0) < busy_until
            _user(session, parts, started, heard)
        elif info.get("role") == "assistant":
            _assistant(session, info, parts, started, ended)
            busy_until = ended or busy_until


def _user(session: Session, parts: list[dict[str, Any]], t: float | None, heard: bool) -> None:
    kinds = {text(part.get("type")) for part in parts}
    if "compaction" in kinds:
        return
    texts = [part for part in parts if part.get("type") == "text"]
    human = bool(kinds - {"text"}) or any(not part.get("synthetic") and not part.get("ignored") for part in texts)
    said = next((text(part.get("text")) for part in texts if text(part.get("text"))), "")
    session.prompt(t, said, injected=not human or not heard)


def _assistant(
    session: Session, info: dict[str, Any], parts: list[dict[str, Any]], started: float | None, ended: float | None
) -> None:
    round_ = text(info.get("id"))
    summary = info.get("summary") is True
    if not summary:
        session.agent = text(info.get("agent")) or text(info.get("mode")) or session.agent
    for part in parts:
        _part(session, part, round_, started)
    failed = text(mapping(info.get("error")).get("name"))
    aborted = failed == "MessageAbortedError"
    if ended is None and not failed:
        return  # still running when it was written down
    error = ERRORS.get(failed, ErrorClass.PROVIDER) if failed and not aborted else None
    session.turn(ended or started, round_, _usage(info), error)
    if aborted:
        session.mark(ended or started, Kind.INTERRUPT)
    elif summary:
        session.mark(ended or started, Kind.COMPACTION, round=round_[:200] or None, error=error)
    elif info.get("finish") == "stop":
        session.mark(ended, Kind.DONE, round=round_[:200] or None)


def _usage(info: dict[str, Any]) -> Usage:
    """opencode counts input without the cached part and output without the reasoning."""
    tokens = mapping(info.get("tokens"))
    cache = mapping(tokens.get("cache"))
    cached, written = count(cache.get("read")), count(cache.get("write"))
    return Usage(
        prompt=count(tokens.get("input")) + cached + written,
        cached=cached,
        written=written,
        completion=count(tokens.get("output")) + count(tokens.get("reasoning")),
        usd=dollars(info.get("cost")),
        model=text(info.get("modelID")) or None,
        provider=text(info.get("providerID")) or None,
    )


def _part(session: Session, part: dict[str, Any], round_: str, t: float | None) -> None:
    kind = part.get("type")
    if kind == "tool":
        _tool(session, part, round_, t)
    elif kind in ("text", "reasoning"):
        at = clock(mapping(part.get("time")).get("end")) or t
        session.said(at, round_, text(part.get("text")), reasoning=kind == "reasoning")


def _tool(session: Session, part: dict[str, Any], round_: str, t: float | None) -> None:
    state = mapping(part.get("state"))
    status = state.get("status")
    if status not in ("completed", "error"):
        return
    tool, args = text(part.get("tool")), mapping(state.get("input"))
    at = clock(mapping(state.get("time")).get("end")) or t
    outcome = _failure(text(state.get("error"))) if status == "error" else _outcome(tool, args, state)
    session.call(Call(tool, args, call_id=text(part.get("callID")) or None, round=round_, t=at, **outcome))


def _failure(said: str) -> dict[str, Any]:
    return {"aborted": True} if said.startswith(ABORTED) else {"failure": said}


def _outcome(tool: str, args: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    metadata, output = mapping(state.get("metadata")), _printed(state.get("output"))
    if tool == UNFIT:
        return {"failure": text(args.get("error")) or output, "output": output}
    if tool in ("bash", "shell"):
        return {"exit": whole(metadata.get("exit")), "output": output}
    diff = metadata.get("diff")
    after = mapping(metadata.get("filediff")).get("after", args.get("content") if tool == "write" else None)
    return {
        "output": output,
        "changed": bool(diff.strip()) if isinstance(diff, str) else tool == "write",
        "state": short(after) if isinstance(after, str) else None,
    }


def _printed(output: Any) -> str:
    return joined(mapping(output).get("content")) if isinstance(output, dict) else joined(output)
