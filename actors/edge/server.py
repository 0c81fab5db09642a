"""uvicorn on sockets that root bound, ended by an event instead of by signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from actors.edge.connection import BoundedProtocol

__all__ = ["serve"]

GRACE_S = 1  # a clean stop of the daemon takes less than two seconds
LAST_REQUESTS_S = 0.1


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_started: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections; one that was just taken may still send its request, instead of being reset."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_REQUESTS_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals belong to the child's runtime


async def serve(
    app: Any,
    sockets: list[socket.socket],
    stopping: asyncio.Event,
    on_started: Callable[[], Awaitable[None]],
    **options: Any,
) -> None:
    """Serve ``app`` on ``sockets`` until ``stopping`` is set; call ``on_started`` once connections are accepted."""
    config = uvicorn.Config(
        app,
        http=options.pop("http", BoundedProtocol),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=75,
        backlog=2048,
        log_level="warning",  # the daemon says itself where it serves
        **options,
    )
    server = _Server(config, on_started)
    ending = asyncio.create_task(_end(server, stopping))
    try:
        await server.serve(sockets=sockets)
    finally:
        ending.cancel()


async def _end(server: uvicorn.Server, stopping: asyncio.Event) -> None:
    await stopping.wait()
    server.should_exit = True
