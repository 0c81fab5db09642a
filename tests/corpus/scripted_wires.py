"""A scripted model on loopback that speaks four wires: Anthropic messages, OpenAI responses and chat, Gemini.

Every request that offers tools takes the next step of the script; any other one (titles, summaries) gets a short text.
A step is a list of (tool, arguments) or the closing text. The last step is repeated.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

from tests.e2e.loopback import LoopbackServer

__all__ = ["Step", "Wires"]

Step = list[tuple[str, dict[str, Any]]] | str


class Wires:
    """Enter it and point a client at ``url``; ``requests`` holds path and body of what came in."""

    def __init__(self, steps: list[Step], *, always: bool = False) -> None:
        self.steps = steps
        self.always = always  # requests without tools take steps too
        self.used = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._ids = count(1)
        self._server = LoopbackServer(type("Bound", (_Handler,), {"wires": self}))
        self.url = self._server.url

    def __enter__(self) -> Wires:
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    def step(self, path: str, body: dict[str, Any]) -> Step:
        self.requests.append((path, body))
        if not body.get("tools") and not self.always:
            return "A short summary."
        step = self.steps[min(self.used, len(self.steps) - 1)]
        self.used += 1
        return step

    def unique(self, prefix: str) -> str:
        return f"{prefix}{next(self._ids):04d}"


class _Handler(BaseHTTPRequestHandler):
    wires: Wires
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Keep the output quiet."""

    def do_GET(self) -> None:
        self._json({"data": [], "models": [], "object": "list"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return self._json({})
        path = self.path.partition("?")[0]
        for end, answer in ANSWERS.items():
            if path.endswith(end):
                return answer(self, self.wires.step(path, body), body)
        return self._json({"input_tokens": 10, "totalTokens": 10})

    def _json(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _events(self, events: list[tuple[str | None, Any]]) -> None:
        body = b""
        for name, value in events:
            text = value if isinstance(value, str) else json.dumps(value)
            body += (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def speak_anthropic(self, step: Step, body: dict[str, Any]) -> None:
        usage = {
            "input_tokens": 400,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 0,
            "output_tokens": 40,
        }
        blocks: list[dict[str, Any]] = (
            [{"type": "text", "text": step}]
            if isinstance(step, str)
            else [{"type": "tool_use", "id": self.wires.unique("toolu_"), "name": n, "input": a} for n, a in step]
        )
        stop = "end_turn" if isinstance(step, str) else "tool_use"
        head = {"id": self.wires.unique("msg_"), "type": "message", "role": "assistant", "model": body.get("model")}
        if not body.get("stream"):
            return self._json({**head, "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage})
        start = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        events: list[tuple[str | None, Any]] = [("message_start", {"type": "message_start", "message": start})]
        for at, block in enumerate(blocks):
            empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            delta = (
                {"type": "text_delta", "text": block["text"]}
                if block["type"] == "text"
                else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            )
            for kind, more in (("start", {"content_block": empty}), ("delta", {"delta": delta}), ("stop", {})):
                name = f"content_block_{kind}"
                events.append((name, {"type": name, "index": at, **more}))
        ends = {"stop_reason": stop, "stop_sequence": None}
        events.append(("message_delta", {"type": "message_delta", "delta": ends, "usage": usage}))
        events.append(("message_stop", {"type": "message_stop"}))
        return self._events(events)

    def speak_responses(self, step: Step, body: dict[str, Any]) -> None:
        said = {"type": "message", "role": "assistant", "id": self.wires.unique("m_")}
        items: list[dict[str, Any]] = (
            [{**said, "content": [{"type": "output_text", "text": step, "annotations": []}]}]
            if isinstance(step, str)
            else [_responses_call(name, args, self.wires.unique("call_")) for name, args in step]
        )
        usage = {
            "input_tokens": 1200,
            "input_tokens_details": {"cached_tokens": 800},
            "output_tokens": 40,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1240,
        }
        answer = {"id": self.wires.unique("resp_"), "object": "response", "status": "completed", "output": items}
        created = {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}
        events: list[tuple[str | None, Any]] = [("response.created", created)]
        for at, item in enumerate(items):
            for name in ("response.output_item.added", "response.output_item.done"):
                events.append((name, {"type": name, "output_index": at, "item": item}))
        done = {"type": "response.completed", "response": {**answer, "usage": usage}}
        self._events([*events, ("response.completed", done)])

    def speak_chat(self, step: Step, body: dict[str, Any]) -> None:
        usage = {
            "prompt_tokens": 1200,
            "completion_tokens": 40,
            "total_tokens": 1240,
            "prompt_tokens_details": {"cached_tokens": 800},
        }
        calls = [] if isinstance(step, str) else step
        tools = [
            {
                "index": at,
                "id": self.wires.unique("call_"),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for at, (name, args) in enumerate(calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
        if tools:
            message["tool_calls"] = tools
        finish = "tool_calls" if tools else "stop"
        head = {"id": self.wires.unique("chatcmpl-"), "created": 1, "model": body.get("model", "scripted")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self._json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        first = {"index": 0, "delta": message, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": finish}
        head["object"] = "chat.completion.chunk"
        chunks = [{**head, "choices": [first]}, {**head, "choices": [last]}, {**head, "choices": [], "usage": usage}]
        return self._events([*((None, chunk) for chunk in chunks), (None, "[DONE]")])

    def speak_gemini(self, step: Step, body: dict[str, Any]) -> None:
        parts = (
            [{"text": step}]
            if isinstance(step, str)
            else [{"functionCall": {"name": name, "args": args}} for name, args in step]
        )
        usage = {
            "promptTokenCount": 1200,
            "cachedContentTokenCount": 800,
            "candidatesTokenCount": 40,
            "totalTokenCount": 1240,
        }
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if self.path.partition("?")[0].endswith(":generateContent"):
            return self._json(answer)
        return self._events([(None, answer)])


def _responses_call(name: str, args: dict[str, Any], call_id: str) -> dict[str, Any]:
    if set(args) == {"input"}:  # a freeform tool
        return {"type": "custom_tool_call", "name": name, "input": args["input"], "call_id": call_id}
    return {"type": "function_call", "name": name, "arguments": json.dumps(args), "call_id": call_id}


ANSWERS = {
    "/messages": _Handler.speak_anthropic,
    "/responses": _Handler.speak_responses,
    "/chat/completions": _Handler.speak_chat,
    ":streamGenerateContent": _Handler.speak_gemini,
    ":generateContent": _Handler.speak_gemini,
}
