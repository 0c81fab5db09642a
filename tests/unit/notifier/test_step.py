"""Decisions over whole sequences: whatever happens, each channel's last message about a key agrees with the key."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier import step
from actors.notifier.alert import Alert, Outcome
from actors.notifier.route import Rule, Why
from actors.notifier.step import NotifierState, apply, decide, why_skip

KEYS = ("a", "b", "c")
RULES = (
    Rule(channel="all", min_severity=Severity.INFO, lifecycle=True),
    Rule(channel="warning", min_severity=Severity.WARNING),
    Rule(channel="pager", min_severity=Severity.CRITICAL, resolve_messages=False, lifecycle=True),
    Rule(channel="off", enabled=False, min_severity=Severity.INFO),
)
RANK = [Severity.INFO, Severity.WARNING, Severity.CRITICAL]

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


def play(events: list[AlertEffect]) -> tuple[NotifierState, dict[tuple[str, str], list[Alert]]]:
    """Return the final state and every admitted message by (channel, key)."""
    state = NotifierState()
    sent: dict[tuple[str, str], list[Alert]] = {}
    for number, effect in enumerate(events, 1):
        decision = decide(state, number, effect, RULES)
        apply(state, decision)
        for routed in decision.routed:
            if routed.admitted:
                sent.setdefault((routed.channel, effect.key), []).append(decision.alert)
    return state, sent


@given(effects)
def test_decide_last_message_of_each_channel_agrees_with_key(events: list[AlertEffect]) -> None:
    state, sent = play(events)
    for rule in RULES:
        for key in KEYS:
            check_agreement(rule, state.alert(key), sent.get((rule.channel, key), []))


def check_agreement(rule: Rule, alert: Alert | None, messages: list[Alert]) -> None:
    if not rule.enabled:
        assert messages == []
    elif alert is None or not alert.is_open:
        assert not messages or messages[-1].state is AlertState.RESOLVE
    elif RANK.index(alert.severity) >= RANK.index(rule.min_severity):
        last = messages[-1]
        assert (last.severity, last.title, last.is_open) == (alert.severity, alert.title, True)
    else:
        assert not messages or messages[-1].state is AlertState.RESOLVE


@given(effects)
def test_decide_no_resolve_without_a_message_before(events: list[AlertEffect]) -> None:
    _, sent = play(events)
    for messages in sent.values():
        states = [message.state for message in messages]
        assert states[0] is not AlertState.RESOLVE
        assert (AlertState.RESOLVE, AlertState.RESOLVE) not in list(pairwise(states))


@given(effects, st.data())
def test_decide_repeated_effects_change_nothing(events: list[AlertEffect], data: st.DataObject) -> None:
    state, _ = play(events)
    for number, effect in enumerate(events, 1):
        if data.draw(st.booleans()):
            before = (dict(state.open), dict(state.closed), dict(state.addressed))
            decision = decide(state, number, effect, RULES)
            apply(state, decision)
            assert decision.outcome is Outcome.DUPLICATE
            assert (state.open, state.closed, state.addressed) == before


def test_apply_closed_alerts_are_bounded() -> None:
    state = NotifierState()
    for number in range(step.MAX_CLOSED + 5):
        effect = AlertEffect(
            key=f"k{number}", state=AlertState.RESOLVE, severity=Severity.INFO, title="t", summary="s", t=1.0
        )
        apply(state, decide(state, number + 1, effect, ()))
    assert len(state.closed) == step.MAX_CLOSED
    assert "k0" not in state.closed


def message(state: AlertState) -> Alert:
    effect = AlertEffect(key="k", state=AlertState.TRIGGER, severity=Severity.INFO, title="t", summary="s", t=1.0)
    return decide(NotifierState(), 1, effect, ()).alert.model_copy(update={"state": state})


def test_why_skip_table() -> None:
    trigger, resolve = message(AlertState.TRIGGER), message(AlertState.RESOLVE)
    told, newer, backlog, enabled = True, True, True, True
    assert why_skip(trigger, False, newer, False, enabled) is None
    assert why_skip(trigger, False, newer, backlog, enabled) is Why.SUPERSEDED
    assert why_skip(trigger, False, False, backlog, enabled) is None
    assert why_skip(resolve, told, False, False, enabled) is None
    assert why_skip(resolve, False, False, False, enabled) is Why.NOT_TOLD
    assert why_skip(trigger, False, False, False, False) is Why.DISABLED
