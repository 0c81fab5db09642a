"""The way of events from a request to the shards: retries, order, late parents, quarantine, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from actors.edge.auth import Scope
from actors.store.reader import Reader
from tests.unit.edge.world import World, run, world


def in_world(test: Callable[[World, httpx.AsyncClient], Awaitable[None]], **ingest: Any) -> None:
    async def whole() -> None:
        async with world(**ingest) as made, made.client() as client:
            await test(made, client)

    run(whole)


def event(tree: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": tree, "id": name, **fields}


async def post(client: httpx.AsyncClient, *events: dict[str, Any]) -> httpx.Response:
    return await client.post("/v1/progress", json=list(events))


def started(client: httpx.AsyncClient, *events: dict[str, Any]) -> asyncio.Task[httpx.Response]:
    return asyncio.ensure_future(post(client, *events))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again; the world's own timeout ends it."""
    while not await condition():
        await asyncio.sleep(0)


async def waiting_events(client: httpx.AsyncClient) -> float:
    text = (await client.get("/metrics")).text
    line = next(line for line in text.splitlines() if line.startswith("treewarden_waiting_events{"))
    return float(line.rpartition(" ")[2])


def counts(answer: httpx.Response) -> tuple[int, ...]:
    body = answer.json()
    return tuple(body[name] for name in ("accepted", "duplicates", "quarantined", "rejected"))


def test_shard_away_and_back_events_wait_and_are_stored_once() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        await forest.stop()
        sending = started(client, event("t", "e1"), event("t", "e2"))
        await until(lambda: is_waiting(client, 2))
        await forest.start()
        answer = await sending
        assert (answer.status_code, counts(answer)) == (202, (2, 0, 0, 0))
        assert forest.events["t"] == ["t/e1", "t/e2"]

    in_world(test)


async def is_waiting(client: httpx.AsyncClient, number: int) -> bool:
    return await waiting_events(client) == number


def test_shard_dies_before_it_commits_ask_is_repeated() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.open.clear()
        sending = started(client, event("t", "e1"))
        await forest.arrived.acquire()
        await forest.stop()
        forest.open.set()
        await forest.start()
        assert counts(await sending) == (1, 0, 0, 0)
        assert forest.events["t"] == ["t/e1"]

    in_world(test)


def test_answer_lost_after_commit_repeat_is_no_duplicate_of_the_sensor() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.loses_answer = True
        answer = await post(client, {"session_id": "t", "tool": "a"}, {"session_id": "t", "tool": "a"})
        assert counts(answer) == (2, 0, 0, 0)
        assert len(forest.events["t"]) == 2
        assert len([entry for entry in forest.log if entry[0] == "ingest"]) == 2

    in_world(test)


def test_deadline_over_names_the_state_of_every_item() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        here, away = trees_of_two_shards(made)
        hung = made.forest_of(away)
        hung.open.clear()
        answer = await post(client, event(here, "e1"), event(away, "e2"), {}, event(away, "e3"))
        body = answer.json()
        assert (answer.status_code, body["error"]["code"]) == (503, "deadline")
        assert answer.headers["retry-after"] == "1"
        assert (counts(answer), body["failed"]) == ((1, 0, 0, 1), 2)
        states = {item["index"]: item["state"] for item in body["items"]}
        assert states == {0: "stored", 1: "unknown", 2: "rejected", 3: "unknown"}
        hung.open.set()

    in_world(test, commit_deadline_s=1)


def test_deadline_over_while_queued_is_surely_not_stored() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.open.clear()
        first = started(client, event("t", "e1"))
        await forest.arrived.acquire()
        second = await post(client, event("t", "e2"))
        assert second.json()["items"] == [{"index": 0, "state": "failed"}]
        await first
        forest.open.set()
        answer = await post(client, event("t", "e3"))
        assert (answer.status_code, forest.events["t"]) == (202, ["t/e1", "t/e3"])

    in_world(test, commit_deadline_s=1)


def trees_of_two_shards(made: World) -> tuple[str, str]:
    names = [f"t{n}" for n in range(20)]
    first = names[0]
    return first, next(name for name in names if made.forest_of(name) is not made.forest_of(first))


@pytest.mark.parametrize("whole", [True, False])
def test_storage_fault_is_503_at_once(whole: bool) -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        if whole:
            forest.refusal = ("storage", "disk full")
        else:
            forest.script.append("storage")
        answer = await post(client, event("t", "e1"))
        body = answer.json()
        assert (answer.status_code, body["error"]["code"], body["failed"]) == (503, "storage", 1)
        assert body["items"] == [{"index": 0, "state": "failed"}]

    in_world(test)


def test_shard_busy_is_asked_again() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.script.extend(["busy", "moved", "busy"])
        assert counts(await post(client, event("t", "e1"))) == (1, 0, 0, 0)

    in_world(test)


def test_tree_moved_events_follow_and_later_ones_go_there_directly() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        old, new = trees_of_two_shards(made)
        made.forest_of(old).moved[old] = new
        assert counts(await post(client, event(old, "e1"), event(old, "e2"))) == (2, 0, 0, 0)
        assert counts(await post(client, event(old, "e3"))) == (1, 0, 0, 0)
        assert made.forest_of(new).events[new] == [f"{old}/e{n}" for n in (1, 2, 3)]
        assert [entry[1] for entry in made.log] == [old, new, new]

    in_world(test)


def test_same_tree_keeps_order_with_one_ask_in_flight() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.open.clear()
        sending = [started(client, event("t", "e0"))]
        await forest.arrived.acquire()
        for number in range(1, 6):
            sending.append(started(client, event("t", f"e{number}")))
            await until(lambda number=number: is_waiting(client, number + 1))  # type: ignore[misc]
        assert len(forest.log) == 1
        forest.open.set()
        await asyncio.gather(*sending)
        assert [entry[2] for entry in forest.log] == [[f"e{number}"] for number in range(6)]

    in_world(test)


def test_tree_that_waits_holds_back_no_other() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        other = next(n for n in (f"o{k}" for k in range(50)) if made.forest_of(n) is forest)
        forest.open.clear()
        sending = started(client, event("t", "e1"))
        await forest.arrived.acquire()
        second = started(client, event(other, "x1"))
        await forest.arrived.acquire()
        assert [entry[1] for entry in forest.log] == ["t", other]
        forest.open.set()
        assert {(await sending).status_code, (await second).status_code} == {202}

    in_world(test)


def test_late_parent_holds_both_trees_until_the_old_one_is_adopted() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        kid, root = trees_of_two_shards(made)
        await post(client, event(root, "r1"))
        made.forest_of(kid).open.clear()
        made.log.clear()
        sending = [started(client, event(kid, "k1"))]
        await made.forest_of(kid).arrived.acquire()
        sending.append(started(client, event(root, "r2"), event(kid, "k2", parent=root), event(root, "r3")))
        await until(lambda: is_waiting(client, 3))
        sending.append(started(client, event(kid, "k3")))
        await until(lambda: is_waiting(client, 4))
        assert [entry[:2] for entry in made.log] == [("ingest", kid), ("ingest", root)]
        made.forest_of(kid).open.set()
        answers = await asyncio.gather(*sending)
        assert [counts(answer)[0] for answer in answers] == [1, 3, 1]
        assert made.log == [
            ("ingest", kid, ["k1"]),
            ("ingest", root, ["r2"]),
            ("release", kid),
            ("adopt", root, kid, root),
            ("ingest", root, ["k2", "r3"]),
            ("ingest", root, ["k3"]),
        ]

    in_world(test)


def test_late_parent_shard_away_merge_is_asked_again() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        kid, root = trees_of_two_shards(made)
        await post(client, event(kid, "k1"), event(root, "r1"))
        await made.forest_of(root).stop()
        sending = started(client, event(kid, "k2", parent=root))
        await until(lambda: is_waiting(client, 1))
        made.forest_of(root).script.append("busy")
        await made.forest_of(root).start()
        assert counts(await sending) == (1, 0, 0, 0)
        assert made.forest_of(root).events[root] == [f"{root}/r1", f"{kid}/k2"]

    in_world(test)


def test_late_parents_in_a_chain_and_crosswise_all_arrive() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        await post(client, *(event(name, "1") for name in "abcd"))
        answers = await asyncio.gather(
            post(client, event("a", "2", parent="b"), event("c", "2", parent="d")),
            post(client, event("b", "2", parent="c"), event("d", "2", parent="a")),
        )
        assert [counts(answer) for answer in answers] == [(2, 0, 0, 0)] * 2
        last = await post(client, *(event(name, "3") for name in "abcd"))
        assert counts(last) == (4, 0, 0, 0)
        assert made.log[-1][2] == ["3"] * 4
        assert [entry[0] for entry in made.log].count("adopt") == 3

    in_world(test)


@pytest.mark.parametrize("tells_index", [True, False])
def test_poison_event_is_quarantined_and_its_neighbours_are_stored(tells_index: bool) -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        forest = made.forest_of("t")
        forest.tells_index = tells_index
        forest.poison = {"e1", "e3"}
        answer = await post(client, *(event("t", f"e{number}") for number in range(5)))
        assert (answer.status_code, counts(answer)) == (202, (3, 0, 2, 0))
        assert forest.events["t"] == ["t/e0", "t/e2", "t/e4"]
        rows = Reader(made.dir / "treewarden.db").quarantined("t")
        assert [(row.event_id, row.error) for row in rows] == [("e1", "boom"), ("e3", "boom")]

    in_world(test)


@pytest.mark.parametrize("count", [1, 2])
def test_actor_crash_without_cause_in_the_event_is_retried_once_whole(count: int) -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        made.forest_of("t").script.append("crashed")
        names = [f"e{number}" for number in range(count)]
        assert counts(await post(client, *(event("t", name) for name in names))) == (count, 0, 0, 0)
        assert made.log == [("ingest", "t", names)] * 2

    in_world(test)


def test_edge_restarted_keeps_tokens_socket_and_map() -> None:
    async def fill(made: World) -> None:
        row = {"id": "kid", "tree": "root", "parent": "root", "agent": None, "created_at": 1.0}
        await made.write(("conversation.save", row))

    async def test() -> None:
        async with world(load=fill) as made:
            token = made.token(Scope.SENSOR)
            await made.stop_child("edge")
            await made.start_edge()
            assert made.token(Scope.SENSOR) == token
            async with made.client(Scope.SENSOR) as client:
                assert counts(await post(client, event("kid", "e1"))) == (1, 0, 0, 0)
            assert made.forest_of("root").events == {"root": ["kid/e1"]}

    run(test)


def test_sensors_are_written_with_their_versions_once_a_minute() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        headers = {"x-treewarden-sensor": "opencode-plugin/1.2.3"}
        for number in range(3):
            await client.post("/v1/progress", json=event("t", f"e{number}"), headers=headers)
        await post(client, event("t", "e9", source="watchdog"))

        async def seen() -> bool:
            return len((await client.get("/v1/sensors")).json()["sensors"]) == 2

        await until(seen)
        rows = (await client.get("/v1/sensors")).json()["sensors"]
        assert [(row["source"], row["version"]) for row in rows] == [("opencode-plugin", "1.2.3"), ("watchdog", "")]
        assert (await client.get("/healthz")).json()["sensors"] == rows

    in_world(test)


def test_many_requests_at_once_every_event_is_stored_once_in_order() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        async def sensor(tree: str) -> None:
            for number in range(20):
                answer = await post(client, event(tree, f"e{number}"))
                assert answer.status_code == 202

        trees = [f"t{number}" for number in range(12)]
        await asyncio.gather(*map(sensor, trees))
        for tree in trees:
            assert made.forest_of(tree).events[tree] == [f"{tree}/e{number}" for number in range(20)]

    in_world(test)
