"""Decisions over whole sequences; that channels agree with keys is in test_agreement."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier import memory
from actors.notifier.alert import Outcome
from actors.notifier.memory import NotifierState
from actors.notifier.mute import Moment
from actors.notifier.route import Rule, Why
from actors.notifier.step import apply, decide, why_skip

KEYS = ("a", "b", "c")
RULES = (
    Rule(channel="all", min_severity=Severity.INFO, lifecycle=True),
    Rule(channel="warning", min_severity=Severity.WARNING),
    Rule(channel="pager", min_severity=Severity.CRITICAL, resolve_messages=False, lifecycle=True),
    Rule(channel="off", enabled=False, min_severity=Severity.INFO),
)

effects = st.lists(
    st.builds(
        AlertEffect,
        key=st.sampled_from(KEYS),
        state=st.sampled_from(AlertState),
        severity=st.sampled_from(Severity),
        title=st.sampled_from(["one", "two"]),
        summary=st.just("s"),
        t=st.just(1.0),
    ),
    max_size=40,
)


NOW = Moment(1000.0, 1000.0)


def play(events: list[AlertEffect]) -> NotifierState:
    state = NotifierState()
    for number, effect in enumerate(events, 1):
        apply(state, decide(state, number, effect, RULES, NOW), NOW)
    return state


@given(effects, st.data())
def test_decide_repeated_effects_change_nothing(events: list[AlertEffect], data: st.DataObject) -> None:
    state = play(events)
    for number, effect in enumerate(events, 1):
        if data.draw(st.booleans()):
            before = (dict(state.open), dict(state.closed), dict(state.told))
            decision = decide(state, number, effect, RULES, NOW)
            apply(state, decision, NOW)
            assert decision.outcome is Outcome.DUPLICATE
            assert (state.open, state.closed, state.told) == before


def test_apply_closed_alerts_are_bounded() -> None:
    state = NotifierState()
    for number in range(memory.MAX_CLOSED + 5):
        effect = AlertEffect(
            key=f"k{number}", state=AlertState.RESOLVE, severity=Severity.INFO, title="t", summary="s", t=1.0
        )
        apply(state, decide(state, number + 1, effect, (), NOW), NOW)
    assert len(state.closed) == memory.MAX_CLOSED
    assert "k0" not in state.closed


def test_why_skip_table() -> None:
    told, closes, newer, backlog, enabled = True, True, True, True, True
    assert why_skip(False, False, newer, False, enabled) is None
    assert why_skip(False, False, newer, backlog, enabled) is Why.SUPERSEDED
    assert why_skip(False, False, False, backlog, enabled) is None
    assert why_skip(False, closes, False, False, enabled) is Why.NOT_TOLD
    assert why_skip(told, closes, False, False, enabled) is None
    assert why_skip(told, False, False, False, False) is Why.DISABLED
