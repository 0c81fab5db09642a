"""Raw ASGI in and out: read a body within a limit, send JSON. Never holds more than the limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from pydantic_core import to_json

from actors.edge.api.errors import APIProblem

__all__ = ["ASGI", "Disconnected", "Receive", "Send", "read_body", "send_json", "send_problem"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Disconnected(Exception):
    """The sender went away before its body was whole; nothing was taken."""


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """Return the whole body. Raises APIProblem 413 over ``limit`` bytes, Disconnected."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def send_json(send: Send, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
    """Send one JSON answer."""
    raw = to_json(body, exclude_none=True)
    pairs = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    pairs += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": raw})


async def send_problem(send: Send, problem: APIProblem) -> None:
    """Send one error answer."""
    await send_json(send, problem.status, problem.body, problem.headers)


def _too_large(limit: int) -> APIProblem:
    return APIProblem.of(413, "too_large", f"the body is too large; allowed: up to {limit} bytes a request")
