"""The incidents that this was built for, as event streams made from their figures (P003-P009, P128-P134, P144)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from actors.messages import Kind, ProgressEvent, Reason, Tokens, Verdict
from tests.unit.tree.streams import KNOBS, Driver, call, digest, told


def spread(calls: int, *repeats: int, session: str = "root", dup: float = 0.0, **fields: object) -> list[ProgressEvent]:
    """Return ``calls`` calls in a fixed shuffle: files read ``repeats`` times, smaller ones up to the share ``dup``."""
    order = [f"top{index}" for index, count in enumerate(repeats) for _ in range(count)]
    missing = round(dup * calls) - sum(count - 1 for count in repeats)
    order += [f"twice{index}" for index in range(max(0, missing)) for _ in range(2)]
    order += [f"once{index}" for index in range(calls - len(order))]
    random.Random(calls).shuffle(order)
    return [call(what, session, **fields) for what in order]


@pytest.mark.parametrize(
    ("calls", "dup", "top"), [(423, 0.30, 61), (132, 0.23, 16), (307, 0.17, 21)], ids=["navbar", "tests", "slow loop"]
)
def test_worker_with_nothing_landed_is_flagged(calls: int, dup: float, top: int) -> None:
    two_a_turn = [
        one.model_copy(update={"round": f"r{index // 2}"}) for index, one in enumerate(spread(calls, top, dup=dup))
    ]
    first = Driver(knobs=KNOBS).feed(two_a_turn).transitions[0]

    assert first.after is Verdict.STALLING  # P003
    assert first.reason is Reason.EXACT_REPEAT
    assert first.evidence.calls_since_landed <= calls / 3, "not by the ceiling"


def test_worker_that_landed_partly_is_flagged() -> None:
    early = [call(f"edit{index}", landed=True, state=digest(index)) for index in range(5)]

    assert Driver(knobs=KNOBS).feed([*early, *spread(129, 8, dup=0.19)]).transitions[0].reason is Reason.EXACT_REPEAT


def test_orchestrator_whose_children_land_is_ok() -> None:
    own = iter(spread(576, 10, dup=0.11, parent_session_id=None))
    events: list[ProgressEvent] = []
    for index, one in enumerate(own):
        events.append(one)
        if index % 12 == 11:
            events.append(call(f"edit{index}", f"kid{index % 3}", parent_session_id="root", landed=True))

    assert Driver(knobs=KNOBS).feed(events).transitions == []  # P003, P012, P043


@pytest.mark.parametrize(("calls", "dup", "top"), [(30, 0.0, 1), (60, 0.02, 2), (75, 0.04, 3), (96, 0.06, 3)])
def test_healthy_session_is_ok(calls: int, dup: float, top: int) -> None:
    body = spread(calls, top, dup=dup)
    events = [one for index, one in enumerate(body) for one in _with_edit(index, one)]

    assert Driver(knobs=KNOBS).feed(events).transitions == []


def _with_edit(index: int, one: ProgressEvent) -> Iterator[ProgressEvent]:
    yield one
    if index % 15 == 14:
        yield call(f"edit{index}", landed=True, state=digest(index))


def test_high_spend_that_lands_is_ok_and_cheap_spinning_is_not() -> None:
    landing = (_with_edit(index, call(index, cost_usd=0.05)) for index in range(300))
    healthy = [one for pair in landing for one in pair]

    assert Driver(knobs=KNOBS).feed(healthy).transitions == []  # P001: $15, never more than $0.75 without a change
    assert Driver(knobs=KNOBS).feed(call("same", cost_usd=0.001) for _ in range(20)).transitions


def woken_orchestrator() -> Iterator[ProgressEvent]:
    """54 turns, a state file read 28 times and the plan grepped 16 times in ever new words, three injected turns."""
    for turn in range(54):
        if turn % 18 == 0:
            yield told(Kind.INJECTED)
        yield told(Kind.TURN, tokens=Tokens(prompt=352_000, cached=350_000), round=f"r{turn}")
        if turn < 28:
            yield call(f"cat {turn}", slice="state", target="boulder.json", round=f"r{turn}")
        elif turn < 44:
            yield call(f"grep {turn}", slice="plan", target="plan.md", round=f"r{turn}")


def test_orchestrator_woken_by_injected_turns_is_flagged_although_it_rewords() -> None:
    driver = Driver(knobs=KNOBS).feed(woken_orchestrator())
    first = driver.transitions[0]

    assert (first.after, first.reason) == (Verdict.STALLING, Reason.TOP_REPEAT)  # P004
    assert first.evidence.top_repeat == 12
    assert driver.of().injected_since == 3  # P005
    assert driver.feed([told(Kind.USER)]).of().injected_since == 0


def test_explorer_of_a_deleted_file_is_flagged() -> None:
    gone = call("gone", agent="explore", exit=1, error="notfound", target="router-outcome.js")
    rest = spread(302, dup=0.14, agent="explore")
    events = [one for index, each in enumerate(rest) for one in ([each, gone] if index % 15 == 7 else [each])]
    driver = Driver(knobs=KNOBS).feed(events[:322])

    assert driver.moves[0] == ("root", Verdict.STALLING, Reason.SAME_FAILURE)  # P006


def test_explorer_reworded_failing_reads_of_one_path_are_flagged() -> None:
    reads = [
        call(index, agent="explore", exit=1, error="notfound", target="gone.js", slice=digest(index))
        for index in range(8)
    ]
    driver = Driver(knobs=KNOBS).feed(reads)

    assert driver.moves == [("root", Verdict.STALLING, Reason.READ_ONLY_FAILURES)]  # P009


@pytest.mark.parametrize(("targets", "flagged"), [(55, False), (4, True)])
def test_explorer_is_judged_by_novelty(targets: int, flagged: bool) -> None:
    reads = [
        call(index, agent="explore", target=f"f{index % targets}", slice=digest("part", index)) for index in range(60)
    ]
    driver = Driver(knobs=KNOBS).feed(reads)

    assert [one.reason for one in driver.transitions] == [Reason.READ_ONLY_NOVELTY] * flagged  # P008


def test_explorer_with_many_targets_and_nothing_landed_is_ok() -> None:
    assert Driver(knobs=KNOBS).feed(call(index, agent="librarian") for index in range(400)).transitions == []  # P007


def test_reworded_cats_of_one_slice_are_flagged() -> None:
    cats = [call(f"cat variant {index}", slice="state", target="boulder.json") for index in range(28)]
    driver = Driver(knobs=KNOBS).feed(cats)

    assert [one.index for one in driver.transitions] == [11]  # P128: 28 wordings, caught at the twelfth


@pytest.mark.parametrize("agent", ["build", "explore"])
def test_sliced_reading_of_one_file_is_ok(agent: str) -> None:
    slices = [call(f"navbar {index}", target="navbar.js", agent="build") for index in range(60)]
    seen = call("other0", agent=agent), call("other1", agent=agent), call("other2", agent=agent)

    assert Driver(knobs=KNOBS).feed([*seen, *slices]).transitions == []  # P129


def test_slow_loop_is_caught_by_the_whole_session() -> None:
    events = [call("same" if index % 21 == 0 else index) for index in range(320)]
    found = Driver(knobs=KNOBS).feed(events).transitions[0]
    assert (found.reason, found.index) == (Reason.SAME_OUTCOME, 147)

    nameless = [one.model_copy(update={"target": None, "slice": None}) for one in events]
    assert Driver(knobs=KNOBS).feed(nameless).moves[0] == ("root", Verdict.STALLING, Reason.SESSION_REPEAT)  # P130

    rounds = [one.model_copy(update={"round": f"r{index // 4}"}) for index, one in enumerate(nameless)]
    assert Driver().feed(rounds).moves[0] == ("root", Verdict.STALLING, Reason.SESSION_REPEAT)  # its own rule alone


def test_helper_that_prints_one_document_twelve_times_is_flagged() -> None:
    events = [one for index in range(12) for one in (call("spec", agent="librarian"), call(index, agent="librarian"))]

    assert Driver(knobs=KNOBS).feed(events).moves[0] == ("root", Verdict.STALLING, Reason.EXACT_REPEAT)  # P133
    assert Driver().feed(events).moves == [("root", Verdict.STALLING, Reason.READ_ONLY_REPEAT)]


def test_three_hundred_distinct_reads_are_ok_below_the_ceiling() -> None:
    reads = [call(index, round=f"r{index // 3}") for index in range(300)]

    assert Driver(knobs=KNOBS).feed(reads).transitions == []  # P041


def test_ceiling_alone_warns_and_never_becomes_looping() -> None:
    driver = Driver(knobs=KNOBS).feed(call(index, cost_usd=0.04) for index in range(900))

    assert driver.moves == [("root", Verdict.STALLING, Reason.CEILING)]
    assert [one.severity.value for one in driver.alerts] == ["warning"]


def test_sample_report_figures_are_in_the_evidence() -> None:
    fields = {"cost_usd": 1.84 / 423, "tokens": 70_000_000 // 423}
    driver = Driver(knobs=KNOBS).feed(spread(423, 61, 16, dup=0.30, **fields))
    landed = driver.feed([call("fix", landed=True)]).transitions[-1]

    assert (landed.before, landed.evidence.calls_since_landed) == (Verdict.LOOPING, 424)  # P144
    assert round(landed.evidence.usd_since_landed, 2) == 1.84
    assert landed.evidence.session_repeat == 61
    assert driver.alerts[-1].state.value == "resolve"
