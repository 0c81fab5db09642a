"""The edge with real shards, real keeper and real database: what doubles cannot show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from actors.store import keeper
from actors.store.reader import Reader
from actors.tree import shard
from tests.unit.edge.world import World, run, world


def with_forest(test: Callable[[World, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with world(real=True) as made, made.client() as client:
            await test(made, client)

    run(whole)


def calls(tree: str, count: int, *, start: int = 0, **fields: Any) -> list[dict[str, Any]]:
    same = {
        "session_id": tree,
        "kind": "tool",
        "tool": "read",
        "fingerprint": "a" * 64,
        "target": "x.py",
        "cost_usd": 0.1,
    }
    return [same | {"id": f"{tree}-{n}", "t": 1000.0 + n} | fields for n in range(start, start + count)]


def test_looping_session_is_seen_in_every_view() -> None:
    async def test(_made: World, client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/progress", json=calls("stuck", 80))
        assert (answer.status_code, answer.json()["accepted"]) == (202, 80)
        again = await client.post("/v1/progress", json=calls("stuck", 80))
        assert (again.json()["accepted"], again.json()["duplicates"]) == (0, 80)
        (row,) = (await client.get("/v1/trees")).json()["trees"]
        assert (row["id"], row["verdict"], row["events"], row["top_target"]) == ("stuck", "looping", 80, "x.py")
        view = (await client.get("/v1/trees/stuck")).json()
        assert view["conversations"][0]["id"] == "stuck"
        assert view["thresholds"]["window"] == 60
        assert view["transitions"][-1]["after"] == "looping"
        (warning,) = (await client.get("/v1/warnings")).json()["warnings"]
        assert (warning["conversation"], warning["verdict"]) == ("stuck", "looping")
        admission = {"verdict": "ok"}
        while admission["verdict"] != "looping":
            admission = (await client.post("/v1/admission", json={"conversation": "stuck"})).json()
        assert admission["decision"] == "allow"
        assert 'treewarden_trees{state="looping"} 1.0' in (await client.get("/metrics")).text

    with_forest(test)


def test_late_parent_moves_the_history_into_the_tree() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        await client.post("/v1/progress", json=calls("kid", 3) + calls("root", 2))
        answer = await client.post(
            "/v1/progress", json=calls("kid", 2, start=3, parent="root") + calls("root", 1, start=2)
        )
        assert answer.json()["accepted"] == 3
        (row,) = (await client.get("/v1/trees")).json()["trees"]
        assert (row["id"], row["events"], row["conversations"]) == ("root", 8, 2)
        assert (await client.get("/v1/trees/kid")).json()["id"] == "root"
        reader = Reader(made.dir / "treewarden.db")
        stored = reader.events_after("root", 0)
        assert len({(each.conversation, each.event_id) for each in stored}) == len(stored) == 8
        repeated = await client.post("/v1/progress", json=calls("kid", 5) + calls("root", 3))
        assert repeated.json()["duplicates"] == 8

    with_forest(test)


def test_edge_restarted_after_a_merge_routes_to_the_new_tree() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        await client.post("/v1/progress", json=calls("kid", 2) + calls("root", 1))
        await client.post("/v1/progress", json=calls("kid", 1, start=2, parent="root"))
        await made.stop_child("edge")
        await made.start_edge()
        async with made.client() as later:
            assert (await later.post("/v1/progress", json=calls("kid", 1, start=3))).status_code == 202
            (row,) = (await later.get("/v1/trees")).json()["trees"]
            assert (row["id"], row["events"]) == ("root", 5)

    with_forest(test)


def test_shard_restarted_in_between_loses_nothing() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        for round_ in range(3):
            answer = await client.post("/v1/progress", json=calls("t", 5, start=5 * round_))
            assert answer.json()["accepted"] == 5
            for name in made.forests:
                await made.stop_child(name)
                await made.start_child(name, shard.main)
        assert (await client.get("/v1/trees")).json()["trees"][0]["events"] == 15

    with_forest(test)


def test_keeper_away_is_503_and_the_repeat_is_stored_once() -> None:
    async def test() -> None:
        async with world(real=True, commit_deadline_s=1) as made, made.client() as client:
            await made.stop_child("keeper")
            refused = await client.post("/v1/progress", json=calls("t", 2))
            assert refused.status_code == 503
            assert {item["state"] for item in refused.json()["items"]} <= {"failed", "unknown"}
            await made.start_child("keeper", keeper.main)
            answer = await client.post("/v1/progress", json=calls("t", 2))
            assert (answer.status_code, answer.json()["accepted"] + answer.json()["duplicates"]) == (202, 2)
            assert Reader(made.dir / "treewarden.db").event_count() == 2

    run(test)
