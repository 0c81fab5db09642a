"""Process operations over the control socket: status, and settings as they are, as they would be, as they shall be.

GET   /v1/status     what root says of its children, plus what the application adds; answers when children are down
GET   /v1/settings   {"version", "values", "sources"}, ETag is the version
PATCH /v1/settings   {"overrides": {dotted name: value or null}, "dry_run", "note"}; If-Match guards others' changes;
                     answers {"version", "applied", "changes": [{path, before, after, hot}]}
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, RemoteError
from supervisor.control.peer import peer_of
from supervisor.control.problem import Problem
from supervisor.settings.apply import Applied, Applier, Peers, Persist
from supervisor.settings.errors import ApplyRefused, InvalidSettings, VersionConflict
from supervisor.settings.render import Rendered

__all__ = ["Author", "Operations", "Store", "body_as", "children", "peers"]

M = TypeVar("M", bound=BaseModel)

# one in backoff starts with what root has by then; one that is starting may have been given the old settings
_ALIVE = ("ready", "starting")


class Author(BaseModel):
    """Who changed the settings and why: for the audit."""

    model_config = ConfigDict(frozen=True)

    uid: int
    note: str = ""


class SettingsPatch(BaseModel):
    """The body of PATCH /v1/settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    overrides: dict[str, Any]
    dry_run: bool = False
    note: str = ""


class Store(Protocol):
    """Where the application keeps versions and their audit, in one durable transaction."""

    async def save(self, rendered: Rendered, overrides: dict[str, Any], author: Author) -> None: ...

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        """The newest version and its overrides; None when nothing was ever changed or it cannot be read now."""


Extra = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def children(endpoint: Endpoint) -> dict[str, Any]:
    """Ask root for its children. Raises a BusError."""
    answer: dict[str, Any] = json.loads(await endpoint.ask("root", "Children", timeout_s=2.0))
    return answer


async def peers(endpoint: Endpoint) -> Peers:
    """List the processes that use settings. Raises a BusError."""
    listed = (await children(endpoint))["children"]
    ready = tuple(child["id"] for child in listed if child["state"] == "ready")
    return Peers(ready, tuple(child["id"] for child in listed if child["state"] in _ALIVE))


async def body_as(request: Request, model: type[M]) -> M:
    """Parse a request's JSON body. Raises a Problem that names every bad field."""
    try:
        return model.model_validate_json(await request.body() or b"{}")
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}" for item in error.errors()]
        raise Problem(400, "invalid", "; ".join(problems), problems) from None


class Operations:
    """The routes of the process operations."""

    def __init__(self, endpoint: Endpoint, applier: Applier, store: Store, extra: Extra) -> None:
        self._endpoint = endpoint
        self._applier = applier
        self._store = store
        self._extra = extra

    def routes(self) -> list[Route]:
        return [
            Route("/v1/status", self.status, methods=["GET"]),
            Route("/v1/settings", self.settings, methods=["GET"]),
            Route("/v1/settings", self.patch, methods=["PATCH"]),
        ]

    async def status(self, _request: Request) -> JSONResponse:
        try:
            own = await children(self._endpoint)
        except BusError as error:
            own = {"children": [], "root": f"does not answer: {error}"}
        return JSONResponse({**own, "settings_version": self._applier.current.version, **await self._extra(own)})

    async def settings(self, _request: Request) -> JSONResponse:
        current = self._applier.current
        return JSONResponse(current.model_dump(), headers={"ETag": f'"{current.version}"'})

    async def patch(self, request: Request) -> JSONResponse:
        patch = await body_as(request, SettingsPatch)
        expected = _if_match(request)
        author = Author(uid=peer_of(request.scope).uid, note=patch.note)
        if patch.dry_run:
            return _answer(self._preview(patch.overrides), applied=False)
        return _answer(await self.change(patch.overrides, author, expected), applied=True)

    def _preview(self, overrides: dict[str, Any]) -> Applied:
        try:
            return self._applier.preview(overrides)
        except InvalidSettings as error:
            raise Problem(400, "invalid", str(error), error.problems) from None

    async def catch_up(self) -> None:
        """Take over what was persisted when its spreading was cut short, by a crash or a lost answer."""
        latest = self._store.latest()
        if latest is not None:
            await self._applier.adopt(*latest)

    async def change(self, overrides: dict[str, Any], author: Author, expected: int | None = None) -> Applied:
        """Change settings in all processes or in none. Raises a Problem."""
        await self.catch_up()
        return await _or_problem(self._applier.apply(overrides, self._persist(author), expected=expected))

    async def reload(self, file: dict[str, Any], environment: dict[str, Any], author: Author) -> Applied:
        """Use these layers in all processes or in none. Raises a Problem."""
        await self.catch_up()
        return await _or_problem(self._applier.reload(file, environment, self._persist(author)))

    def _persist(self, author: Author) -> Persist:
        async def persist(rendered: Rendered, runtime: dict[str, Any]) -> None:
            await self._store.save(rendered, runtime, author)

        return persist


async def _or_problem(applying: Awaitable[Applied]) -> Applied:
    try:
        return await applying
    except InvalidSettings as error:
        raise Problem(400, "invalid", str(error), error.problems) from None
    except VersionConflict as error:
        raise Problem(412, "conflict", str(error)) from None
    except ApplyRefused as error:
        raise Problem(503, "refused", str(error)) from None
    except RemoteError as error:
        status = 412 if error.code == "conflict" else 503
        raise Problem(status, error.code, f"nothing was changed: {error.detail or error.code}") from None
    except BusError as error:
        raise Problem(503, "unavailable", f"not changed: {error or type(error).__name__}") from None


def _if_match(request: Request) -> int | None:
    text = request.headers.get("if-match", "*").strip()
    if text == "*":
        return None
    try:
        return int(text.removeprefix("W/").strip('"'))
    except ValueError:
        raise Problem(400, "invalid", f"If-Match = {text} must be a version, such as 3") from None


def _answer(result: Applied, *, applied: bool) -> JSONResponse:
    changes = [change.model_dump() for change in result.changes]
    body = {"version": result.rendered.version, "applied": applied, "changes": changes}
    return JSONResponse(body, headers={"ETag": f'"{result.rendered.version}"'})
