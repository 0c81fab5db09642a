"""Claude Code's transcripts: JSON lines of ~/.claude/projects/*/SESSION.jsonl and its SESSION/subagents/*.jsonl.

One message spans several lines with one id and the same usage: it is one turn. The exit status of a command is only
in the text of its result ("Exit code N"); ``is_error`` may be absent on success. A side chain is a conversation of its
own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.messages import ErrorClass, Kind
from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.normalise_digest import short
from actors.sensors.readers.records import Origin, Problem, Record, Unknown, World, world_of
from actors.sensors.readers.shapes import count, dollars, joined, mapping, mappings, text
from actors.sensors.readers.vocabulary import renamed

__all__ = ["read", "recognises"]

SOURCE = "claude-code"
EXIT = re.compile(r"^(?:Error: )?Exit code (\d{1,5})\n?")
FAILED = ("<tool_use_error>", "The user doesn't want to", "[Request interrupted")
IGNORED = frozenset(
    {
        *(
            "summary",
            "attachment",
            "queue-operation",
            "last-prompt",
            "file-history-snapshot",
            "progress",
            "custom-title",
        ),
        *("agent-name", "ai-title", "tag", "mode", "permission-mode", "pr-link", "agent-color", "agent-setting"),
        *("worktree-state", "content-replacement", "relocated", "bridge-session"),
    }
)
COMPACTED = frozenset({"compact_boundary", "microcompact_boundary"})


def recognises(record: Any) -> bool:
    """Whether a decoded line is of this format."""
    one = mapping(record)
    if not isinstance(one.get("sessionId"), str) or not isinstance(one.get("type"), str):
        return False
    return one["type"] in ("queue-operation", "last-prompt") or "parentUuid" in one or "isSidechain" in one


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield one world: the session and its side chains."""
    unknown = Unknown(origin)
    chains: dict[str, _Chain] = {}
    agents: dict[str, str] = {}  # a sub-agent's id -> its kind, as its dispatch named it
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        one = mapping(record.value)
        kind = text(one.get("type"))
        if kind in ("user", "assistant", "system") and text(one.get("sessionId")):
            _chain(chains, agents, one, origin).take(kind, one)
        elif kind not in IGNORED:
            unknown.note(kind)
    for chain in chains.values():
        chain.flush()
    yield from world_of(SOURCE, (chain.session for chain in chains.values()))
    yield from unknown.problems()


def _chain(chains: dict[str, _Chain], agents: dict[str, str], one: dict[str, Any], origin: Origin) -> _Chain:
    session = text(one.get("sessionId"))
    side = one.get("isSidechain") is True
    number = text(one.get("agentId"))
    key = f"{session}/{number or 'sidechain'}" if side else session
    if key not in chains:
        agent = agents.get(number) or text(one.get("attributionAgent")) or "subagent"
        made = Session(key, session if side else None, agent if side else "main", text(one.get("cwd")), origin.home)
        chains[key] = _Chain(made, agents)
    return chains[key]


@dataclass(slots=True)
class _Chain:
    """One conversation while it is read; ``turn`` is the message whose lines are still coming."""

    session: Session
    agents: dict[str, str]
    calls: dict[str, tuple[str, dict[str, Any], str]] = field(default_factory=dict)
    turn: tuple[str, float | None, Usage] | None = None
    told: set[str] = field(default_factory=set)

    def take(self, kind: Any, one: dict[str, Any]) -> None:
        t = clock(one.get("timestamp"))
        if kind == "assistant":
            self._assistant(one, mapping(one.get("message")), t)
            return
        self.flush()
        if kind == "user":
            self._user(one, mapping(one.get("message")).get("content"), t)
        elif text(one.get("subtype")) in COMPACTED:
            self.session.mark(t, Kind.COMPACTION)
        elif one.get("subtype") == "api_error":
            self.session.mark(t, Kind.RETRY, error=ErrorClass.PROVIDER)

    def flush(self) -> None:
        """The lines of a message have ended: it was one turn."""
        if self.turn is not None:
            round_, t, usage = self.turn
            self.session.turn(t, round_, usage)
            self.turn = None

    def _assistant(self, one: dict[str, Any], message: dict[str, Any], t: float | None) -> None:
        if one.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
            self.flush()
            self.session.mark(t, Kind.RETRY, error=ErrorClass.PROVIDER)
            return
        round_ = text(message.get("id")) or text(one.get("uuid"))
        if self.turn is not None and self.turn[0] != round_:
            self.flush()
        if round_ not in self.told or self.turn is not None:
            self.turn = (round_, t, _usage(one, message))
            self.told.add(round_)
        for block in mappings(message.get("content")):
            self._block(block, round_, t)
        if message.get("stop_reason") == "end_turn":
            self.flush()
            self.session.mark(t, Kind.DONE, round=round_[:200] or None)

    def _block(self, block: dict[str, Any], round_: str, t: float | None) -> None:
        if block.get("type") == "tool_use":
            self.calls[text(block.get("id"))] = (text(block.get("name")), mapping(block.get("input")), round_)
        elif block.get("type") == "text":
            self.session.said(t, round_, text(block.get("text")))
        elif block.get("type") == "thinking":
            self.session.said(t, round_, text(block.get("thinking")), reasoning=True)

    def _user(self, one: dict[str, Any], content: Any, t: float | None) -> None:
        results = [block for block in mappings(content) if block.get("type") == "tool_result"]
        for block in results:
            self._result(block, one.get("toolUseResult"), t)
        said = joined(content)
        if said.startswith("[Request interrupted"):
            self.session.mark(t, Kind.INTERRUPT)
        elif not results and content:
            machine = one.get("isMeta") is True or one.get("isCompactSummary") is True
            self.session.prompt(t, said, injected=machine)

    def _result(self, block: dict[str, Any], facts: Any, t: float | None) -> None:
        call_id = text(block.get("tool_use_id"))
        known = self.calls.pop(call_id, None)
        if known is None:
            return
        name, given, round_ = known
        tool, args = renamed(name, given)
        if tool == "task":
            self.agents[text(mapping(facts).get("agentId"))] = text(given.get("subagent_type"))
        outcome = _outcome(tool, joined(block.get("content")), block.get("is_error") is True, mapping(facts))
        self.session.call(Call(tool, args, call_id=call_id, round=round_, t=t, **outcome))


def _usage(one: dict[str, Any], message: dict[str, Any]) -> Usage:
    usage = mapping(message.get("usage"))
    cached, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return Usage(
        prompt=count(usage.get("input_tokens")) + cached + written,
        cached=cached,
        written=written,
        completion=count(usage.get("output_tokens")),
        usd=dollars(one.get("costUSD")),
        model=text(message.get("model")) or None,
        provider="anthropic",
    )


def _outcome(tool: str, output: str, failed: bool, facts: dict[str, Any]) -> dict[str, Any]:
    if facts.get("interrupted") is True:
        return {"aborted": True}
    found = EXIT.match(output) if tool == "bash" else None
    if found:
        return {"exit": int(found[1]), "output": output[found.end() :]}
    if failed:
        late = tool == "bash" and "timed out" in output[:200] and not output.startswith(FAILED)
        return {"exit": None, "output": output} if late else {"failure": output}
    if tool == "bash":
        return {"exit": None if facts.get("backgroundTaskId") else 0, "output": output}
    return {"output": output, **_edited(tool, facts)}


def _edited(tool: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the file holds after an edit is in the transcript, so its state is that of its bytes."""
    before, after = facts.get("originalFile"), facts.get("content")
    if tool == "edit" and isinstance(before, str):
        times = -1 if facts.get("replaceAll") is True else 1
        old = text(facts.get("oldString"))
        after = before.replace(old, text(facts.get("newString")), times) if old else None
    if tool not in ("edit", "write") or not isinstance(after, str):
        return {}
    unchanged = after == before or (facts.get("type") == "update" and facts.get("structuredPatch") == [])
    return {"state": short(after), "changed": not unchanged}
