"""The pattern rules: each with a stream that it catches, when, and what looks like it and is healthy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest

from actors.judge_knobs import Patterns
from actors.messages import Kind, ProgressEvent, Reason, Verdict
from tests.unit.tree.streams import KNOBS, SPECIFICATION, Driver, call, digest, event, told

EMPTY = hashlib.sha256(b"0\n").hexdigest()[:32]  # what the plugin sends for a success without output


def edit(what: object, outcome: object, **fields: object) -> ProgressEvent:
    """Build an accepted edit."""
    given = {"tool": "edit", "landed": True, "result": digest(outcome), "target": "a.py"} | fields
    return call(("edit", what), **given)


def failing(what: object, outcome: object = "boom", **fields: object) -> ProgressEvent:
    given = {"tool": "bash", "exit": 1, "result": digest(outcome), "target": None, "slice": None} | fields
    return call(("bash", what), **given)


def said(what: object, sim: str | None = None) -> ProgressEvent:
    return told(Kind.ASSISTANT, said=digest(what), said_sim=sim)


def cycle(period: int, rounds: int) -> list[ProgressEvent]:
    return [call(index, target=None, slice=None) for _ in range(rounds) for index in range(period)]


def repeat(count: int, *events: ProgressEvent) -> list[ProgressEvent]:
    return [one for _ in range(count) for one in events]


# reason, knob, stream, index of the event that flags it
CAUGHT: list[tuple[Reason, str, list[ProgressEvent], int]] = [
    (Reason.REPEAT_RUN, "repeat_run", repeat(8, call("same")), 4),
    (Reason.REPEAT_RUN, "repeat_run", repeat(8, call("same", result=None)), 4),
    (Reason.CYCLE, "cycle_rounds", cycle(2, 5), 7),
    (Reason.CYCLE, "cycle_rounds", cycle(3, 5), 8),
    (Reason.CYCLE, "cycle_rounds", cycle(8, 4), 23),
    (
        Reason.EXACT_REPEAT,
        "exact_repeat",
        [one for n in range(9) for one in (call("same"), call(n), call(-1 - n))],
        15,
    ),
    (Reason.SAME_OUTCOME, "same_outcome", [call(("cat", n), target="a", result=digest("x")) for n in range(9)], 7),
    (
        Reason.NOTHING_NEW,
        "nothing_new",
        [call(f"odd{n}" if n % 5 == 4 else n * 7 % 4, target=None, slice=None) for n in range(40)],
        16,
    ),
    (Reason.KNOWN_OUTCOMES, "known_outcomes", [call(n, result=digest("none")) for n in range(12)], 8),
    (Reason.FAILURE_STREAK, "failure_points", [failing(n) for n in range(9)], 6),
    (Reason.FAILURE_STREAK, "failure_points", [failing(n, n) for n in range(14)], 11),
    (
        Reason.FAILURE_STREAK,
        "failure_points",
        [call("luck") if n == 4 else failing(n) for n in range(12)],
        9,
    ),
    (
        Reason.SAME_FAILURE,
        "same_failure",
        [one for n in range(9) for one in (edit(n, n), failing(n, target="pytest"))],
        11,
    ),
    (Reason.PROVIDER_FAILURES, "provider_failures", repeat(15, failing("model", error="provider")), 11),
    (Reason.SAME_EDIT, "edit_run", [edit("again", n) for n in range(9)], 4),
    (
        Reason.IDLE_EDITS,
        "idle_edits",
        [one for n in range(9) for one in (edit(n, n, target=None), edit(-1 - n, n))],
        13,
    ),
    (
        Reason.REFUSED_DONE,
        "refused_done",
        [one for n in range(9) for one in (told(Kind.DONE, tool="done"), call(n))],
        8,
    ),
    (Reason.INJECTED, "injected_run", [one for n in range(9) for one in (told(Kind.INJECTED), call(n))], 6),
    (Reason.INJECTED, "injected_run", repeat(6, event(kind=Kind.USER, injected=True)), 3),
    (Reason.COMPACTION_LOOP, "compaction_run", [one for n in range(9) for one in (told(Kind.COMPACTION), call(n))], 6),
    (Reason.SAME_TEXT, "text_run", repeat(6, said("I will now look")), 3),
    (Reason.SAME_TEXT, "text_run", [said(n, f"{0xFFFF << n:016x}") for n in range(6)], 3),
    (Reason.SAME_TEXT, "text_run", repeat(3, *(said(n) for n in range(5))), 7),
    (Reason.WAITING, "wait_repeat", repeat(35, call("tail log", result=EMPTY)), 30),
]


@pytest.mark.parametrize(("reason", "knob", "events", "index"), CAUGHT)
def test_pattern_is_flagged_when_its_knob_says(
    reason: Reason, knob: str, events: list[ProgressEvent], index: int
) -> None:
    only = SPECIFICATION.model_copy(update={"loop_factor": 2.0, knob: getattr(KNOBS, knob)})
    first = Driver(knobs=only).feed(events).transitions[0]

    assert (first.reason, first.after, first.index) == (reason, Verdict.STALLING, index)
    assert Driver(knobs=KNOBS).feed(events).transitions[0].index <= index, "the other rules do not hide it"


@pytest.mark.parametrize(("reason", "knob", "events", "index"), CAUGHT)
def test_pattern_with_its_knob_out_of_reach_is_not_flagged(
    reason: Reason, knob: str, events: list[ProgressEvent], index: int
) -> None:
    assert Driver(knobs=SPECIFICATION).feed(events[: index + 1]).transitions == []


def test_patterns_every_count_has_a_stream_that_it_catches() -> None:
    apart = {"loop_factor", "pause_s", "silent_after_s", "session_repeat_spent", "waiting_tools"}

    assert {knob for _, knob, _, _ in CAUGHT} == set(Patterns.model_fields) - apart


@pytest.mark.parametrize(
    "events",
    [
        [call("poll", result=digest(n)) for n in range(60)],
        [*(call(n) for n in range(3)), *(call("build", t=60.0 * n, target=None) for n in range(1, 20))],
        repeat(29, call("tail log", result=EMPTY)),
        repeat(29, call("running", tool="BashOutput", target=None, slice=None), said("still waiting")),
        [one for n in range(30) for one in (edit(n, n), call("test", exit=1, result=digest("failed", n)))],
        [call(("slice", n), target="big.csv") for n in range(60)],
        [edit(n, "ok", target=f"{n}.py") for n in range(40)],
        [edit(n, "ok") for n in range(84)],
        [edit(n % 2, n, target=f"{n % 2}") for n in range(40)],
        [failing(n, "unread", error="edit_mismatch", target=f"{n}.py") for n in range(15)],
        [failing("outage", error="infra", t=15.0 * n) for n in range(40)],
        [failing("limit", error="provider", t=40.0 * n) for n in range(40)],
        [one for n in range(30) for one in (said("next"), edit(n, n, target=f"{n}.py"))],
        [one for n in range(20) for one in (said("next"), call(n, exit=None))],
        [one for n in range(9) for one in (said("try again"), failing(n, n), call(n))],
        [one for n in range(20) for one in (told(Kind.INJECTED), edit(n, n))],
        [one for n in range(20) for one in (told(Kind.INJECTED), *(call(4 * n + k) for k in range(2)))],
        [told(Kind.OPEN), *repeat(20, told(Kind.INJECTED))],
        [one for n in range(20) for one in (told(Kind.DONE), told(Kind.USER), call(n))],
        [one for n in range(9) for one in (told(Kind.DONE), *(call(20 * n + k) for k in range(13)))],
        [*(call(n) for n in range(20)), told(Kind.COMPACTION), *(call(n) for n in range(20))],
        [call(n) for _ in range(2) for n in range(15)],
        [failing(n, EMPTY, result=EMPTY) for n in range(20)],
    ],
    ids=[
        "poll with news", "poll with pauses", "silent poll", "poll by name", "test after edit", "sliced reading",
        "batch of edits", "one page", "new revisions", "batch refused unread", "outage", "rate limit with pauses",
        "short notes", "short notes, exits unknown", "short notes on failures", "woken and landing",
        "woken and reading", "woken while a question is open", "steered by a person", "done now and then",
        "read again after compaction", "second pass", "greps that find nothing",
    ],
)  # fmt: skip
def test_look_alike_is_ok(events: Iterable[ProgressEvent]) -> None:
    patterns = KNOBS.model_copy(
        update={"stall_turns": 9_999, "loop_turns": 9_999, "ceiling_turns": 9_999, "top_repeat": 60}
    )

    assert Driver(knobs=patterns).feed(events).transitions == []


def test_slow_model_is_not_taken_for_a_waiting_one() -> None:
    slow = [*(call(n, t=45.0 * n) for n in range(4)), *(call("same", t=45.0 * n) for n in range(4, 12))]

    assert Driver(knobs=KNOBS).feed(slow).transitions[0].reason is Reason.REPEAT_RUN


def test_call_without_arguments_and_outcome_says_nothing_about_repeats() -> None:
    fingerprint = hashlib.sha256(b"read\n{}").hexdigest()
    nothing = call("x", fingerprint=fingerprint, result=None, target=None, slice=None)

    assert Driver(knobs=KNOBS).feed(repeat(22, nothing)).transitions == []


def test_landing_that_was_there_before_resets_nothing() -> None:
    undone = repeat(2, edit("do", "after"), edit("undo", "before"))
    driver = Driver(knobs=KNOBS).feed([*undone, call("look")])

    assert driver.of().calls_since == 3  # since the second edit: what came after it had all been there


def test_landing_leaves_the_verdict_that_outlives_it() -> None:
    gate = [one for n in range(12) for one in (told(Kind.DONE, tool="done"), edit(n, n))]
    driver = Driver(knobs=KNOBS).feed(gate)

    assert [(one.after, one.reason) for one in driver.transitions] == [
        (Verdict.STALLING, Reason.REFUSED_DONE),
        (Verdict.LOOPING, Reason.REFUSED_DONE),
    ]
    assert [one.state.value for one in driver.alerts] == ["trigger", "escalate"]
    assert driver.feed([told(Kind.USER)]).of().verdict is Verdict.OK


def test_landing_that_leaves_less_keeps_the_reason_of_what_is_left() -> None:
    gate = [one for n in range(6) for one in (told(Kind.DONE), call(n))]
    driver = Driver(knobs=KNOBS).feed([*gate, *repeat(12, call("same")), edit("fix", "fixed")])

    assert [(one.after, one.reason) for one in driver.transitions] == [
        (Verdict.STALLING, Reason.REFUSED_DONE),
        (Verdict.LOOPING, Reason.REPEAT_RUN),
        (Verdict.STALLING, Reason.REFUSED_DONE),
    ]


def test_looping_needs_the_factor_times_the_count() -> None:
    moves = Driver(knobs=KNOBS.model_copy(update={"loop_factor": 1.5})).feed(repeat(9, call("same"))).transitions

    assert [(one.index, one.after) for one in moves] == [(4, Verdict.STALLING), (7, Verdict.LOOPING)]


def test_child_that_lands_resets_the_parents_patterns() -> None:
    events = []
    for n in range(20):
        events += [call("look", slice="plan"), call("ask"), edit(n, n, session="kid", parent_session_id="root")]

    assert Driver(knobs=KNOBS).feed(events).transitions == []
