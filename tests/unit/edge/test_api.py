"""The read API on a filled database."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.unit.edge.world import World, run, world

EVIDENCE = {"turns_since_landed": 30, "usd_since_landed": 1.5, "top_target": "a.py"}


def tree(name: str, verdict: str = "ok", **fields: Any) -> tuple[str, dict[str, Any]]:
    shown = {"id": name, "conversations": 2, "events": 9, "turns_since_landed": 3, "top_target": "x", "stage": None}
    row = {
        "id": name, "rev": 1, "seq": 9, "verdict": verdict, "reason": "duplicates", "status": "active", "mode": None,
        "stage": "none", "summary": json.dumps(shown), "snapshot_seq": 0, "created_at": 1.0, "last_event_at": 5.0,
        "touched_at": 5.0,
    }  # fmt: skip
    return "tree.create", row | fields


async def fill(made: World) -> None:
    transition = {
        "tree": "c", "n": 1, "seq": 4, "conversation": "kid", "t": 3.0, "before": "ok", "after": "looping",
        "reason": "duplicates", "tree_verdict": "looping", "evidence": json.dumps(EVIDENCE),
    }  # fmt: skip
    alert = {
        "key": "c",
        "severity": "critical",
        "state": "trigger",
        "title": "T",
        "summary": "S",
        "source": "x",
        "at": 4.0,
    }
    delivery = {
        "alert_log_id": 1, "key": "c", "channel": "desktop", "action": "trigger", "state": "delivered", "attempts": 1,
        "next_at": 0.0, "at": 4.5,
    }  # fmt: skip
    await made.write(
        *(tree(name) for name in ("a", "b")),
        tree("c", "looping", mode="auto_recover"),
        tree("d", "stalling"),
        tree("gone", merged_into="c"),
        *(tree(f"m{n}", merged_into=f"m{n + 1}") for n in range(25)),
        tree("m25", merged_into="c"),
        ("conversation.save", {"id": "gone", "tree": "c", "parent": "c", "agent": None, "created_at": 1.0}),
        ("conversation.save", {"id": "m0", "tree": "c", "parent": "c", "agent": None, "created_at": 1.0}),
        ("conversation.save", {"id": "kid", "tree": "c", "parent": "c", "agent": "build", "created_at": 1.0}),
        ("transition.add", transition),
        ("alert_log.add", alert),
        ("delivery.add", delivery),
        ("sensor.seen", {"source": "plugin", "version": "1.0", "seen_at": 9.0}),
    )


def filled(test: Callable[[World, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with world(load=fill) as made, made.client() as client:
            await test(made, client)

    run(whole)


def test_trees_pages_and_filters_in_the_contracts_shape() -> None:
    async def test(_made: World, client: httpx.AsyncClient) -> None:
        first = (await client.get("/v1/trees?limit=3")).json()
        assert ([row["id"] for row in first["trees"]], first["next"]) == (["a", "b", "c"], "c")
        rest = (await client.get("/v1/trees?limit=3&after=c")).json()
        assert ([row["id"] for row in rest["trees"]], rest["next"]) == (["d"], None)
        (only,) = (await client.get("/v1/trees?verdict=looping")).json()["trees"]
        assert only == {
            "id": "c", "verdict": "looping", "reason": "duplicates", "status": "active", "mode": "auto_recover",
            "stage": "none", "conversations": 2, "events": 9, "turns_since_landed": 3, "usd_since_landed": 0.0,
            "top_target": "x", "last_event_at": 5.0,
        }  # fmt: skip

    filled(test)


def test_tree_shows_the_actors_view_and_stored_transitions() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        made.forest_of("c").views["c"] = {
            "conversations": [{"id": "kid"}], "evidence": EVIDENCE, "thresholds": {"window": 60}, "stage": None,
            "verdict": "looping",
        }  # fmt: skip
        for name in ("c", "kid", "gone", "m0"):
            body = (await client.get(f"/v1/trees/{name}")).json()
            assert (body["id"], body["stage"], body["mode"]) == ("c", "none", "auto_recover")
            assert body["conversations"] == [{"id": "kid"}]
            assert body["thresholds"] == {"window": 60}
            (shown,) = body["transitions"]
            assert (shown["index"], shown["conversation"], shown["after"]) == (4, "kid", "looping")
            assert shown["evidence"]["turns_since_landed"] == 30

    filled(test)


def test_tree_of_a_shard_that_is_away_is_503() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        await made.forest_of("c").stop()
        answer = await client.get("/v1/trees/c")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert (await client.get("/v1/trees")).status_code == 200

    filled(test)


def test_warnings_come_from_the_actor_or_else_from_the_detection() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        made.forest_of("c").views["c"] = {
            "conversations": [
                {"id": "kid", "parent": "c", "agent": "build", "verdict": "looping", "reason": "failures",
                 "status": "active", "evidence": EVIDENCE | {"turns_since_landed": 44}},
                {"id": "c", "parent": None, "agent": None, "verdict": "ok", "reason": "none", "status": "idle",
                 "evidence": EVIDENCE},
                {"id": "old", "parent": "c", "agent": None, "verdict": "looping", "reason": "failures",
                 "status": "retired", "evidence": EVIDENCE},
            ]
        }  # fmt: skip
        body = (await client.get("/v1/warnings")).json()
        (warning,) = body["warnings"]
        assert warning == {
            "tree": "c", "conversation": "kid", "agent": "build", "parent": "c", "verdict": "looping",
            "reason": "failures", "since": 3.0, "turns_since_landed": 44, "usd_since_landed": 1.5, "top_target": "a.py",
        }  # fmt: skip
        await made.forest_of("c").stop()
        (warning,) = (await client.get("/v1/warnings")).json()["warnings"]
        assert (warning["turns_since_landed"], warning["agent"]) == (30, "build")

    filled(test)


def test_alerts_show_their_deliveries_and_sensors_their_versions() -> None:
    async def test(_made: World, client: httpx.AsyncClient) -> None:
        (alert,) = (await client.get("/v1/alerts")).json()["alerts"]
        assert (alert["key"], alert["severity"], alert["deliveries"][0]["state"]) == ("c", "critical", "delivered")
        assert (await client.get("/v1/alerts?key=none")).json() == {"alerts": []}
        assert (await client.get("/v1/sensors")).json() == {
            "sensors": [{"source": "plugin", "version": "1.0", "seen_at": 9.0}]
        }

    filled(test)


def test_sightings_without_clients_is_503() -> None:
    async def test(_made: World, client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/sightings")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")

    filled(test)


def test_health_without_keeper_is_503_with_the_reason() -> None:
    async def test(made: World, client: httpx.AsyncClient) -> None:
        await made.stop_child("keeper")
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (503, "degraded")
        assert "keeper does not answer" in answer.json()["reasons"][0]

    filled(test)
