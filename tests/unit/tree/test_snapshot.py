"""Snapshots: what is loaded behaves like what was dumped."""

from __future__ import annotations

import json

import pytest

from actors.messages import Command, Kind, Mode
from actors.tree.snapshot import SnapshotFormat, dump, load
from tests.unit.tree.streams import Driver, call, digest, told


def test_load_of_dump_is_the_same_text() -> None:
    driver = Driver().feed([call("same", exit=1, cost_usd=0.1) for _ in range(70)])
    driver.feed([call(1, "kid", parent_session_id="mid", landed=True, state=digest(1)), told(Kind.OPEN, "kid")])
    driver.feed([told(Kind.TURN, request_id="q", cost_usd=0.3, round="r"), told(Kind.CLOSE, "mid")])
    driver.feed([Command(t=1, action="mode", value=Mode.AUTO_RECOVER)])
    text = dump(driver.state)

    assert dump(load(text)) == text
    assert load(text).mode is Mode.AUTO_RECOVER


def test_dump_of_an_empty_tree_loads() -> None:
    text = dump(Driver().state)

    assert dump(load(text)) == text


def test_load_of_another_format_is_refused() -> None:
    body = json.loads(dump(Driver().state)) | {"format": 99}

    with pytest.raises(SnapshotFormat, match="snapshot format 99, allowed: 1"):
        load(json.dumps(body))


def test_dump_holds_no_digest_of_what_was_done() -> None:
    text = dump(Driver().feed([call("x", state=digest("s"), landed=True)]).state)

    assert digest("call", "x") not in text
    assert digest("s") not in text
