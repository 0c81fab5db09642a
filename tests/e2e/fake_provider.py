"""A scripted model provider on loopback: OpenAI-compatible, streaming, one thread per connection.

A ``Script`` is a list of steps; each request of a conversation takes the next one. Scripts are found by the first
match of ``conversation`` (client's x-session-id), ``parent`` (x-parent-session-id) and ``marker`` (a string in the
request), so a child, whose id nobody knows beforehand, is scripted by its parent's id or by a word of its prompt. A
conversation whose script has run out, or that has none, gets a plain closing text. Title and compaction requests never
use up a step.

Every request is recorded (headers, body) before it is answered. Nothing leaves 127.0.0.1.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

from tests.e2e.loopback import LoopbackServer

__all__ = ["Call", "Fail", "FakeProvider", "Hang", "Received", "Say", "Script", "Step", "call"]

CLOSING = "All done."
TITLE = "A scripted title"
SUMMARY = "## Goal\nA scripted summary.\n"


@dataclass(frozen=True)
class Call:
    """One assistant message with these tool calls: pairs of tool name and arguments; ``text`` is said before them."""

    tools: tuple[tuple[str, dict[str, Any]], ...]
    text: str = ""
    prompt_tokens: int = 1000
    completion_tokens: int = 50
    cached_tokens: int = 0


@dataclass(frozen=True)
class Say:
    """One assistant message of text; the client's turn ends with it."""

    text: str
    prompt_tokens: int = 1000
    completion_tokens: int = 50
    cached_tokens: int = 0


@dataclass(frozen=True)
class Fail:
    """An HTTP error instead of an answer."""

    status: int
    message: str = "scripted failure"
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Hang:
    """Keep the request open until ``FakeProvider.release`` is set, then say ``text``."""

    text: str = CLOSING


Step = Call | Say | Fail | Hang


def call(tool: str, /, **args: Any) -> Call:
    return Call(((tool, args),))


@dataclass
class Script:
    """``repeat`` starts again at the first step when the last one has been used."""

    steps: list[Step]
    conversation: str | None = None
    parent: str | None = None
    marker: str | None = None
    repeat: bool = False
    used: dict[str, int] = field(default_factory=dict)

    def matches(self, request: Received) -> bool:
        wanted = (self.conversation, request.conversation), (self.parent, request.parent)
        if any(want is not None and want != got for want, got in wanted):
            return False
        return self.marker is None or self.marker in request.text

    def next_step(self, conversation: str) -> Step | None:
        at = self.used.get(conversation, 0)
        self.used[conversation] = at + 1
        if self.repeat:
            at %= len(self.steps)
        return self.steps[at] if at < len(self.steps) else None


@dataclass(frozen=True)
class Received:
    """One request as it came in; header names are lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.body.get("messages", []), ensure_ascii=False)

    @property
    def conversation(self) -> str:
        return self.headers.get("x-session-id") or self.headers.get("x-router-conversation") or "unknown"

    @property
    def parent(self) -> str | None:
        return self.headers.get("x-parent-session-id") or self.headers.get("x-router-parent")

    @property
    def purpose(self) -> str:
        """title | compaction | turn: the two service agents send no tools (measured with opencode 1.18.33)."""
        system = " ".join(str(m["content"]) for m in self.body.get("messages", []) if m.get("role") == "system")
        if "title generator" in system:
            return "title"
        return "turn" if self.body.get("tools") else "compaction"


class FakeProvider:
    """Start it, add scripts, point a client at ``base_url``; ``requests`` holds what came in, in order of arrival."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.scripts: list[Script] = []
        self.title: Step = Say(TITLE)
        self.compaction: Step = Say(SUMMARY)
        self.release = threading.Event()
        self._changed = threading.Condition()
        self._ids = count(1)
        handler = type("Bound", (_Handler,), {"provider": self})
        self._server = LoopbackServer(handler)

    @property
    def base_url(self) -> str:
        return f"{self._server.url}/v1"

    def start(self) -> FakeProvider:
        self._server.start()
        return self

    def stop(self) -> None:
        self.release.set()
        self._server.stop()

    def script(self, steps: list[Step], **where: Any) -> Script:
        """Add a script; the newest one that matches a request wins."""
        added = Script(list(steps), **where)
        with self._changed:
            self.scripts.insert(0, added)
        return added

    def of(self, conversation: str, purpose: str = "turn") -> list[Received]:
        return [r for r in self.requests if r.conversation == conversation and r.purpose == purpose]

    def wait(self, conversation: str, turns: int = 1, timeout_s: float = 20.0) -> list[Received]:
        """The requests of a conversation as soon as there are so many; an AssertionError if they do not come."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.of(conversation)) >= turns, timeout_s)
        assert arrived, f"{conversation} made {len(self.of(conversation))} of {turns} requests within {timeout_s} s"
        return self.of(conversation)

    def decide(self, request: Received) -> Step:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if request.purpose != "turn":
                return self.title if request.purpose == "title" else self.compaction
            found = next((s for s in self.scripts if s.matches(request)), None)
            step = found.next_step(request.conversation) if found else None
        return step or Say(CLOSING)

    def unique(self, prefix: str) -> str:
        return f"{prefix}{next(self._ids)}"


class _Handler(BaseHTTPRequestHandler):
    provider: FakeProvider
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Keep the test output quiet; requests are recorded."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.path, headers, json.loads(raw or b"{}"))
        step = self.provider.decide(request)
        try:
            self._answer(step)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client went away (an abort); its request stays recorded

    def _answer(self, step: Step) -> None:
        if isinstance(step, Fail):
            return self._fail(step)
        self._open_stream()
        if isinstance(step, Hang):
            self._chunk(_delta({"role": "assistant", "content": ""}))
            self.provider.release.wait(60)
            step = Say(step.text)
        for chunk in _chunks(step, self.provider):
            self._chunk(chunk)
        self._raw(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _fail(self, step: Fail) -> None:
        body = json.dumps({"error": {"message": step.message, "code": step.code, "type": "scripted"}}).encode()
        self.send_response(step.status)
        for name, value in (*step.headers, ("content-type", "application/json"), ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, payload: dict[str, Any]) -> None:
        self._raw(b"data: " + json.dumps(payload).encode() + b"\n\n")

    def _raw(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _chunks(step: Call | Say, provider: FakeProvider) -> Iterator[dict[str, Any]]:
    yield _delta({"role": "assistant", "content": step.text})
    tools = step.tools if isinstance(step, Call) else ()
    for index, (name, args) in enumerate(tools):
        function = {"name": name, "arguments": json.dumps(args)}
        entry = {"index": index, "id": provider.unique("call_"), "type": "function", "function": function}
        yield _delta({"tool_calls": [entry]})
    yield _delta({}, "tool_calls" if tools else "stop")
    usage = {
        "prompt_tokens": step.prompt_tokens,
        "completion_tokens": step.completion_tokens,
        "total_tokens": step.prompt_tokens + step.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": step.cached_tokens},
    }
    yield {**_delta({}), "choices": [], "usage": usage}
