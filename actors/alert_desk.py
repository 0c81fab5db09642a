"""What an operator does with alerts over the control socket: silence, acknowledge, try a channel, say right or wrong.

Each is a message to the notifier, which answers after its commit; who asked (SO_PEERCRED) goes into the audit row.
"""

from __future__ import annotations

import time
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from actors.messages import Severity
from actors.notifier.requests import (
    Acknowledge,
    Acknowledged,
    Judged,
    Mute,
    Muted,
    SayRightOrWrong,
    TestChannel,
    Tested,
    Unmute,
)
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, RemoteError
from supervisor.bus.refs import Ref
from supervisor.control.operations import body_as
from supervisor.control.peer import peer_of
from supervisor.control.problem import Problem

__all__ = ["AlertDesk"]

TIMEOUT_S = 15.0
MOST_S = 90 * 86_400.0

M = TypeVar("M", bound=BaseModel)


class Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SilenceRequest(Asked):
    """The body of POST /v1/silences: what is given must match; at least one of key and source, or a severity."""

    key: str | None = Field(None, min_length=1, max_length=300)
    source: str | None = Field(None, min_length=1, max_length=200)
    severity: Severity = Severity.CRITICAL
    for_s: float = Field(gt=0, le=MOST_S)
    note: str = Field("", max_length=500)


class AcknowledgeRequest(Asked):
    """The body of POST /v1/alerts/acknowledge."""

    key: str


class FeedbackRequest(Asked):
    """The body of POST /v1/alerts/{id}/feedback."""

    says: Literal["right", "wrong"]
    note: str = Field("", max_length=2000)


class AlertDesk:
    """The routes of this module."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._notifier = Ref(endpoint, "notifier")

    def routes(self) -> list[Route]:
        return [
            Route("/v1/silences", self.silence, methods=["POST"]),
            Route("/v1/silences/{id:int}", self.end_silence, methods=["DELETE"]),
            Route("/v1/alerts/acknowledge", self.acknowledge, methods=["POST"]),
            Route("/v1/alerts/{id:int}/feedback", self.feedback, methods=["POST"]),
            Route("/v1/channels/{name}/test", self.test, methods=["POST"]),
        ]

    async def silence(self, request: Request) -> JSONResponse:
        """Mute alerts for a while; what is still true is told when it ends."""
        asked = await body_as(request, SilenceRequest)
        until = time.time() + asked.for_s
        fields = asked.model_dump(include={"key", "source", "severity", "note"})
        made = await self._ask(Mute(**fields, until=until, by=_who(request)), Muted)
        return JSONResponse({"id": made.id, "until": until, "covers": made.covers})

    async def end_silence(self, request: Request) -> JSONResponse:
        """End a silence now."""
        made = await self._ask(Unmute(id=request.path_params["id"], by=_who(request)), Muted)
        return JSONResponse({"id": made.id})

    async def acknowledge(self, request: Request) -> JSONResponse:
        """Somebody has taken an open alert on: it is told again only when it gets worse, or ends."""
        asked = await body_as(request, AcknowledgeRequest)
        answer = await self._ask(Acknowledge(key=asked.key, by=_who(request)), Acknowledged)
        if not answer.found:
            raise Problem(404, "not_found", f"no alert {asked.key} is open; see GET /v1/alerts/open")
        return JSONResponse({"key": asked.key, "severity": answer.severity})

    async def feedback(self, request: Request) -> JSONResponse:
        """Keep whether an alert was right, with its evidence, for calibration."""
        asked = await body_as(request, FeedbackRequest)
        number = request.path_params["id"]
        said = SayRightOrWrong(alert_log_id=number, says=asked.says, note=asked.note, by=_who(request))
        answer = await self._ask(said, Judged)
        if not answer.found:
            raise Problem(404, "not_found", f"the log has no entry {number}; see GET /v1/alerts")
        return JSONResponse({"id": answer.id, "alert": number, "says": asked.says})

    async def test(self, request: Request) -> JSONResponse:
        """Send a real message through one channel and say what became of it."""
        name = request.path_params["name"]
        answer = await self._ask(TestChannel(channel=name, by=_who(request)), Tested)
        if not answer.found:
            raise Problem(404, "not_found", f"no channel {name} is configured; see GET /v1/channels")
        return JSONResponse(answer.model_dump(exclude={"found"}) | {"channel": name})

    async def _ask(self, message: BaseModel, reply: type[M]) -> M:
        try:
            return await self._notifier.ask(message, reply, timeout_s=TIMEOUT_S)
        except RemoteError as error:
            if error.code == "not_found":
                raise Problem(404, "not_found", str(error.detail)) from None
            raise Problem(503, "unavailable", f"nothing was changed: {error}") from None
        except BusError as error:
            raise Problem(503, "unavailable", f"notifier does not answer: {error or type(error).__name__}") from None


def _who(request: Request) -> str:
    return f"uid:{peer_of(request.scope).uid}"
