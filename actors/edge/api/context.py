"""What the routes of the API need; the edge and the control socket each make one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from actors.edge.auth import Scope
from actors.edge.shards import Shards
from actors.knobs import Knobs
from actors.store.reader import Reader
from supervisor.bus.endpoint import Endpoint

__all__ = ["Check", "Context"]

Check = Callable[[Request, Scope | None], None]


@dataclass(frozen=True)
class Context:
    """``check`` raises APIProblem where a request may not use a route; ``metrics`` renders a scrape."""

    endpoint: Endpoint
    reader: Reader
    knobs: Callable[[], Knobs]
    shards: Shards
    check: Check
    version: str
    metrics: Callable[[], bytes] | None = None
