"""One process's place on the bus: it listens on ``directory/name.sock`` and connects to its peers on demand.

Runs on the calling event loop; never blocks it. Handlers registered with ``on`` are served as soon as the socket
listens; messages of other kinds wait until ``open`` (a process that is still starting), then unknown kinds are refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from supervisor.bus.errors import Refused
from supervisor.bus.frames import Frame, FrameError, Splitter, encode, error_body
from supervisor.bus.peer import Peer

__all__ = ["Endpoint", "Handler"]

Handler = Callable[[bytes], Awaitable[bytes | None]]

_log = logging.getLogger(__name__)
_MAX_PATH_BYTES = 107  # sun_path holds 108 bytes with its terminator


class Endpoint:
    """Answer asks and receive tells under ``name``; ask and tell peers by their names."""

    def __init__(
        self, name: str, directory: Path, *, max_pending: int = 1024, max_frame_bytes: int = 8 * 1024 * 1024
    ) -> None:
        self.name = name
        self._directory = directory
        self._max_pending = max_pending
        self._max_frame = max_frame_bytes
        self._handlers: dict[str, Handler] = {}
        self._peers: dict[str, Peer] = {}
        self._serving: set[_Serving] = set()
        self._server: asyncio.AbstractServer | None = None
        self._opened = asyncio.Event()

    def on(self, kind: str, handler: Handler) -> None:
        """Serve messages of ``kind`` with ``handler(body) -> body | None``."""
        self._handlers[kind] = handler

    async def start(self, *, opened: bool = True) -> None:
        """Listen. Raises ValueError when the socket path is longer than Unix allows."""
        path = self._path(self.name)
        _remove_stale_socket(path)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: _Serving(self, self._max_frame, self._max_pending), str(path)
        )
        if opened:
            self.open()

    def open(self) -> None:
        """Let messages of unregistered kinds be refused instead of waiting for a handler."""
        self._opened.set()

    async def stop(self) -> None:
        """Stop listening and drop every connection; open asks fail with PeerUnavailable."""
        for peer in self._peers.values():
            peer.close()
        for serving in list(self._serving):
            serving.close()
        if self._server is not None:
            self._server.close()
            self._path(self.name).unlink(missing_ok=True)

    async def ask(self, peer: str, kind: str, body: bytes = b"null", *, timeout_s: float = 5.0) -> bytes:
        """Send and wait for the answer. Raises a BusError."""
        return await self._peer(peer).ask(kind, body, timeout_s)

    async def tell(self, peer: str, kind: str, body: bytes = b"null", *, timeout_s: float = 5.0) -> None:
        """Send without an answer. Raises a BusError when it cannot be written."""
        await self._peer(peer).tell(kind, body, timeout_s)

    async def handler(self, kind: str) -> Handler:
        """Return the handler of ``kind``, waiting for it while this process starts. Raises Refused."""
        if kind not in self._handlers:
            await self._opened.wait()
        found = self._handlers.get(kind)
        if found is None:
            raise Refused("unknown_kind", kind)
        return found

    def _peer(self, name: str) -> Peer:
        if name not in self._peers:
            self._peers[name] = Peer(name, self._path(name), self._max_frame, self._max_pending)
        return self._peers[name]

    def _path(self, name: str) -> Path:
        path = self._directory / f"{name}.sock"
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise ValueError(f"socket path {path} has {len(os.fsencode(path))} bytes; allowed are {_MAX_PATH_BYTES}")
        return path


class _Serving(asyncio.Protocol):
    """The server side of one connection: starts handlers in order, answers as they finish, bounded in number."""

    def __init__(self, endpoint: Endpoint, max_frame: int, max_running: int) -> None:
        self._endpoint = endpoint
        self._splitter = Splitter(max_frame)
        self._max_running = max_running
        self._running: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._endpoint._serving.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._endpoint._serving.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._begin(frame)
        except FrameError as error:
            _log.error("bus connection to %s dropped: %s", self._endpoint.name, error)
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _begin(self, frame: Frame) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(frame))
        self._running.add(task)
        task.add_done_callback(self._end)
        if len(self._running) >= self._max_running and self._transport is not None:
            self._transport.pause_reading()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    async def _serve(self, frame: Frame) -> None:
        answer = await self._answer(frame)
        if frame.verb == "ask" and self._transport is not None:
            self._transport.write(encode(answer))

    async def _answer(self, frame: Frame) -> Frame:
        try:
            body = await (await self._endpoint.handler(frame.kind))(frame.body)
        except Refused as refusal:
            return Frame("no", frame.number, "", error_body(refusal.code, refusal.detail))
        except Exception as error:  # noqa: BLE001 - a handler's crash is the asker's answer; the connection lives on
            _log.exception("handler of %s in %s failed", frame.kind, self._endpoint.name)
            return Frame("no", frame.number, "", error_body("crashed", f"{type(error).__name__}: {error}"))
        return Frame("ok", frame.number, "", b"null" if body is None else body)


def _remove_stale_socket(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{path} is in the way and is no socket")
    path.unlink()
