"""Bounds of the lanes, chunks and the directory."""

from __future__ import annotations

import asyncio
import itertools

from actors.edge.delivery import MAX_BYTES, Chunk, cut
from actors.edge.directory import Directory
from actors.edge.ingest import Ingestion
from actors.edge.lanes import Lanes
from actors.edge.shards import Shards
from actors.messages import ProgressEvent
from actors.sensors.wire import Parsed
from actors.tree.requests import Batch, Outcome
from tests.unit.edge.world import run, world


def events(tree: str, count: int, **fields: str) -> list[ProgressEvent]:
    return [ProgressEvent(session_id=tree, id=f"{tree}{n}", t=1.0, **fields) for n in range(count)]


def request(*made: ProgressEvent) -> Parsed:
    return Parsed(items=len(made), events=list(made), indexes=list(range(len(made))))


def test_events_over_the_bound_are_refused_as_busy_and_the_rest_flows() -> None:
    async def test() -> None:
        async with world() as made:
            lanes = Lanes(Shards(made.root, 2), lambda _old, _new: None, max_events=10)
            ingestion = Ingestion(Directory(lambda _: None), lanes, lambda: 5.0)
            forest = made.forest_of("t")
            forest.open.clear()
            first = asyncio.ensure_future(ingestion.take(request(*events("t", 8))))
            await forest.arrived.acquire()
            second = await ingestion.take(request(*events("u", 3)))
            assert (second.status, second.body["error"]["code"], second.body["failed"]) == (503, "busy", 3)
            assert {item["state"] for item in second.body["items"]} == {"failed"}
            forest.open.set()
            assert (await first).status == 202
            assert (await ingestion.take(request(*events("u", 3)))).status == 202
            assert lanes.events == 0
            lanes.stop()

    run(test)


def test_stop_gives_up_what_waits() -> None:
    async def test() -> None:
        async with world() as made:
            lanes = Lanes(Shards(made.root, 2), lambda _old, _new: None)
            forest = made.forest_of("t")
            forest.open.clear()
            ingestion = Ingestion(Directory(lambda _: None), lanes, lambda: 20.0)
            taking = asyncio.ensure_future(ingestion.take(request(*events("t", 2))))
            await forest.arrived.acquire()
            lanes.stop()
            answer = await taking
            assert (answer.status, answer.body["error"]["code"]) == (503, "stopping")
            forest.open.set()

    run(test)


def test_cut_keeps_order_and_fits_a_frame() -> None:
    long = events("t", 2500, target="\u20ac" * 400)
    chunks = list(cut("t", long, list(range(2500))))
    assert list(itertools.chain.from_iterable(chunk.indexes for chunk in chunks)) == list(range(2500))
    assert all(len(chunk) <= 1000 and chunk.size_bytes <= MAX_BYTES for chunk in chunks)
    assert list(cut("t", [], [])) == []


def test_batch_reads_back_as_the_events_that_went_in() -> None:
    made = events('t"\u20ac', 3, tool="read")
    batch = Batch.model_validate_json(Chunk('t"\u20ac', list(made), [0, 1, 2]).batch())
    assert (batch.tree, batch.events) == ('t"\u20ac', made)


def test_chunk_counts_ids_of_the_edge_as_accepted_when_repeated() -> None:
    made = events("t", 4)
    chunk = Chunk("t", list(made), [0, 1, 2, 3], {"t0", "t1"})
    chunk.committed(Outcome(tree="t", accepted=1, duplicates=3))
    assert (chunk.accepted, chunk.duplicates, chunk.closed.is_set()) == (3, 1, True)


def test_chunk_given_up_keeps_its_first_reason() -> None:
    chunk = Chunk("t", events("t", 1), [0])
    chunk.give_up("storage")
    chunk.give_up("deadline")
    assert chunk.failed == "storage"


def test_directory_of_many_conversations_stays_bounded_and_asks_the_store() -> None:
    stored = {f"s{n}": f"root{n % 7}" for n in range(10_000)}
    directory = Directory(stored.get, most=100)
    for name, tree in stored.items():
        assert directory.route(ProgressEvent(session_id=name)).tree == tree
        assert len(directory) <= 100
    assert directory.tree_of("s3") == "root3"


def test_directory_merge_is_asked_once_and_survives_shrinking() -> None:
    directory = Directory(lambda _: None, most=20)
    directory.route(ProgressEvent(session_id="kid"))
    first = directory.route(ProgressEvent(session_id="kid", parent_session_id="root"))
    again = directory.route(ProgressEvent(session_id="kid", parent_session_id="root"))
    assert (first.tree, first.merge) == ("root", ("kid", "root"))
    assert (again.tree, again.merge) == ("root", None)
    for number in range(60):
        directory.route(ProgressEvent(session_id=f"x{number}"))
        assert directory.route(ProgressEvent(session_id="kid")).tree == "root"
