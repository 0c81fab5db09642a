"""Restart processes on an operator's word: one by name, or all of them one after the other.

POST /v1/children/restart    {"child"} restarts one; {} restarts all in start order, stopping at the first that does not
                             get ready; answers what root answers (supervisor.operations)

Control is a process as well: when its own turn comes it answers 202 {"watch": true} at once, while root goes on. The
asker then watches GET /v1/status, where every process shows its pid.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, RemoteError
from supervisor.control.operations import body_as
from supervisor.control.peer import peer_of
from supervisor.control.problem import Problem

__all__ = ["Audit", "Restarts"]

Audit = Callable[[str, dict[str, Any], int], Awaitable[None]]

TIMEOUT_S = 300.0
_STATUS = {"unknown_child": 404, "busy": 409, "invalid": 400}


class RestartRequest(BaseModel):
    """The body: without ``child`` everything is restarted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    child: str | None = None


class Restarts:
    """``audit(action, detail, uid)`` notes who asked, before anything happens; it must not raise.

    ``stopping`` is set when this very process is to end.
    """

    def __init__(self, endpoint: Endpoint, audit: Audit, stopping: asyncio.Event) -> None:
        self._endpoint = endpoint
        self._audit = audit
        self._stopping = stopping

    def routes(self) -> list[Route]:
        return [Route("/v1/children/restart", self.post, methods=["POST"])]

    async def post(self, request: Request) -> JSONResponse:
        asked = await body_as(request, RestartRequest)
        await self._audit("restart", {"child": asked.child or "all"}, peer_of(request.scope).uid)
        asking = asyncio.create_task(self._ask(asked))
        ending = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
            return JSONResponse(await asking) if asking.done() else JSONResponse({"watch": True}, 202)
        finally:
            asking.cancel()
            ending.cancel()

    async def _ask(self, asked: RestartRequest) -> Any:
        kind = "Restart" if asked.child is not None else "RestartRolling"
        body = asked.model_dump_json().encode()
        try:
            return json.loads(await self._endpoint.ask("root", kind, body, timeout_s=TIMEOUT_S))
        except RemoteError as error:
            raise Problem(_STATUS.get(error.code, 503), error.code, str(error.detail)) from None
        except BusError as error:
            raise Problem(503, "unavailable", f"root did not answer: {error or type(error).__name__}") from None
