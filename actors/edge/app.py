"""One ASGI application: the hot routes directly, everything else through Starlette."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from actors.edge.api.context import Context
from actors.edge.api.errors import APIProblem
from actors.edge.api.routes import problem_response, routes
from actors.edge.auth import Scope
from actors.edge.body import ASGI, Receive, Send
from actors.edge.guard import Guard, headers_of

__all__ = ["api_application", "application", "checked_by"]


def application(hot: Mapping[str, ASGI], api: ASGIApp) -> ASGI:
    """Dispatch by exact path to ``hot``, else to ``api``."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        route = hot.get(scope["path"])
        await (api if route is None else route)(scope, receive, send)

    return app


def api_application(context: Context) -> Starlette:
    """Return the API with its errors in the one shape."""
    return Starlette(
        routes=routes(context),
        exception_handlers={HTTPException: _http_problem, Exception: _defect},
    )


def checked_by(guard: Guard) -> Callable[[Request, Scope | None], None]:
    """Return the check of the TCP side for the API's routes."""

    def check(request: Request, needed: Scope | None) -> None:
        guard.check(headers_of(request.scope), needed)

    return check


async def _http_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
    return problem_response(APIProblem.of(error.status_code, code, str(error.detail)))


async def _defect(_request: Request, _error: Exception) -> Response:
    return problem_response(APIProblem.of(500, "internal", "a defect of treewarden; see its log"))
