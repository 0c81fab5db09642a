"""Typed views of the bus: messages are models, their class names are the message kinds.

Works with any model class that has ``model_dump_json`` and ``model_validate_json`` (pydantic's names); this module
imports no model library, so that root stays small.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self, TypeVar

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused

__all__ = ["Message", "Ref", "handle"]


class Message(Protocol):
    """What a message class must offer."""

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self: ...


M = TypeVar("M", bound=Message)
In = TypeVar("In", bound=Message)


class Ref:
    """Address of a named process; the same from anywhere."""

    def __init__(self, endpoint: Endpoint, peer: str) -> None:
        self.peer = peer
        self._endpoint = endpoint

    async def ask(self, message: Message, reply: type[M], *, timeout_s: float = 5.0) -> M:
        """Ask and return the validated answer. Raises a BusError."""
        body = message.model_dump_json().encode()
        answer = await self._endpoint.ask(self.peer, type(message).__name__, body, timeout_s=timeout_s)
        return reply.model_validate_json(answer)

    async def tell(self, message: Message, *, timeout_s: float = 5.0) -> None:
        """Send without an answer. Raises a BusError when it cannot be written."""
        await self._endpoint.tell(
            self.peer, type(message).__name__, message.model_dump_json().encode(), timeout_s=timeout_s
        )


def handle(endpoint: Endpoint, model: type[In], function: Callable[[In], Awaitable[Any]]) -> None:
    """Serve messages of ``model`` with ``function(message) -> model | None``; an invalid body is refused."""

    async def serve(body: bytes) -> bytes | None:
        try:
            message = model.model_validate_json(body)
        except ValueError as error:
            raise Refused("invalid", str(error)) from None
        answer = await function(message)
        return None if answer is None else bytes(answer.model_dump_json(), "utf8")

    endpoint.on(model.__name__, serve)
