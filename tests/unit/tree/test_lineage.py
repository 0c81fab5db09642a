"""Parents that are learned late inside one tree, and links that are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors.messages import Kind, ProgressEvent
from actors.tree.lineage import MAX_DEPTH
from tests.unit.tree.streams import SPECIFICATION as KNOBS
from tests.unit.tree.streams import Driver, call, told


def parents(driver: Driver) -> dict[str, str | None]:
    return {name: one.parent for name, one in driver.state.conversations.items()}


def test_first_event_from_a_child_makes_a_placeholder_root() -> None:
    driver = Driver().feed([call(1, "kid", parent_session_id="root")])

    assert parents(driver) == {"root": None, "kid": "root"}
    assert driver.of().placeholder
    assert driver.of().turns_since == 1


def test_unknown_parent_becomes_a_placeholder_below_the_root() -> None:
    driver = Driver().feed([call(0), call(1, "leaf", parent_session_id="mid")])

    assert parents(driver) == {"root": None, "leaf": "mid", "mid": "root"}
    assert [driver.of(name).turns_since for name in ("root", "mid", "leaf")] == [2, 1, 1]


def test_late_parent_counts_what_was_before() -> None:
    driver = Driver().feed([call(0), call(1, "mid"), call(2, "leaf"), call(3, "leaf")])
    driver.feed([call(4, "leaf", parent_session_id="mid")])

    assert [driver.of(name).turns_since for name in ("root", "mid", "leaf")] == [5, 4, 3]
    assert [driver.of(name).children for name in ("root", "mid", "leaf")] == [1, 1, 0]


def test_late_parent_child_that_landed_later_clears_it() -> None:
    driver = Driver().feed([call("same", "mid") for _ in range(12)])
    driver.feed([call(1, "leaf", landed=True), call(2, "leaf"), call(3, "leaf", parent_session_id="mid")])

    assert driver.of("mid").turns_since == 2
    assert [move[1].value for move in driver.moves] == ["stalling", "ok"]


@pytest.mark.parametrize(
    "claim",
    [
        call(9, "leaf", parent_session_id="leaf"),
        call(9, "mid", parent_session_id="leaf"),
        call(9, "root", parent_session_id="leaf"),
        call(9, "leaf", parent_session_id="other"),
    ],
    ids=["itself", "its child", "root below its child", "second parent"],
)
def test_link_that_would_be_a_cycle_or_a_change_is_ignored_and_counted(claim: ProgressEvent) -> None:
    driver = Driver().feed([call(0), call(1, "mid")])
    driver.feed([call(2, "leaf", parent_session_id="mid"), call(3, "other"), claim])

    assert parents(driver) == {"root": None, "mid": "root", "leaf": "mid", "other": "root"}
    assert driver.state.ignored_links == 1


def test_chain_beyond_the_bound_hangs_below_the_root() -> None:
    names = ["root", *(f"n{index}" for index in range(MAX_DEPTH + 5))]
    links = [told(Kind.TURN, kid, parent_session_id=up) for up, kid in pairwise(names)]
    driver = Driver().feed([call(0), *links])

    assert max(len(list(driver.state.lineage(one))) for one in driver.state.conversations.values()) <= MAX_DEPTH + 1
    assert driver.state.ignored_links == 1
    assert driver.of().turns_since == len(names)


def test_agent_name_is_the_latest() -> None:
    assert Driver(knobs=KNOBS).feed([call(1, agent="plan"), call(2), call(3, agent="build")]).of().agent == "build"
