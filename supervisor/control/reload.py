"""Reload: file and environment are read anew and used by all processes or by none.

POST /v1/settings/reload  {"note"}; answers {"version", "changes": [{path, before, after, hot}]}, or what is wrong
bus kind SettingsReload   {"uid", "note"}, from root only; the same answer, or a refusal

The route goes through root, so that systemd sees a reload whoever asked for it: root asks back with SettingsReload.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, Refused, RemoteError
from supervisor.control.operations import Author, Operations, body_as
from supervisor.control.peer import peer_of
from supervisor.control.problem import Problem
from supervisor.settings.errors import InvalidSettings
from supervisor.settings.reread import reread

__all__ = ["Reload"]

_TIMEOUT_S = 20.0  # above root's own patience, whose answer says more
_STATUS = {"invalid": 400, "conflict": 412}


class ReloadRequest(BaseModel):
    """The body of POST /v1/settings/reload."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    note: str = "reload"


class Reload:
    """``command`` prints the layers (supervisor.settings.reread)."""

    def __init__(self, endpoint: Endpoint, operations: Operations, command: Sequence[str]) -> None:
        self._endpoint = endpoint
        self._operations = operations
        self._command = command
        endpoint.on("SettingsReload", self.on_message)

    def routes(self) -> list[Route]:
        return [Route("/v1/settings/reload", self.post, methods=["POST"])]

    async def post(self, request: Request) -> JSONResponse:
        asked = await body_as(request, ReloadRequest)
        author = Author(uid=peer_of(request.scope).uid, note=asked.note)
        try:
            body = await self._endpoint.ask("root", "Reload", author.model_dump_json().encode(), timeout_s=_TIMEOUT_S)
        except RemoteError as error:
            problems = [str(item) for item in error.detail] if isinstance(error.detail, list) else [str(error.detail)]
            raise Problem(_STATUS.get(error.code, 503), error.code, "; ".join(problems), problems) from None
        except BusError as error:
            raise Problem(503, "unavailable", f"not reloaded: {error or type(error).__name__}") from None
        return JSONResponse(json.loads(body))

    async def on_message(self, body: bytes) -> bytes:
        try:
            author = Author.model_validate_json(body)
            layers = await reread(self._command)
            applied = await self._operations.reload(layers["file"], layers["environment"], author)
        except ValidationError as error:
            raise Refused("invalid", str(error)) from None
        except InvalidSettings as error:
            raise Refused("invalid", error.problems) from None
        except Problem as problem:
            raise Refused(problem.code, problem.problems or problem.message) from None
        changes = [change.model_dump() for change in applied.changes]
        return json.dumps({"version": applied.rendered.version, "changes": changes}).encode()
