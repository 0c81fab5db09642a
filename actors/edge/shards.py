"""The edge's view of the bus: asks to the forest's shards and to the keeper. No policy: errors are the caller's."""

from __future__ import annotations

from collections.abc import Sequence

from actors.edge.delivery import Chunk
from actors.store.requests import Commit, Committed, Write
from actors.tree.requests import (
    Adopt,
    Describe,
    Described,
    Ingested,
    Outcome,
    Release,
    Released,
    shard_of,
)
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.refs import Ref

__all__ = ["KEEPER", "Shards"]

KEEPER = "keeper"


class Shards:
    """Addresses of the ``count`` shards. Every method may raise a BusError."""

    def __init__(self, endpoint: Endpoint, count: int, *, ask_timeout_s: float = 5.0) -> None:
        self._endpoint = endpoint
        self._count = count
        self._timeout_s = ask_timeout_s

    def name_of(self, tree: str) -> str:
        """Return the shard that owns ``tree``."""
        return shard_of(tree, self._count)

    async def ingest(self, shard: str, chunks: Sequence[Chunk]) -> dict[str, Outcome]:
        """Ask ``shard`` to take the next part of each chunk; the trees are all different."""
        body = b'{"batches":[%b]}' % b",".join(chunk.batch() for chunk in chunks)
        answer = await self._endpoint.ask(shard, "Ingest", body, timeout_s=self._timeout_s)
        return {outcome.tree: outcome for outcome in Ingested.model_validate_json(answer).outcomes}

    async def describe(self, tree: str) -> Described:
        """Ask the owner of ``tree`` for its view."""
        return await self._ref(tree).ask(Describe(tree=tree), Described, timeout_s=self._timeout_s)

    async def release(self, tree: str) -> None:
        """Ask the owner of ``tree`` to let go of it."""
        await self._ref(tree).ask(Release(tree=tree), Released, timeout_s=self._timeout_s)

    async def adopt(self, tree: str, other: str, parent: str) -> Outcome:
        """Ask the owner of ``tree`` to adopt ``other`` under ``parent``."""
        message = Adopt(tree=tree, other=other, parent=parent)
        return await self._ref(tree).ask(message, Outcome, timeout_s=self._timeout_s)

    async def write(self, op: str, row: dict[str, object]) -> None:
        """Ask the keeper for one write."""
        commit = Commit(writes=[Write(op=op, row=row)])
        await Ref(self._endpoint, KEEPER).ask(commit, Committed, timeout_s=self._timeout_s)

    def _ref(self, tree: str) -> Ref:
        return Ref(self._endpoint, self.name_of(tree))
