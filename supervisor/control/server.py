"""Serve HTTP over a listening Unix socket that somebody else bound, until told to stop.

Runs on the calling loop and installs no signal handlers. Requests under way get ``DRAIN_S`` to finish. The socket's
file stays: whoever bound it removes it, so a restart of this process refuses no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from supervisor.control.guard import Guard
from supervisor.control.peer import PeerProtocol
from supervisor.control.problem import Problem, answer_problem

__all__ = ["application", "serve"]

DRAIN_S = 1
LAST_REQUESTS_S = 0.1


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections; one that was just taken may still send its request, instead of being reset."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_REQUESTS_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the child's runtime."""
        yield


def application(
    routes: Sequence[BaseRoute],
    *,
    uids: frozenset[int] | None = None,
    exception_handlers: Mapping[Any, Any] | None = None,
) -> ASGIApp:
    """Build the guarded app. ``uids`` default to our own user and root; handlers are Starlette's."""
    handlers = {Problem: answer_problem, **(exception_handlers or {})}
    app = Starlette(routes=list(routes), exception_handlers=handlers)
    return Guard(app, uids if uids is not None else frozenset({os.getuid(), 0}))


async def serve(app: ASGIApp, listener: socket.socket, stopping: asyncio.Event) -> None:
    """Serve ``app`` on ``listener`` until ``stopping`` is set."""
    config = uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopped.cancel()
