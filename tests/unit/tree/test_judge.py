"""The rules as tables of figures (P032-P041, P128-P132)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.knobs import Progress
from actors.messages import Evidence, Kind, Reason, Verdict
from actors.tree.judge import calm, judge, limits_of, rank
from actors.tree.sentences import SENTENCES, sentence_of
from actors.tree.signals import Signals, signals_of
from tests.unit.tree.streams import Driver, call, digest

KNOBS = Progress()
QUIET = Signals(
    read_only=False,
    turns=0,
    usd=0.0,
    calls=60,
    injected=0,
    window_calls=60,
    dup_share=0.0,
    fail_streak=0,
    top_repeat=1,
    session_repeat=1,
    target_fail_streak=0,
    places=60,
    spans=60,
    repeat_run=1,
    cycle_rounds=0,
    exact_repeat=1,
    same_outcome=1,
    known_outcomes=0,
    again=0,
    failure_points=0,
    same_failure=0,
    provider_failures=0,
    edit_run=0,
    idle_edits=0,
    refused_done=0,
    injected_run=0,
    compaction_run=0,
    text_run=0,
    wait_repeat=0,
)


def found(**figures: object) -> tuple[Verdict, Reason]:
    return judge(QUIET._replace(**figures), KNOBS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turns", "usd", "dup", "fail"), list(itertools.product((24, 25), (0.99, 1.0), (0.24, 0.25), (4, 5)))
)
def test_stalling_needs_both_halves(turns: int, usd: float, dup: float, fail: int) -> None:
    spent, repeats = turns >= 25 or usd >= 1.0, dup >= 0.25 or fail >= 5
    verdict, reason = found(turns=turns, usd=usd, dup_share=dup, fail_streak=fail)

    assert (verdict is Verdict.STALLING) == (spent and repeats)
    assert reason is (Reason.NONE if verdict is Verdict.OK else Reason.DUPLICATES if dup >= 0.25 else Reason.FAILURES)


@pytest.mark.parametrize(
    ("turns", "usd", "dup", "fail"), list(itertools.product((49, 50), (2.99, 3.0), (0.34, 0.35), (9, 10)))
)
def test_looping_needs_both_halves_at_its_own_thresholds(turns: int, usd: float, dup: float, fail: int) -> None:
    spent, repeats = turns >= 50 or usd >= 3.0, dup >= 0.35 or fail >= 10

    assert (found(turns=turns, usd=usd, dup_share=dup, fail_streak=fail)[0] is Verdict.LOOPING) == (spent and repeats)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"turns": 300, "usd": 0.0}, (Verdict.STALLING, Reason.CEILING)),
        ({"turns": 199, "usd": 9.99}, (Verdict.OK, Reason.NONE)),
        ({"usd": 10.0}, (Verdict.STALLING, Reason.CEILING)),
        ({"usd": 1_000_000.0}, (Verdict.STALLING, Reason.CEILING)),
        ({"top_repeat": 11}, (Verdict.OK, Reason.NONE)),
        ({"top_repeat": 12}, (Verdict.STALLING, Reason.TOP_REPEAT)),
        ({"top_repeat": 60, "session_repeat": 60}, (Verdict.STALLING, Reason.TOP_REPEAT)),
        ({"session_repeat": 14}, (Verdict.OK, Reason.NONE)),
        ({"session_repeat": 15}, (Verdict.STALLING, Reason.SESSION_REPEAT)),
        ({"usd": 5.0, "dup_share": 0.9, "window_calls": 7}, (Verdict.OK, Reason.NONE)),
        ({"usd": 5.0, "dup_share": 0.9, "window_calls": 8}, (Verdict.LOOPING, Reason.DUPLICATES)),
        ({"places": 1}, (Verdict.OK, Reason.NONE)),
        ({"target_fail_streak": 30}, (Verdict.OK, Reason.NONE)),
    ],
)
def test_agent_that_edits_is_judged_by_what_lands(figures: dict[str, object], expected: tuple[Verdict, Reason]) -> None:
    assert found(**figures) == expected


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"turns": 300, "usd": 50.0, "dup_share": 0.9, "fail_streak": 20}, (Verdict.OK, Reason.NONE)),
        ({"top_repeat": 7}, (Verdict.OK, Reason.NONE)),
        ({"top_repeat": 8}, (Verdict.STALLING, Reason.READ_ONLY_REPEAT)),
        ({"target_fail_streak": 7}, (Verdict.OK, Reason.NONE)),
        ({"target_fail_streak": 8}, (Verdict.STALLING, Reason.READ_ONLY_FAILURES)),
        ({"places": 5}, (Verdict.OK, Reason.NONE)),
        ({"places": 4}, (Verdict.STALLING, Reason.READ_ONLY_NOVELTY)),
        ({"places": 4, "spans": 59}, (Verdict.OK, Reason.NONE)),
        ({"session_repeat": 15}, (Verdict.STALLING, Reason.SESSION_REPEAT)),
    ],
)
def test_read_only_agent_is_judged_by_what_it_looks_at(
    figures: dict[str, object], expected: tuple[Verdict, Reason]
) -> None:
    assert found(read_only=True, **figures) == expected


def test_starting_thresholds_are_those_of_the_prototype() -> None:
    assert (KNOBS.window, KNOBS.dup_warn, KNOBS.top_repeat, KNOBS.top_repeat_read_only, KNOBS.session_repeat) == (
        60,
        0.25,
        12,
        8,
        15,
    )  # P132


def test_rank_orders_verdicts() -> None:
    assert sorted(Verdict, key=rank) == [Verdict.OK, Verdict.STALLING, Verdict.LOOPING]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 6)), max_size=70))
def test_calm_says_what_every_rule_says(steps: list[tuple[int, int, bool, int]]) -> None:
    """``calm`` is a short cut: whenever it holds, no rule finds anything."""
    kinds = [Kind.TOOL] * 3 + [Kind.DONE, Kind.COMPACTION, Kind.ASSISTANT, Kind.INJECTED]
    driver = Driver(knobs=KNOBS)
    for what, outcome, landed, kind in steps:
        fields = {"kind": kinds[kind], "exit": outcome % 2, "result": digest(outcome), "said": digest(what)}
        driver.feed([call(what, landed=landed, cost_usd=0.05, **fields)])
        one = driver.of()
        found = judge(signals_of(one, KNOBS), KNOBS)
        assert (found == (Verdict.OK, Reason.NONE)) or not calm(one, limits_of(KNOBS))


def test_sentence_every_reason_has_one_with_figures_of_the_evidence() -> None:
    assert set(SENTENCES) == set(Reason)
    for reason in Reason:
        assert sentence_of(reason, Evidence()).isascii()
    assert sentence_of(Reason.CYCLE, Evidence(cycle_rounds=4)) == "the same calls take turns, 4 rounds by now"
