"""Codex rollouts: JSON lines of ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl.

The exit status is text in the output ("Process exited with code N") or JSON metadata; absent while a process runs.
``write_stdin`` with nothing to write is a look at a running process. An apply_patch through the shell is an edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.messages import Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.readers.records import Origin, Problem, Record, Unknown, World, world_of
from actors.sensors.readers.shapes import arguments, count, joined, mapping, text, whole
from actors.sensors.readers.vocabulary import renamed

__all__ = ["read", "recognises"]

SOURCE = "codex"
EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,5})$", re.M)
RUNNING = re.compile(r"^Process running with session ID", re.M)
BODY = re.compile(r"^Output:\n", re.M)
PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.M)
HEAD = 2000
TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"})
IGNORED = frozenset(
    {"turn_context", "world_state", "token_usage_record", "ghost_snapshot", "inter_agent_communication"}
)
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


def recognises(record: Any) -> bool:
    """Whether a decoded line is of this format; early versions wrote the items without an envelope."""
    one = mapping(record)
    if text(one.get("type")) in TYPES and isinstance(one.get("payload"), dict):
        return True
    return isinstance(one.get("id"), str) and "instructions" in one and isinstance(one.get("timestamp"), str)


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield one world: the session of the file."""
    unknown = Unknown(origin)
    rollout = _Rollout(Session(origin.name.rpartition("/")[2], agent="codex", home=origin.home))
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        one = mapping(record.value)
        if not rollout.take(one) and text(one.get("type")) not in IGNORED and "record_type" not in one:
            unknown.note(one.get("type"))
    rollout.flush()
    yield from world_of(SOURCE, [rollout.session])
    yield from unknown.problems()


@dataclass(slots=True)
class _Rollout:
    """The session while it is read. ``total`` is the usage that was told last, of which each turn is the growth."""

    session: Session
    calls: dict[str, tuple[str, dict[str, Any], str]] = field(default_factory=dict)
    model: str | None = None
    provider: str | None = None
    turns: int = 0
    total: int = -1
    open: bool = False
    done: bool = False

    def take(self, one: dict[str, Any]) -> bool:
        payload = mapping(one.get("payload"))
        t = clock(one.get("timestamp"))
        kind = text(one.get("type"))
        if kind == "session_meta" or "instructions" in one:
            self._meta(payload or one)
        elif kind == "turn_context":
            self.model = text(payload.get("model")) or self.model
        elif kind == "event_msg":
            self._event(payload, t)
        elif kind == "compacted":
            self.session.mark(t, Kind.COMPACTION)
        elif kind == "response_item" or kind in CALLS | OUTPUTS | {"message", "reasoning"}:
            self._item(payload or one, t)
        else:
            return False
        return True

    def flush(self) -> None:
        """Calls whose usage was never told (early versions, a torn end) are turns without dollars."""
        if self.open:
            self.session.turn(None, self._round(), Usage(model=self.model, provider=self.provider))
            self.turns, self.open = self.turns + 1, False

    def _round(self) -> str:
        return f"turn-{self.turns}"

    def _meta(self, payload: dict[str, Any]) -> None:
        if self.session.events:
            return  # a fork repeats the head of the session that it came from
        found = text(payload.get("id"))
        parent = text(payload.get("parent_thread_id")) or text(_spawned(payload).get("parent_thread_id"))
        agent = text(payload.get("agent_role")) or text(_spawned(payload).get("agent_role")) or "codex"
        root = text(payload.get("cwd"))
        self.session = Session(found or self.session.id, parent or None, agent, root, self.session.home)
        self.provider = text(payload.get("model_provider")) or None

    def _event(self, payload: dict[str, Any], t: float | None) -> None:
        kind = payload.get("type")
        if kind == "token_count":
            self._usage(mapping(payload.get("info")), t)
        elif kind == "turn_aborted":
            self.session.mark(t, Kind.INTERRUPT)
        elif kind == "context_compacted":
            self.session.mark(t, Kind.COMPACTION)
        elif kind in ("task_complete", "turn_complete"):
            self.flush()
            self.session.mark(t, Kind.DONE)

    def _usage(self, info: dict[str, Any], t: float | None) -> None:
        last = mapping(info.get("last_token_usage"))
        total = count(mapping(info.get("total_token_usage")).get("total_tokens"))
        if not last or total == self.total:
            return  # told twice: the same numbers again
        self.total = total
        usage = Usage(
            prompt=count(last.get("input_tokens")),
            cached=count(last.get("cached_input_tokens")),
            completion=count(last.get("output_tokens")),
            model=self.model,
            provider=self.provider,
        )
        self.session.turn(t, self._round(), usage)
        self.turns, self.open = self.turns + 1, False

    def _item(self, item: dict[str, Any], t: float | None) -> None:
        kind = text(item.get("type"))
        if kind in CALLS:
            self.open = True
            given = item.get("arguments", item.get("input", mapping(item.get("action"))))
            name = text(item.get("name")) or "local_shell"
            self.calls[text(item.get("call_id"))] = (name, arguments(given), self._round())
        elif kind in OUTPUTS:
            self._output(text(item.get("call_id")), item.get("output"), t)
        elif kind == "message":
            self._message(item, t)
        elif kind == "reasoning":
            self.session.said(t, self._round(), joined(item.get("summary")), reasoning=True)

    def _message(self, item: dict[str, Any], t: float | None) -> None:
        said = joined(item.get("content"))
        if item.get("role") == "user":
            self.session.prompt(t, said)
        elif item.get("role") == "assistant":
            self.open = True
            self.session.said(t, self._round(), said)

    def _output(self, call_id: str, output: Any, t: float | None) -> None:
        known = self.calls.pop(call_id, None)
        if known is None:
            return
        name, given, round_ = known
        tool, args = _plain(name, given)
        exit_, said = _result(output)
        outcome = _outcome(tool, exit_, said)
        self.session.call(Call(tool, args, call_id=call_id, round=round_, t=t, shell_lands=True, **outcome))


def _spawned(payload: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(mapping(payload.get("source")).get("subagent")).get("thread_spawn"))


def _plain(name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Put a call into the common words: the shell's script, patches by the file they name, polls by their process."""
    tool, args = renamed(name, given)
    command = _script(args.get("command"))
    patch = command or text(args.get("input")) or text(args.get("patch"))
    file = PATCHED.search(patch) if tool == "apply_patch" or "apply_patch" in patch[:HEAD] else None
    if file:
        return "apply_patch", {"filePath": file[1].strip(), "patchText": patch}
    if tool == "write_stdin" and not text(args.get("chars")).strip():
        return "poll", {"session_id": args.get("session_id")}
    if tool == "bash":
        return tool, {"command": command, "workdir": args.get("workdir")}
    return tool, args


def _script(command: Any) -> str:
    """The shell's script: of a list of words that of ``bash -lc``, or the words themselves."""
    if not isinstance(command, list):
        return text(command)
    words = [text(word) for word in command]
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)


def _result(output: Any) -> tuple[int | None, str]:
    """Return the exit status, None where a process still runs or nothing is said, and what was printed."""
    said = joined(output) or text(mapping(output).get("content"))
    if said.startswith("{"):
        try:
            decoded = mapping(json.loads(said))
        except (ValueError, RecursionError):
            decoded = {}
        if "output" in decoded:
            return whole(mapping(decoded.get("metadata")).get("exit_code")), text(decoded["output"])
    found, body = EXITED.search(said[:HEAD]), BODY.search(said[:HEAD])
    printed = said[body.end() :] if body and (found or RUNNING.search(said[:HEAD])) else said
    return (int(found[1]) if found else None), printed


def _outcome(tool: str, exit_: int | None, said: str) -> dict[str, Any]:
    if tool in ("bash", "poll"):
        return {"exit": exit_, "output": said}
    refused = said.startswith(("unsupported", "failed", "apply_patch verification failed", "error", "Error"))
    if refused or (exit_ or 0) != 0:
        return {"failure": said}
    return {"exit": 0, "output": said}
