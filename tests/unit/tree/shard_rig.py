"""A real keeper and real shards on a real bus, in one process; edge, notifier and root only take notes."""

import asyncio
import contextlib
import functools
import json
import time
from pathlib import Path

from actors.knobs import Knobs
from actors.messages import ProgressEvent
from actors.store import keeper
from actors.store.reader import Reader
from actors.tree import shard
from actors.tree.requests import Adopt, Batch, Described, Ingest, Ingested, Outcome, Release, Released, shard_of
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import PeerUnavailable
from supervisor.bus.refs import Ref
from supervisor.child import BUS_DIRECTORY, Child, RenderedSettings
from tests.unit.tree.streams import SPECIFICATION


class Rig:
    """``now`` is the wall clock of the shards; ``raised`` and ``rows`` are what notifier and edge heard."""

    def __init__(self, directory: Path, shards: int = 1, knobs: Knobs | None = None) -> None:
        self.directory, self.shards = directory, shards
        self.values = (knobs or Knobs(progress=SPECIFICATION)).model_dump(mode="json")
        self.raised: list[dict] = []
        self.rows: list[dict] = []
        self.notifier_up = True
        self.ahead_s = 0.0
        self.running: dict[str, tuple[Child, asyncio.Task]] = {}
        (directory / BUS_DIRECTORY).mkdir(exist_ok=True)
        self.endpoint = Endpoint("test", directory / BUS_DIRECTORY)
        self.others: list[Endpoint] = []

    @property
    def reader(self) -> Reader:
        return Reader(self.directory / "treewarden.db")

    async def start(self) -> None:
        ready = {"Ready": self._null}
        heard = {"Raise": self._raised}
        told = {"TreeRow": self._row}
        for name, handlers in (("root", ready), ("notifier", heard), ("edge", told)):
            other = Endpoint(name, self.directory / BUS_DIRECTORY)
            for kind, handler in handlers.items():
                other.on(kind, handler)
            await other.start()
            self.others.append(other)
        await self.begin("keeper", keeper.main)
        for n in range(self.shards):
            await self.begin_shard(f"forest-{n}")

    def now(self) -> float:
        return time.time() + self.ahead_s

    async def begin_shard(self, name: str = "forest-0") -> None:
        await self.begin(name, functools.partial(shard.main, now=self.now))

    async def begin(self, name: str, main) -> None:
        endpoint = Endpoint(name, self.directory / BUS_DIRECTORY)
        await endpoint.start(opened=False)
        settings = RenderedSettings(1, self.values, {})
        child = Child(name, endpoint, self.directory, self.directory, {"shards": self.shards}, {}, settings)
        self.running[name] = (child, asyncio.create_task(main(child)))

    async def end(self, name: str, *, kill: bool = False) -> None:
        child, task = self.running.pop(name)
        if kill:
            task.cancel()
        child.stopping.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await child.endpoint.stop()

    async def stop(self) -> None:
        for name in reversed(list(self.running)):
            await self.end(name)
        for other in [*self.others, self.endpoint]:
            await other.stop()

    def ref(self, tree: str) -> Ref:
        return Ref(self.endpoint, shard_of(tree, self.shards))

    async def ingest(self, tree: str, events: list[ProgressEvent]) -> Outcome:
        """Ask once more when the old connection turns out to be dead, as the edge does."""
        request = Ingest(batches=[Batch(tree=tree, events=events)])
        try:
            answer = await self.ref(tree).ask(request, Ingested)
        except PeerUnavailable:
            answer = await self.ref(tree).ask(request, Ingested)
        return answer.outcomes[0]

    async def adopt(self, tree: str, other: str, parent: str) -> Outcome:
        await self.ref(other).ask(Release(tree=other), Released)
        return await self.ref(tree).ask(Adopt(tree=tree, other=other, parent=parent), Outcome)

    async def describe(self, tree: str) -> dict:
        answer = await self.endpoint.ask(shard_of(tree, self.shards), "Describe", json.dumps({"tree": tree}).encode())
        return Described.model_validate_json(answer).view

    async def _null(self, _body: bytes) -> bytes:
        return b"null"

    async def _raised(self, body: bytes) -> bytes:
        if not self.notifier_up:
            raise ConnectionError("not now")
        self.raised.append(json.loads(body))
        return b"{}"

    async def _row(self, body: bytes) -> None:
        self.rows.append(json.loads(body))


@contextlib.asynccontextmanager
async def rig(directory: Path, **options):
    """Start a rig, stop it at the end."""
    made = Rig(directory, **options)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def until(condition, *, tries: int = 400):
    """Wait for ``condition`` to hold, giving the loop 10 ms between looks; fail when it never does."""
    for _ in range(tries):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition never held")


def reads(count: int, *, session: str = "c1", start: int = 0, **fields) -> list[ProgressEvent]:
    """The same read again and again: stalls after stall_turns calls, loops after loop_turns."""
    same = {"tool": "read", "fingerprint": "f", "slice": "s", "target": "a.py", "exit": 0, "result": "r"} | fields
    return [
        ProgressEvent(id=f"{session}-{n}", t=1000.0 + n, session_id=session, **same)
        for n in range(start, start + count)
    ]
