"""The table of the API's routes and the one way in which each of them is served.

Every route: check who asks, run the handler, turn its model into JSON and its problem into an error body. Handlers read
the database on the event loop: each read is one indexed query. The table is also the source of the OpenAPI document.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from actors.clients.requests import Sighted
from actors.edge.api import alerts, models, openapi, state, trees
from actors.edge.api.context import Context
from actors.edge.api.errors import APIProblem
from actors.edge.auth import Scope
from actors.store.reader import Unreadable

__all__ = ["ENTRIES", "Entry", "problem_response", "routes"]

_log = logging.getLogger(__name__)

Handler = Callable[[Context, Request], Awaitable[BaseModel | Response]]


@dataclass(frozen=True)
class Entry:
    """One route: who may use it, what serves it, what it answers. ``scope`` None is open."""

    method: str
    path: str
    scope: Scope | None
    handler: Handler
    answer: type[BaseModel] | None


async def _openapi(context: Context, _request: Request) -> Response:
    """GET /v1/openapi.json"""
    described = [
        openapi.Described(entry.method, entry.path, entry.scope, entry.handler.__doc__ or "", entry.answer)
        for entry in ENTRIES
    ]
    return JSONResponse(openapi.document(described, context.version))


ENTRIES: Sequence[Entry] = (
    Entry("GET", "/healthz", None, state.health, models.Health),
    Entry("GET", "/metrics", Scope.ROUTER, state.metrics, None),
    Entry("GET", "/v1/trees", Scope.OPERATOR, trees.list_trees, models.TreeList),
    Entry("GET", "/v1/trees/{id:path}", Scope.OPERATOR, trees.show_tree, models.TreeView),
    Entry("GET", "/v1/warnings", Scope.OPERATOR, trees.list_warnings, models.WarningList),
    Entry("GET", "/v1/sensors", Scope.OPERATOR, state.list_sensors, models.SensorList),
    Entry("GET", "/v1/sightings", Scope.OPERATOR, state.sightings, Sighted),
    Entry("GET", "/v1/alerts", Scope.OPERATOR, state.list_alerts, models.AlertList),
    Entry("GET", "/v1/alerts/open", Scope.OPERATOR, alerts.list_open, alerts.OpenAlerts),
    Entry("GET", "/v1/alerts/{id:path}", Scope.OPERATOR, alerts.show_entry, alerts.EntryView),
    Entry("GET", "/v1/channels", Scope.OPERATOR, alerts.list_channels, alerts.ChannelList),
    Entry("GET", "/v1/silences", Scope.OPERATOR, alerts.list_silences, alerts.SilenceList),
    Entry("GET", "/v1/feedback", Scope.OPERATOR, alerts.list_feedback, alerts.FeedbackList),
    Entry("GET", "/v1/openapi.json", Scope.ROUTER, _openapi, None),
)


def routes(context: Context) -> list[Route]:
    """Return the Starlette routes of the API."""
    return [Route(entry.path, _served(context, entry), methods=[entry.method]) for entry in ENTRIES]


def problem_response(problem: APIProblem) -> Response:
    """Return the response of one problem."""
    return JSONResponse(problem.body, problem.status, headers=problem.headers)


def _served(context: Context, entry: Entry) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            context.check(request, entry.scope)
            answer = await entry.handler(context, request)
        except APIProblem as problem:
            return problem_response(problem)
        except Unreadable as error:
            _log.error("%s: %s", entry.path, error)
            return problem_response(APIProblem.of(503, "storage", "the database cannot be read", retry_after_s=1))
        return answer if isinstance(answer, Response) else JSONResponse(answer.model_dump(mode="json"))

    return serve
