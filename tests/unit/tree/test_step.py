"""The step: what counts, what resets, what makes a verdict fall."""

from __future__ import annotations

import pytest

from actors.knobs import Progress
from actors.messages import Command, ErrorClass, Kind, Mode, ProgressEvent, Reason, Status, Tokens, Verdict
from actors.tree.state import MAX_CONVERSATIONS
from actors.tree.step import describe, next_wakeup, step, summarise
from tests.unit.tree.streams import SPECIFICATION as KNOBS
from tests.unit.tree.streams import Driver, call, digest, event, told

OK, STALLING, LOOPING = Verdict.OK, Verdict.STALLING, Verdict.LOOPING


def stuck(calls: int = 12, session: str = "root") -> list[ProgressEvent]:
    return [call("same", session) for _ in range(calls)]


def fresh(calls: int, session: str = "root", start: int = 0) -> list[ProgressEvent]:
    return [call(f"new{index}", session) for index in range(start, start + calls)]


def test_turns_without_turn_events_each_call_is_one() -> None:
    assert Driver().feed(fresh(5)).of().turns_since == 5


def test_turns_calls_of_one_round_are_one() -> None:
    driver = Driver().feed(call(index, round=f"r{index // 3}") for index in range(9))

    assert driver.of().turns_since == 3


def test_turns_once_turn_events_came_calls_count_no_more() -> None:
    turns = [told(Kind.TURN, cost_usd=0.5), call(1, cost_usd=9.0), told(Kind.TURN, cost_usd=0.5), call(2)]
    driver = Driver().feed(turns)

    assert (driver.of().turns_since, driver.of().usd_since) == (2, 1.0)


def test_turns_first_turn_event_of_a_counted_round_counts_once() -> None:
    driver = Driver().feed([call(1, round="r1"), call(2, round="r1"), told(Kind.TURN, round="r1")])

    assert driver.of().turns_since == 1


def test_turns_request_reported_twice_counts_once_with_the_larger_cost() -> None:
    reports = [told(Kind.TURN, request_id="q1", cost_usd=cost) for cost in (0.1, 0.1, 0.4)]
    driver = Driver().feed([*reports, told(Kind.TURN, cost_usd=0.2)])

    assert driver.of().turns_since == 2
    assert driver.of().usd_since == pytest.approx(0.6)


def test_turns_of_children_count_for_their_parents() -> None:
    driver = Driver().feed([call(0), *(told(Kind.TURN, "kid", parent_session_id="root") for _ in range(3))])

    assert (driver.of().turns_since, driver.of("kid").turns_since) == (4, 3)  # P033
    assert driver.of().turns == 1


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"context_tokens": 600_000}, 600_000),
        ({"tokens": Tokens(prompt=30_000, completion=5)}, 30_000),
        ({"tokens": 7}, 7),
        ({}, None),
    ],
)
def test_context_size_is_that_of_the_latest_request(fields: dict[str, object], size: int | None) -> None:
    assert Driver().feed([told(Kind.TURN, **fields)]).of().context_tokens == size  # P037


def test_landing_resets_the_conversation_and_all_its_ancestors() -> None:
    chain = [call(1), call(2, "mid", parent_session_id="root"), call(3, "leaf", parent_session_id="mid")]
    driver = Driver().feed([*chain, *fresh(5), call(4, "leaf", landed=True)])

    assert [driver.of(name).turns_since for name in ("root", "mid", "leaf")] == [0, 0, 0]  # P030


def test_landing_of_a_parent_does_not_reset_its_children() -> None:
    driver = Driver().feed([call(1), *fresh(4, "kid"), call(2, landed=True)])

    assert (driver.of().turns_since, driver.of("kid").turns_since) == (0, 4)


def test_landing_known_state_is_none() -> None:
    def edit(content: str) -> ProgressEvent:
        return call("edit", landed=True, state=digest(content))

    driver = Driver().feed([edit("a"), edit("b"), edit("a"), edit("b"), edit("a")])

    assert driver.of().turns_since == 3  # T47: applying and undoing lands twice, not five times


def test_landing_same_state_of_another_target_is_one() -> None:
    driver = Driver().feed([call("x", landed=True, state="s"), call("y", landed=True, state="s")])

    assert driver.of().turns_since == 0


def test_landing_of_an_injected_call_is_none() -> None:
    assert Driver().feed([*fresh(3), call("hook", landed=True, injected=True)]).of().turns_since > 0


def test_user_turn_resets_the_conversation_and_its_ancestors() -> None:
    driver = Driver().feed([*stuck(), *fresh(3, "kid"), told(Kind.USER, "kid")])

    assert driver.of().turns_since == driver.of("kid").turns_since == 0
    assert driver.moves[-1] == ("root", OK, Reason.USER_TURN)


@pytest.mark.parametrize("injected", [told(Kind.INJECTED), told(Kind.USER, injected=True)])
def test_injected_turn_resets_nothing_and_is_counted(injected: ProgressEvent) -> None:
    driver = Driver().feed([*stuck(), injected, injected])

    assert (driver.of().verdict, driver.of().injected_since, driver.of().turns_since) == (STALLING, 2, 12)  # P005


def test_injected_turn_is_no_sign_of_life() -> None:
    driver = Driver().feed([*stuck(), event(kind=Kind.INJECTED, t=KNOBS.retire_after_s + 100)])

    assert driver.of().retired


def test_fail_streak_other_calls_do_not_hide_it_success_ends_it() -> None:
    failing = [one for index in range(6) for one in (call("test", exit=1), call(f"look{index}"))]
    driver = Driver().feed(failing)
    assert driver.of().failures.top == 6  # P036

    assert driver.feed([call("test", exit=0)]).of().failures.top == 0


@pytest.mark.parametrize("error", [ErrorClass.INFRA, ErrorClass.PROVIDER])
def test_fail_streak_faults_of_others_do_not_count(error: ErrorClass) -> None:
    assert Driver().feed(call("q", exit=1, error=error) for _ in range(9)).of().failures.top == 0


def test_fail_streak_unknown_exit_neither_counts_nor_ends_it() -> None:
    driver = Driver().feed([call("q", exit=1), call("q", exit=None), call("q", exit=None, error=ErrorClass.DENIED)])

    assert driver.of().failures.top == 2


def test_verdict_rises_to_looping_and_a_landing_ends_it() -> None:
    driver = Driver().feed([*stuck(60), call("fix", landed=True)])

    assert driver.moves == [
        ("root", STALLING, Reason.TOP_REPEAT),
        ("root", LOOPING, Reason.DUPLICATES),
        ("root", OK, Reason.LANDED),
    ]
    assert driver.transitions[-1].evidence.turns_since_landed == 61
    assert [one.index for one in driver.transitions] == [11, 49, 60]


def test_verdict_holds_until_no_call_of_a_window_supports_it() -> None:
    driver = Driver().feed([*stuck(), *fresh(KNOBS.window)])
    assert driver.of().verdict is STALLING  # the repeats are still leaving the window

    driver.feed(fresh(KNOBS.window, start=1000))
    assert driver.moves == [("root", STALLING, Reason.TOP_REPEAT), ("root", OK, Reason.RECOVERED)]


def test_verdict_of_a_parent_does_not_fall_by_the_calls_of_its_children() -> None:
    driver = Driver().feed([*stuck(), *fresh(KNOBS.window), *fresh(100, "kid")])

    assert driver.moves == [("root", STALLING, Reason.TOP_REPEAT)]


def test_verdict_does_not_flap_while_repeats_come_and_go() -> None:
    mixed = [call("same" if index % 5 == 0 else index) for index in range(190)]

    knobs = KNOBS.model_copy(update={"session_repeat": 10_000})

    assert len(Driver(knobs=knobs).feed(mixed).transitions) == 1


def test_resume_resets_everything_and_resolves() -> None:
    driver = Driver().feed([*stuck(60), *fresh(2, "kid")]).resume()

    assert driver.moves[-1] == ("root", OK, Reason.RESUMED)
    assert all(one.turns_since == 0 and one.verdict is OK for one in driver.state.conversations.values())
    assert driver.feed(stuck(11)).of().verdict is OK


def test_mode_command_sets_and_clears_the_override() -> None:
    driver = Driver().feed([call(1), Command(t=1, action="mode", value=Mode.AUTO_COMPACT)])
    assert summarise(driver.state, KNOBS)["mode"] == "auto_compact"

    driver.feed([Command(t=1, action="mode", value=None)])
    assert summarise(driver.state, KNOBS)["mode"] == "warn"


def test_knobs_changed_verdict_is_judged_anew_at_the_next_event() -> None:
    driver = Driver().feed(stuck())
    driver.knobs = KNOBS.model_copy(update={"top_repeat": 30})
    driver.feed([call("other")])
    assert driver.moves[-1] == ("root", OK, Reason.SETTINGS)

    driver.knobs = KNOBS
    assert driver.feed([call("other2")]).of().verdict is STALLING


def test_knobs_changed_list_of_read_only_agents_changes_the_rules() -> None:
    reads = [call("same", agent="scout") for _ in range(8)]
    driver = Driver().feed(reads)
    assert driver.of().verdict is OK

    driver.knobs = KNOBS.model_copy(update={"read_only_agents": ("scout",)})
    assert driver.feed([call("new", agent="scout")]).moves == [("root", STALLING, Reason.READ_ONLY_REPEAT)]  # P010


def test_knobs_changed_mode_alone_leaves_verdicts() -> None:
    driver = Driver().feed([*stuck(), *fresh(55)])
    driver.knobs = Progress(mode=Mode.AUTO_COMPACT)

    assert driver.feed(fresh(1, start=900)).of().verdict is STALLING


def test_retired_conversation_counts_no_more_and_a_later_event_revives_it() -> None:
    driver = Driver().feed([call(0), *stuck(12, "kid"), told(Kind.CLOSE, "kid")])
    assert driver.moves == [("kid", STALLING, Reason.TOP_REPEAT), ("kid", OK, Reason.RETIRED)]
    assert (driver.state.verdict, driver.of("kid").status) == (OK, Status.RETIRED)

    assert driver.feed(stuck(1, "kid")).state.verdict is STALLING


def test_retired_child_does_not_hide_the_next_stuck_one() -> None:
    driver = Driver().feed([*stuck(12, "a"), told(Kind.DELETED, "a"), *stuck(12, "b")])

    assert [one.state.value for one in driver.alerts] == ["trigger", "resolve", "trigger"]


def test_idle_conversation_retires_as_of_when_it_was_due() -> None:
    at_once = Driver().feed(stuck()).tick(10_000)
    slowly = Driver().feed(stuck()).tick(1000).tick(1812).tick(1812.5).tick(10_000)

    assert at_once.effects[:-1] == slowly.effects[:-1]
    assert at_once.transitions[-1].t == 12 + KNOBS.retire_after_s


def test_parent_whose_child_works_does_not_retire() -> None:
    driver = Driver().feed([call(0), *(call(index, "kid", t=index * 1000.0) for index in range(1, 9))])

    assert not driver.of().retired


def test_next_wakeup_is_when_the_longest_idle_one_retires() -> None:
    driver = Driver().feed([call(0), call(1, "kid")])
    assert next_wakeup(driver.state, KNOBS) == driver.of("kid").alive_at + KNOBS.retire_after_s

    assert next_wakeup(driver.tick(50_000).state, KNOBS) is None


def test_clock_never_goes_back() -> None:
    driver = Driver().feed([call(0, t=100.0), call(1, t=5.0)])

    assert (driver.state.now, driver.of().alive_at) == (100.0, 100.0)


def test_open_question_shows_waiting_until_its_answer() -> None:
    driver = Driver().feed([call(1), told(Kind.OPEN)])
    assert driver.of().status is Status.WAITING_USER

    assert driver.tick(3600).of().status is Status.WAITING_USER  # T02
    assert driver.feed([told(Kind.CLOSE)]).of().status is Status.ACTIVE


def test_open_questions_are_answered_one_by_one() -> None:
    driver = Driver().feed([told(Kind.OPEN, request_id="1"), told(Kind.OPEN, request_id="2")])

    assert driver.feed([told(Kind.CLOSE, request_id="1")]).of().status is Status.WAITING_USER
    assert driver.feed([told(Kind.CLOSE, request_id="2")]).of().status is Status.ACTIVE
    assert driver.feed([told(Kind.CLOSE, request_id="3")]).of().status is Status.ACTIVE


def test_open_call_is_no_question_and_its_end_closes_nothing() -> None:
    driver = Driver().feed([told(Kind.OPEN, call_id="c1")])
    assert driver.of().status is Status.ACTIVE

    assert driver.feed([told(Kind.CLOSE, call_id="c1")]).of().status is Status.ACTIVE


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (told(Kind.IDLE), Status.IDLE),
        (told(Kind.CLOSE), Status.RETIRED),
        (told(Kind.DELETED), Status.RETIRED),
        (told(Kind.TURN), Status.ACTIVE),
        (told(Kind.USER), Status.ACTIVE),
    ],
)
def test_status_after_the_last_event(last: ProgressEvent, status: Status) -> None:
    driver = Driver().feed([told(Kind.OPEN), told(Kind.TURN), last])

    assert driver.of().status is status


def test_call_without_fingerprint_is_no_repeat() -> None:
    bare = [event(tool="read", exit=0) for _ in range(40)]

    assert Driver().feed(bare).transitions == []


def test_conversations_beyond_the_bound_are_forgotten_retired_ones_first() -> None:
    kids = [call(index, f"kid{index}") for index in range(MAX_CONVERSATIONS)]
    driver = Driver().feed([call(0), *kids[:-1], told(Kind.CLOSE, "kid7"), *kids[-1:]])

    assert len(driver.state.conversations) == MAX_CONVERSATIONS
    assert driver.state.forgotten == 1
    assert "kid7" not in driver.state.conversations
    assert driver.of().children == MAX_CONVERSATIONS - 1


def test_describe_and_summarise_name_what_an_operator_asks_for() -> None:
    driver = Driver().feed([call(0), *stuck(14, "kid")])
    row, view = summarise(driver.state, KNOBS), describe(driver.state, KNOBS)

    assert row | {"last_event_at": None} == {
        "id": "root",
        "verdict": "stalling",
        "reason": "top_repeat",
        "status": "active",
        "mode": "warn",
        "stage": None,
        "conversations": 2,
        "events": 15,
        "turns_since_landed": 14,
        "usd_since_landed": 0.0,
        "top_target": "src/same.py",
        "top_repeat": 14,
        "last_event_at": None,
        "conversation": "kid",
        "agent": None,
    }
    assert [one["id"] for one in view["conversations"]] == ["root", "kid"]
    assert view["thresholds"]["top_repeat"] == 12
    assert "a critical alert once a pattern comes 2 times as often" in view["would_next"]


def test_empty_tree_can_be_shown() -> None:
    driver = Driver()

    assert summarise(driver.state, KNOBS)["verdict"] == "ok"
    assert describe(driver.state, KNOBS)["conversations"] == []


def test_step_returns_the_same_state_object() -> None:
    driver = Driver()

    assert step(driver.state, call(0, t=1.0), KNOBS)[0] is driver.state


def test_status_silent_only_inside_an_open_turn_with_nothing_open() -> None:
    def status(*events: ProgressEvent, after: float = 500) -> Status:
        driver = Driver().feed([told(Kind.USER), *events])
        return driver.of().status_at(driver.state.now + after, KNOBS.silent_after_s)

    ended = told(Kind.IDLE)
    assert status(call(1)) is Status.ACTIVE  # whether the turn is still open, nobody says
    assert status(ended, call(1)) is Status.SILENT
    assert status(ended, call(1), after=119) is Status.ACTIVE
    assert status(ended, call(1), ended) is Status.IDLE
    assert status(ended, told(Kind.OPEN, call_id="build")) is Status.ACTIVE  # T01
    assert status(ended, told(Kind.OPEN, call_id="build"), told(Kind.CLOSE, call_id="build")) is Status.SILENT
    assert status(ended, told(Kind.OPEN)) is Status.WAITING_USER  # T02
    assert status(ended, told(Kind.COMPACTION)) is Status.ACTIVE
    assert status(ended, told(Kind.RETRY)) is Status.ACTIVE
    assert status(ended, call(1, "kid", parent_session_id="root")) is Status.IDLE


def test_status_silent_child_at_work_keeps_its_parent_from_it() -> None:
    driver = Driver().feed([told(Kind.IDLE), call(1), call(2, "kid", t=900.0)])

    assert driver.of().status_at(950.0, KNOBS.silent_after_s) is Status.ACTIVE
    assert next_wakeup(driver.state, KNOBS) == 900.0 + KNOBS.silent_after_s
    assert next_wakeup(driver.tick(1021.0).state, KNOBS) == 900.0 + KNOBS.retire_after_s
    assert summarise(driver.state, KNOBS)["status"] == "active"  # the child's sensor does not say when it ends
