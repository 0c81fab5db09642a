"""A small daemon in one event loop: real bus, real keeper and database, real edge under uvicorn, doubles of the forest.

The forest's double implements the protocol of actors/tree/requests.py over the real bus: it keeps events by id, and can
be told to wait, to crash on an event, to be elsewhere, to be away. No patches.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvloop

from actors.edge import main as edge
from actors.edge.auth import Scope, token_file
from actors.knobs import Knobs
from actors.store import keeper
from actors.store.requests import Commit, Committed, Write
from actors.tree import shard
from actors.tree.requests import (
    Adopt,
    Batch,
    Describe,
    Described,
    Failure,
    Ingest,
    Ingested,
    Outcome,
    Release,
    Released,
    TreeRow,
    shard_of,
)
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.bus.refs import Ref, handle
from supervisor.child import Child, RenderedSettings

SHARDS = 2
LOOP = uvloop.new_event_loop


class Forest:
    """One shard over the real bus. ``log`` is what it was asked, in order of arrival."""

    def __init__(self, directory: Path, name: str, log: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.log = log
        self.events: dict[str, list[str]] = {}
        self._seen: set[str] = set()
        self.poison: set[str] = set()
        self.tells_index = True
        self.moved: dict[str, str] = {}
        self.script: deque[Failure] = deque()
        self.refusal: tuple[str, str] | None = None
        self.loses_answer = False
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Semaphore(0)
        self.views: dict[str, dict[str, Any]] = {}
        self._directory = directory
        self._endpoint: Endpoint | None = None

    async def start(self) -> None:
        self._endpoint = Endpoint(self.name, self._directory)
        handle(self._endpoint, Ingest, self._ingest)
        handle(self._endpoint, Release, self._release)
        handle(self._endpoint, Adopt, self._adopt)
        handle(self._endpoint, Describe, self._describe)
        await self._endpoint.start()

    @property
    def alive(self) -> bool:
        return self._endpoint is not None

    async def stop(self) -> None:
        """Vanish as a killed process does; what was committed stays."""
        assert self._endpoint is not None
        await self._endpoint.stop()
        self._endpoint = None

    async def tell(self, row: TreeRow) -> None:
        assert self._endpoint is not None
        await Ref(self._endpoint, "edge").tell(row)

    async def _ingest(self, message: Ingest) -> Ingested:
        for batch in message.batches:
            self.log.append(("ingest", batch.tree, [event.id for event in batch.events]))
        self.arrived.release()
        asked = self._endpoint
        await self.open.wait()
        if self._endpoint is not asked or asked is None:
            raise Refused("dead", "this process was killed before it committed")
        if self.refusal is not None:
            raise Refused(*self.refusal)
        answer = Ingested(outcomes=[self._take(batch) for batch in message.batches])
        if self.loses_answer:
            self.loses_answer = False
            await self.stop()
            await self.start()
        return answer

    def _take(self, batch: Batch) -> Outcome:
        if self.script:
            return Outcome(tree=batch.tree, failed=self.script.popleft(), detail="scripted")
        if batch.tree in self.moved:
            return Outcome(tree=batch.tree, failed="moved", detail=self.moved[batch.tree])
        for index, event in enumerate(batch.events):
            if event.id in self.poison:
                told = index if self.tells_index else None
                return Outcome(tree=batch.tree, failed="crashed", detail="boom", index=told)
        stored = self.events.setdefault(batch.tree, [])
        duplicates = 0
        for event in batch.events:
            key = f"{event.session_id}/{event.id}"
            duplicates += key in self._seen
            if key not in self._seen:
                self._seen.add(key)
                stored.append(key)
        return Outcome(tree=batch.tree, accepted=len(batch.events) - duplicates, duplicates=duplicates)

    async def _release(self, message: Release) -> Released:
        self.log.append(("release", message.tree))
        return Released(tree=message.tree)

    async def _adopt(self, message: Adopt) -> Outcome:
        self.log.append(("adopt", message.tree, message.other, message.parent))
        if self.script:
            return Outcome(tree=message.tree, failed=self.script.popleft())
        return Outcome(tree=message.tree)

    async def _describe(self, message: Describe) -> Described:
        view = self.views.get(message.tree)
        return Described(found=view is not None, view=view or {})


class World:
    """Everything, started. ``dir`` is a short path: a Unix socket has 108 bytes for it."""

    def __init__(self, directory: Path, knobs: Knobs, *, real: bool = False) -> None:
        self.dir = directory
        self.real = real
        self.knobs = knobs
        self.log: list[tuple[Any, ...]] = []
        self.bus = directory / "bus"
        self.forests = {f"forest-{n}": Forest(self.bus, f"forest-{n}", self.log) for n in range(SHARDS)}
        self.url = ""
        self.listening = socket.create_server(("127.0.0.1", 0))
        self._ready: asyncio.Queue[bytes] = asyncio.Queue()
        self._running: dict[str, tuple[Child, asyncio.Task[None]]] = {}
        self.root = Endpoint("root", self.bus)

    async def start(self, *, load: Callable[[World], Awaitable[None]] | None = None) -> None:
        self.bus.mkdir()
        self.root.on("Ready", self._is_ready)
        await self.root.start()
        await self.start_child("keeper", keeper.main)
        for name, forest in self.forests.items():
            await (self.start_child(name, shard.main) if self.real else forest.start())
        if load is not None:
            await load(self)
        await self.start_edge()

    async def start_edge(self) -> None:
        await self.start_child("edge", edge.main, self.listening.dup())
        self.url = edge.url_of(*self.listening.getsockname()[:2])

    async def start_child(
        self, name: str, main: Callable[[Child], Awaitable[None]], listening: socket.socket | None = None
    ) -> None:
        settings = RenderedSettings(1, self.knobs.model_dump(mode="json"), {})
        sockets = {} if listening is None else {"http": listening}
        endpoint = Endpoint(name, self.bus)
        child = Child(name, endpoint, self.dir, self.dir, {"shards": SHARDS}, sockets, settings)
        await endpoint.start(opened=False)
        task = asyncio.ensure_future(main(child))
        self._running[name] = (child, task)
        getting = asyncio.ensure_future(self._ready.get())
        await asyncio.wait({task, getting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    async def stop_child(self, name: str) -> None:
        child, task = self._running.pop(name)
        child.stopping.set()
        await task
        await child.endpoint.stop()

    async def stop(self) -> None:
        for name in reversed(list(self._running)):
            await self.stop_child(name)
        for forest in self.forests.values():
            if forest.alive:
                await forest.stop()
        await self.root.stop()
        self.listening.close()

    def forest_of(self, tree: str) -> Forest:
        return self.forests[shard_of(tree, SHARDS)]

    def token(self, scope: Scope) -> str:
        return token_file(self.dir, scope).read_text().strip()

    def client(self, scope: Scope | None = Scope.OPERATOR, **headers: str) -> httpx.AsyncClient:
        if scope is not None:
            headers["authorization"] = f"Bearer {self.token(scope)}"
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20)

    async def write(self, *writes: tuple[str, dict[str, Any]]) -> None:
        commit = Commit(writes=[Write(op=op, row=row) for op, row in writes])
        await Ref(self.root, "keeper").ask(commit, Committed)

    async def _is_ready(self, body: bytes) -> bytes:
        self._ready.put_nowait(body)
        return b"null"


@contextlib.asynccontextmanager
async def world(
    *, load: Callable[[World], Awaitable[None]] | None = None, real: bool = False, **ingest: Any
) -> AsyncIterator[World]:
    """Run one world, with ``real`` shards or doubles; ``ingest`` sets knobs, ``load`` fills the database first."""
    directory = Path(tempfile.mkdtemp(prefix="tw-", dir="/tmp"))
    knobs = Knobs.model_validate({"ingest": ingest})
    made = World(directory, knobs, real=real)
    try:
        await made.start(load=load)
        yield made
    finally:
        await made.stop()
        shutil.rmtree(directory)


def run(test: Callable[[], Awaitable[None]], *, within_s: float | None = 30) -> None:
    """Run an async test on the loop that the daemon uses."""

    async def whole() -> None:
        async with asyncio.timeout(within_s):
            await test()

    with asyncio.Runner(loop_factory=LOOP) as runner:
        runner.run(whole())


@contextlib.contextmanager
def world_in_thread() -> Iterator[World]:
    """Run one world in a thread, for tests that are synchronous by nature; use only its ``url`` and ``token``."""
    started: list[World] = []
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def life() -> None:
        loops.append(asyncio.get_running_loop())
        try:
            async with world() as made:
                started.append(made)
                ready.set()
                await ended.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: run(life, within_s=None))
    thread.start()
    ready.wait(20)
    try:
        yield started[0]
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(20)
