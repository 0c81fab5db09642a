"""The two hot routes as raw ASGI: POST /v1/progress (also /progress, P020) and POST /v1/admission.

Order of the checks: method, Host, token, scope, body size, content type, JSON. A refused request takes nothing in.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from actors.edge.admission import Admission, AdmissionRequest
from actors.edge.api.errors import APIError, APIProblem
from actors.edge.auth import Scope
from actors.edge.body import ASGI, Disconnected, Receive, Send, read_body, send_json, send_problem
from actors.edge.guard import Guard, headers_of
from actors.edge.ingest import MESSAGES, Answer, Ingestion
from actors.edge.metrics import Metrics
from actors.edge.sightings import SensorsSeen
from actors.knobs import Knobs
from actors.sensors.identity import identity_of
from actors.sensors.item_errors import explain
from actors.sensors.wire import Foreign, Malformed, Receipt, TooMany, WireError, parse

__all__ = ["Hot", "HotParts"]

_log = logging.getLogger(__name__)

MAX_ADMISSION_BYTES = 64 * 1024
STATUS: Mapping[type[WireError], tuple[int, str]] = {
    Malformed: (400, "malformed"),
    Foreign: (415, "unsupported_media_type"),
    TooMany: (413, "too_many"),
}
# What routers may call the fields of an admission request, beside their names.
ADMISSION_ALIASES = {"session_id": "conversation", "session": "conversation", "parent_session_id": "parent"}

Headers = Mapping[bytes, bytes]
Handle = Callable[[Headers, Receive], Awaitable[Answer]]


@dataclass(frozen=True)
class HotParts:
    """What the hot routes work with; ``now`` is wall time in epoch seconds."""

    guard: Guard
    ingestion: Ingestion
    admission: Admission
    sensors: SensorsSeen
    metrics: Metrics
    knobs: Callable[[], Knobs]
    now: Callable[[], float] = time.time


class Hot:
    """``routes`` maps paths to ASGI applications."""

    def __init__(self, parts: HotParts) -> None:
        self._parts = parts
        boot, count = secrets.token_hex(6), itertools.count(1)
        self._new_id = lambda: f"~{boot}.{next(count)}"
        progress = self._served("/v1/progress", Scope.SENSOR, self._progress)
        self.routes: dict[str, ASGI] = {
            "/v1/progress": progress,
            "/progress": progress,
            "/v1/admission": self._served("/v1/admission", Scope.ROUTER, self._admission),
        }

    def _served(self, route: str, scope: Scope, handle: Handle) -> ASGI:
        async def app(request: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            started = time.perf_counter()
            try:
                status = await self._answer(request, receive, send, scope, handle)
            except Disconnected:
                return
            self._parts.metrics.answered(route, status, time.perf_counter() - started)

        return app

    async def _answer(
        self,
        request: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        scope: Scope,
        handle: Handle,
    ) -> int:
        try:
            if request["method"] != "POST":
                raise APIProblem.of(405, "method_not_allowed", f"{request['method']} is not served; allowed: POST")
            headers = headers_of(request)
            self._parts.guard.check(headers, scope)
            answer = await handle(headers, receive)
        except APIProblem as problem:
            await send_problem(send, problem)
            return problem.status
        except Disconnected:
            raise
        except asyncio.CancelledError:  # uvicorn's, when the grace of a stop is over
            await send_problem(send, APIProblem.of(503, "stopping", MESSAGES["stopping"]))
            return 503
        except Exception:  # noqa: BLE001 - a defect is answered and logged, the process lives on
            _log.exception("a request failed")
            await send_problem(send, APIProblem.of(500, "internal", "a defect of treewarden; see its log"))
            return 500
        await send_json(send, answer.status, answer.body, answer.headers)
        return answer.status

    async def _progress(self, headers: Headers, receive: Receive) -> Answer:
        limits = self._parts.knobs().ingest
        body = await read_body(receive, headers, limits.max_bytes)
        identity = identity_of(headers)
        receipt = Receipt(identity, self._parts.now(), self._new_id)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        try:
            parsed = parse(body, content_type, receipt, max_events=limits.max_events)
        except WireError as error:
            status, code = STATUS[type(error)]
            raise APIProblem.of(status, code, str(error)) from None
        answer = await self._parts.ingestion.take(parsed)
        self._parts.metrics.counted(answer.counts, parsed.errors)
        self._parts.sensors.note(identity.source, (event.source for event in parsed.events))
        return answer

    async def _admission(self, headers: Headers, receive: Receive) -> Answer:
        body = await read_body(receive, headers, MAX_ADMISSION_BYTES)
        request = admission_request(body, headers)
        answer = self._parts.admission.decide(request)
        return Answer(200, answer.model_dump(mode="json", exclude_none=True))


def admission_request(body: bytes, headers: Headers) -> AdmissionRequest:
    """Parse an admission body; identity headers fill what it does not say. Raises APIProblem 400."""
    fields = _object(body)
    for alias, name in ADMISSION_ALIASES.items():
        if alias in fields:
            fields.setdefault(name, fields[alias])
    identity = identity_of(headers)
    for name in ("conversation", "parent", "agent"):
        value = getattr(identity, name)
        if value is not None and fields.get(name) is None:
            fields[name] = value
    for name in ("conversation", "parent"):
        if isinstance(fields.get(name), str):
            fields[name] = fields[name].removeprefix("c:")
    try:
        return AdmissionRequest.model_validate(fields)
    except ValidationError as error:
        first = explain(0, error)[0]
        message = f"{first.field}: {first.message}"
        raise APIProblem(400, APIError(code="invalid", message=message, **_parts(first))) from None


def _parts(error: Any) -> dict[str, str]:
    return {"field": error.field, "value": error.value, "allowed": error.allowed}


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = from_json(body or b"{}", allow_inf_nan=False)
    except ValueError as error:
        raise APIProblem.of(400, "malformed", f"the body is not JSON: {str(error)[:80]}") from None
    if not isinstance(value, dict):
        raise APIProblem.of(400, "malformed", "the body must be one JSON object")
    return value
