"""Proposals of calibration on small worlds: one threshold at a time, nothing lost, nothing guessed."""

from __future__ import annotations

from actors.knobs import Progress
from actors.sensors.calibration import Recorded, propose, thresholds
from actors.sensors.readers.records import World
from tests.unit.tree.streams import call

LOOSE = Progress()


def same(count: int) -> World:
    """The same call again and again: what repeat_run flags."""
    return World("w", "test", tuple(call("same", result="r") for _ in range(count)))


def various(count: int) -> World:
    return World("w", "test", tuple(call(index, result=str(index)) for index in range(count)))


def recorded(**worlds: World) -> list[Recorded]:
    return [Recorded(name, world, name.startswith("stuck")) for name, world in worlds.items()]


def knobs(**values: float) -> Progress:
    return Progress.model_validate({**Progress().model_dump(), **values})


def test_nothing_is_proposed_when_every_session_is_judged_as_it_was() -> None:
    proposal = propose(recorded(stuck=same(60), working=various(30)), LOOSE)

    assert proposal.changes == ()
    assert (list(proposal.before.working), list(proposal.before.stuck)) == ([], ["stuck"])
    assert proposal.after == proposal.before


def test_threshold_that_flags_a_working_session_is_loosened_and_the_stuck_one_stays_caught() -> None:
    tight = knobs(repeat_run=2)
    proposal = propose(recorded(stuck=same(60), poll=same(2)), tight)

    assert list(proposal.before.working) == ["poll"]
    assert [one.knob for one in proposal.changes] == ["repeat_run"]
    assert proposal.changes[0].after > 2
    assert (list(proposal.after.working), list(proposal.after.stuck)) == ([], ["stuck"])
    assert proposal.knobs.repeat_run == proposal.changes[0].after


def test_threshold_that_misses_a_stuck_session_is_tightened_if_no_working_one_pays() -> None:
    lax = dict.fromkeys(("repeat_run", "exact_repeat", "same_outcome", "known_outcomes", "wait_repeat"), 10000)
    proposal = propose(recorded(stuck=same(8), working=various(30)), knobs(**lax, nothing_new=9, top_repeat=60))

    assert list(proposal.before.stuck) == []
    assert list(proposal.after.stuck) == ["stuck"]
    assert proposal.after.working == {}


def test_change_that_would_lose_a_stuck_session_is_not_proposed() -> None:
    """Both do the same: no threshold tells them apart."""
    proposal = propose(recorded(stuck=same(60), working=same(60)), LOOSE)

    assert proposal.changes == ()
    assert list(proposal.after.working) == ["working"]


def test_thresholds_are_the_numbers_that_decide_a_first_flag() -> None:
    found = thresholds(LOOSE)

    assert {"stall_turns", "repeat_run", "ceiling_usd", "dup_warn"} <= set(found)
    assert (
        found.keys() & {"window", "mode", "read_only_agents", "retire_after_s", "loop_turns", "snapshot_every"} == set()
    )


def test_every_threshold_is_tried_and_told() -> None:
    told: list[None] = []
    propose(recorded(working=same(60)), LOOSE, lambda: told.append(None))

    assert len(told) == len(thresholds(LOOSE))
