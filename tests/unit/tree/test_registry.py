"""The active trees of a shard: idle ones leave memory with their snapshot, and come back with the next event."""

import asyncio
import contextlib

import uvloop

from actors.knobs import Knobs
from actors.store.requests import Committed
from actors.tree.actor import Actions
from actors.tree.mailbox import Apply
from actors.tree.registry import Registry
from actors.tree.shelf import Shelf
from supervisor.bus.refs import Ref
from tests.unit.tree.shard_rig import Rig, reads


@contextlib.asynccontextmanager
async def registry(directory, clock):
    """Give a registry over a real keeper, and what it is read from."""
    r = Rig(directory, shards=0)
    await r.start()
    keeper = Ref(r.endpoint, "keeper")

    async def commit(request):
        return await keeper.ask(request, Committed)

    def gone(tree):
        made.forget(tree)

    knobs = Knobs().progress
    shelf = Shelf(r.reader, lambda: knobs, lambda: clock[0])
    made = Registry(shelf, Actions(commit, lambda row: None, lambda *_: None, gone))
    try:
        yield made, r.reader
    finally:
        await r.stop()


def healthy(count, start=0):
    """Reads of one file after the other: nothing to say about them, so no snapshot either."""
    return [
        event.model_copy(
            update={"fingerprint": f"f{event.id}", "slice": event.id, "target": event.id, "result": event.id}
        )
        for event in reads(count, start=start)
    ]


def run(coroutine):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(coroutine, 30))


def test_idle_tree_leaves_memory_with_its_snapshot_and_the_next_event_goes_on(tmp_path):
    async def case():
        clock = [100.0]
        async with registry(tmp_path, clock) as (trees, reader):
            await trees.perform("c1", Apply(healthy(3)))
            await trees.perform("c1", Apply(healthy(4, start=3)))
            assert reader.tree("c1").snapshot_seq < 7
            await trees.passivate(before=101.0)
            assert len(trees) == 0
            assert reader.tree("c1").snapshot_seq == 7
            assert reader.tree("c1").next_wakeup is not None
            back = await trees.perform("c1", Apply(healthy(9)))
            assert (back.accepted, back.duplicates) == (2, 7)
            assert reader.tree("c1").seq == 9

    run(case())


def test_tree_that_received_something_since_stays_in_memory(tmp_path):
    async def case():
        clock = [100.0]
        async with registry(tmp_path, clock) as (trees, _):
            await trees.perform("old", Apply(reads(1, session="old")))
            clock[0] = 200.0
            await trees.perform("new", Apply(reads(1, session="new")))
            await trees.passivate(before=150.0)
            assert len(trees) == 1
            clock[0] = 300.0
            await trees.passivate(before=150.0)
            assert len(trees) == 1

    run(case())
