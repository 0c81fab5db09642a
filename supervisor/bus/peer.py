"""The client side of the bus: one connection to one peer, made on demand and made again after it breaks."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar, cast

from supervisor.bus.errors import AskTimeout, BusError, PeerUnavailable, QueueFull, RemoteError
from supervisor.bus.frames import Frame, FrameError, Splitter, encode

__all__ = ["Peer"]

T = TypeVar("T")


class Peer:
    """Writes in the order of the calls; at most ``max_pending`` asks are open at a time."""

    def __init__(self, name: str, path: Path, max_frame: int, max_pending: int) -> None:
        self._name = name
        self._path = path
        self._max_frame = max_frame
        self._numbers = itertools.count(1)
        self._order = asyncio.Lock()  # fair: writers keep their order while one waits for the connection
        self._room = asyncio.Semaphore(max_pending)
        self._line: _Line | None = None

    async def ask(self, kind: str, body: bytes, timeout_s: float) -> bytes:
        deadline = asyncio.get_running_loop().time() + timeout_s
        await self._within(self._room.acquire(), deadline, QueueFull)
        try:
            answer = await self._write("ask", kind, body, deadline)
            assert answer is not None
            return await self._within(answer, deadline, AskTimeout)
        finally:
            self._room.release()

    async def tell(self, kind: str, body: bytes, timeout_s: float) -> None:
        await self._write("tell", kind, body, asyncio.get_running_loop().time() + timeout_s)

    def close(self) -> None:
        if self._line is not None:
            self._line.abort()

    async def _write(self, verb: str, kind: str, body: bytes, deadline: float) -> asyncio.Future[bytes] | None:
        if len(body) + len(kind) + 64 > self._max_frame:
            raise QueueFull(f"message {kind} of {len(body)} bytes; allowed are {self._max_frame}")
        await self._within(self._order.acquire(), deadline, QueueFull)
        try:
            line = await self._connected(deadline)
            await self._within(line.writable.wait(), deadline, QueueFull)
            return line.send(Frame(verb, next(self._numbers), kind, body))
        finally:
            self._order.release()

    async def _connected(self, deadline: float) -> _Line:
        if self._line is None or self._line.lost:
            loop = asyncio.get_running_loop()
            connecting = loop.create_unix_connection(lambda: _Line(self._name, self._max_frame), str(self._path))
            try:
                _, line = await self._within(connecting, deadline, PeerUnavailable)
            except OSError as error:
                raise PeerUnavailable(f"{self._name}: {error.strerror or error}") from None
            self._line = line
        return self._line

    async def _within(self, waiting: Awaitable[T], deadline: float, error: type[BusError]) -> T:
        try:
            async with asyncio.timeout_at(deadline):
                return await waiting
        except TimeoutError:
            raise error(f"{self._name}: no success within the timeout") from None


class _Line(asyncio.Protocol):
    """One live connection with its open asks."""

    def __init__(self, name: str, max_frame: int) -> None:
        self._name = name
        self._splitter = Splitter(max_frame)
        self._open: dict[int, asyncio.Future[bytes]] = {}
        self._transport: asyncio.Transport | None = None
        self.writable = asyncio.Event()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def send(self, frame: Frame) -> asyncio.Future[bytes] | None:
        if self.lost or self._transport is None:
            raise PeerUnavailable(f"{self._name}: connection lost")
        answer = None
        if frame.verb == "ask":
            answer = asyncio.get_running_loop().create_future()
            self._open[frame.number] = answer
            answer.add_done_callback(lambda _: self._open.pop(frame.number, None))
        self._transport.write(encode(frame))
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._settle(frame)
        except FrameError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.writable.set()  # a waiting writer finds the line lost and says so
        for answer in list(self._open.values()):
            if not answer.done():
                answer.set_exception(PeerUnavailable(f"{self._name}: connection lost before the answer"))

    def _settle(self, frame: Frame) -> None:
        answer = self._open.get(frame.number)
        if answer is None or answer.done():
            return  # answered after its asker gave up
        if frame.verb == "ok":
            answer.set_result(frame.body)
        else:
            refusal = json.loads(frame.body)
            answer.set_exception(RemoteError(refusal["code"], refusal["detail"]))
