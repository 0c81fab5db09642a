"""A control server on a real Unix socket, on either event loop, and a client for it."""

import asyncio
import contextlib
import socket

import httpx

from supervisor.control.server import serve


def listener(path):
    """A listening Unix socket, as root makes it."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.bind(str(path))
    found.listen(16)
    found.setblocking(False)
    return found


@contextlib.asynccontextmanager
async def served(app, path):
    """Serve ``app`` at ``path``; give a client."""
    stopping = asyncio.Event()
    serving = asyncio.create_task(serve(app, listener(path), stopping))
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://control", timeout=5
    ) as client:
        try:
            yield client
        finally:
            stopping.set()
            await serving
