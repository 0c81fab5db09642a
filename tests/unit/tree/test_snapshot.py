"""Snapshots: what is loaded behaves like what was dumped."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from actors.messages import Command, Kind, Mode
from actors.tree.snapshot import SnapshotFormat, dump, load
from tests.unit.tree.streams import Driver, call, digest, told

# kept as objects of their own, derived from the conversations, or not saved
NOT_PLAIN = {
    "id",
    "window",
    "repeats",
    "failures",
    "target_failures",
    "trail",
    "conversations",
    "stalling",
    "looping",
} | {
    "verdict",
    "reason",
    "alerted",
    "mode",
    "judged_by",
    "limits",
}


def test_load_of_dump_is_the_same_text() -> None:
    driver = Driver().feed([call("same", exit=1, cost_usd=0.1) for _ in range(70)])
    driver.feed([call(1, "kid", parent_session_id="mid", landed=True, state=digest(1)), told(Kind.OPEN, "kid")])
    driver.feed([told(Kind.TURN, request_id="q", cost_usd=0.3, round="r"), told(Kind.CLOSE, "mid")])
    driver.feed([Command(t=1, action="mode", value=Mode.AUTO_RECOVER)])
    text = dump(driver.state)

    assert dump(load(text)) == text
    assert load(text).mode is Mode.AUTO_RECOVER


def test_load_restores_every_field() -> None:
    state = Driver().feed([call("same", exit=1)]).state
    one = state.conversations["root"]
    marks: dict[type, Any] = {int: 3, bool: True, float: 2.5, str: "x", type(None): 7}
    for thing in (one, state):
        for field in fields(thing):
            value = getattr(thing, field.name)
            if field.name not in NOT_PLAIN:
                setattr(thing, field.name, (not value) if type(value) is bool else marks.get(type(value), value))
    again = load(dump(state))

    for before, after in ((one, again.conversations["root"]), (state, again)):
        for field in fields(before):
            if field.name not in NOT_PLAIN:
                assert getattr(after, field.name) == getattr(before, field.name), field.name
    for name in ("repeats", "failures", "target_failures"):
        assert getattr(again.conversations["root"], name).counts == getattr(one, name).counts != {}


def test_load_restores_the_trail() -> None:
    driver = Driver().feed([call("e", landed=True), call("e", landed=True), told(Kind.COMPACTION), told(Kind.INJECTED)])
    driver.feed([*(call(index % 3, exit=1) for index in range(20)), call(9, error="provider"), told(Kind.DONE)])
    driver.feed([told(Kind.ASSISTANT, said=digest("a"), said_sim="ff"), call("new"), call("new"), call("new")])
    trail = driver.of().trail
    unset = {name for name in trail.__slots__ if not getattr(trail, name)}
    again = load(dump(driver.state)).conversations["root"].trail

    assert again.saved() == trail.saved()
    assert unset <= {"matches", "cycle_rounds", "idle_edits", "waits", "storm", "text_run"}


def test_load_of_a_trail_of_another_version_keeps_what_both_know() -> None:
    body = json.loads(dump(Driver().feed([call("same")] * 5).state))
    trail = body["conversations"][0]["trail"]
    del trail["pace"]
    trail["forgotten_counter"] = 7

    assert load(json.dumps(body)).conversations["root"].trail.run == 5


def test_load_of_the_format_before_the_trail_starts_an_empty_one() -> None:
    body = json.loads(dump(Driver().feed([call("same", exit=1)] * 5).state)) | {"format": 1}
    for one in body["conversations"]:
        for name in ("trail", "open_calls", "ends_turns", "busy"):
            del one[name]
        one["window"][3] = [each[:-1] for each in one["window"][3]]
    loaded = load(json.dumps(body)).conversations["root"]

    assert (loaded.trail.run, loaded.repeats.top, loaded.window.since) == (0, 5, 5)


def test_dump_of_an_empty_tree_loads() -> None:
    text = dump(Driver().state)

    assert dump(load(text)) == text


def test_load_of_another_format_is_refused() -> None:
    body = json.loads(dump(Driver().state)) | {"format": 99}

    with pytest.raises(SnapshotFormat, match="snapshot format 99, allowed: 1, 2"):
        load(json.dumps(body))


def test_dump_holds_no_digest_of_what_was_done() -> None:
    text = dump(Driver().feed([call("x", state=digest("s"), landed=True)]).state)

    assert digest("call", "x") not in text
    assert digest("s") not in text
