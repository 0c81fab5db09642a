"""Rows of replay: the contract, routing, times that are missing."""

from __future__ import annotations

from typing import Any

from actors.messages import Kind, ProgressEvent
from actors.sensors.readers.records import World
from actors.sensors.replay import replay_world, stamped
from tests.unit.tree.streams import SPECIFICATION, call, event


def rows(*events: ProgressEvent, name: str | None = "c1") -> list[dict[str, Any]]:
    return list(replay_world(World(name, "test", events), SPECIFICATION))


def test_row_has_the_fields_of_the_contract() -> None:
    row = rows(*(call("same", cost_usd=0.1) for _ in range(15)))[0]
    transition = row["transitions"][0]

    assert {key: row[key] for key in row if key != "transitions"} == {
        "conversation": "c1",
        "source": "test",
        "events": 15,
        "calls": 15,
        "verdict": "stalling",
        "worst": "stalling",
        "first_flag": {"index": 9, "calls": 10, "t": 9.0, "verdict": "stalling", "reason": "duplicates"},
        "turns": 15,
        "usd": 1.5,
        "usd_estimated": False,
        "usd_after_first_flag": 0.5,
        "calls_after_first_flag": 5,
    }
    assert (transition["index"], transition["before"], transition["after"]) == (9, "ok", "stalling")
    assert transition["evidence"]["top_repeat"] == 10


def test_row_of_a_quiet_world_has_no_flag() -> None:
    row = rows(call(1))[0]

    assert (row["first_flag"], row["transitions"], row["worst"], row["usd_after_first_flag"]) == (None, [], "ok", 0.0)


def test_row_final_verdict_is_that_after_the_last_event() -> None:
    row = rows(*(call("same") for _ in range(12)), call("fix", landed=True))[0]

    assert (row["verdict"], row["worst"], row["first_flag"]["index"]) == ("ok", "stalling", 11)


def test_named_world_without_events_has_a_row() -> None:
    assert [(one["conversation"], one["events"], one["verdict"]) for one in rows()] == [("c1", 0, "ok")]
    assert rows(name=None) == []


def test_named_world_counts_all_its_sessions() -> None:
    stuck = [call("same", "kid", parent_session_id="root") for _ in range(12)]
    row = rows(call(0), call(0, "elsewhere"), *stuck)[0]

    assert (row["events"], row["turns"], row["verdict"]) == (14, 14, "stalling")
    assert (row["first_flag"]["index"], row["transitions"][0]["conversation"]) == (13, "kid")


def test_unnamed_world_has_a_row_per_session_with_its_own_indices() -> None:
    stuck = [call("same", "kid", parent_session_id="root") for _ in range(12)]
    found = rows(call(0), *stuck, name=None)

    assert [(one["conversation"], one["events"], one["verdict"]) for one in found] == [
        ("root", 1, "ok"),
        ("kid", 12, "stalling"),
    ]
    assert found[1]["first_flag"]["index"] == 11


def test_late_parent_landing_of_the_child_ends_the_parents_verdict() -> None:
    parent = [call("same") for _ in range(12)]
    found = rows(call(1, "kid"), *parent, call(2, "kid", parent_session_id="root", landed=True), name=None)

    assert {one["conversation"]: one["verdict"] for one in found} == {"kid": "ok", "root": "ok"}


def test_repeated_delivery_is_dropped_equal_events_are_real() -> None:
    with_id = [call("same", id="e1") for _ in range(20)]

    assert rows(*with_id)[0]["events"] == 1
    assert rows(*(call("same") for _ in range(20)))[0]["events"] == 20


def test_stamped_missing_time_is_a_second_after_the_one_before() -> None:
    given = [event(), event(t=10.0), event(), event(t=5.0), event()]

    assert [one.t for one in stamped(given)] == [0.0, 10.0, 11.0, 5.0, 6.0]


def test_replay_twice_gives_the_same_rows() -> None:
    events = [call(index % 3, exit=index % 2, cost_usd=0.2) for index in range(80)]

    assert rows(*events) == rows(*events)


def test_injected_turns_and_talk_alone_make_no_flag() -> None:
    talk = [event(kind=kind) for _ in range(9) for kind in (Kind.INJECTED, Kind.ASSISTANT, Kind.REASONING)]

    assert rows(*talk)[0]["first_flag"] is None
