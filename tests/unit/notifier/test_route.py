"""The whole routing matrix: severity x state x settings of the channel x what mutes (P079, P082)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from actors.channel_knobs import Quiet
from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.route import Facts, Rule, Told, Why, judge

ORDER = ["info", "warning", "critical"]
BOTH = (True, False)
ALL_DAY = Quiet(start="00:00", end="23:59")


def alert(state: AlertState, severity: str) -> Alert:
    return Alert(
        key="k",
        severity=Severity(severity),
        state=state,
        title="t",
        summary="s",
        source="x",
        opened_at=1,
        changed_at=1,
        last_effect=1,
        change=1,
    )


def told(severity: str = "warning", change: int = 0) -> Told:
    return Told(state=AlertState.TRIGGER, severity=Severity(severity), change=change)


@pytest.mark.parametrize(("least", "severity", "enabled"), list(product(ORDER, ORDER, BOTH)))
@pytest.mark.parametrize("state", [AlertState.TRIGGER, AlertState.ESCALATE])
def test_judge_open_alert_goes_by_severity(state: AlertState, least: str, severity: str, enabled: bool) -> None:
    rule = Rule(channel="c", enabled=enabled, min_severity=Severity(least))
    routed = judge(alert(state, severity), rule, None, Facts())
    assert routed.admitted == (enabled and ORDER.index(severity) >= ORDER.index(least))
    if not routed.admitted:
        assert routed.why is (Why.BELOW_MIN_SEVERITY if enabled else Why.DISABLED)


@pytest.mark.parametrize(("enabled", "knows", "messages", "lifecycle"), list(product(BOTH, repeat=4)))
def test_judge_resolve_goes_only_to_the_told(enabled: bool, knows: bool, messages: bool, lifecycle: bool) -> None:
    rule = Rule(
        channel="c",
        enabled=enabled,
        min_severity=Severity.CRITICAL,
        resolve_messages=messages,
        lifecycle=lifecycle,
    )
    routed = judge(alert(AlertState.RESOLVE, "info"), rule, told() if knows else None, Facts())
    assert routed.admitted == (enabled and knows and (messages or lifecycle))


MUTES: list[tuple[dict[str, Any], dict[str, Any], Why, bool]] = [
    ({}, {"acknowledged": Severity.CRITICAL}, Why.ACKNOWLEDGED, False),
    ({}, {"inhibited": True}, Why.INHIBITED, True),
    ({}, {"silenced_for_s": 5.0}, Why.SILENCED, False),
    ({}, {"flapping_for_s": 5.0}, Why.FLAPPING, True),
    ({"quiet": ALL_DAY}, {}, Why.QUIET_HOURS, True),
    ({"quiet": ALL_DAY.model_copy(update={"critical_passes": False})}, {}, Why.QUIET_HOURS, False),
    ({}, {"budget_in_s": 5.0}, Why.RATE_LIMITED, True),
    ({"sources": ("y",)}, {}, Why.SOURCE_NOT_WANTED, False),
]


@pytest.mark.parametrize(("settings", "facts", "why", "critical_passes"), MUTES, ids=[m[2] for m in MUTES])
@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_judge_what_mutes_an_open_alert(
    settings: dict[str, Any], facts: dict[str, Any], why: Why, critical_passes: bool, severity: str
) -> None:
    routed = judge(alert(AlertState.TRIGGER, severity), Rule(channel="c", **settings), None, Facts(**facts))
    passes = critical_passes and severity == "critical"
    assert routed.why is (Why.ADMITTED if passes else why)


@pytest.mark.parametrize(("settings", "facts", "why", "_"), MUTES, ids=[m[2] for m in MUTES])
@pytest.mark.parametrize("silent", BOTH)
def test_judge_what_mutes_a_resolve(
    settings: dict[str, Any], facts: dict[str, Any], why: Why, _: bool, silent: bool
) -> None:
    rule = Rule(channel="c", lifecycle=True, silent_close=silent, **settings)
    routed = judge(alert(AlertState.RESOLVE, "warning"), rule, told(), Facts(**facts))
    late = {Why.FLAPPING} if silent else {Why.FLAPPING, Why.QUIET_HOURS, Why.RATE_LIMITED}
    assert routed.why is (why if why in late else Why.ADMITTED)
    assert (routed.again_s is not None) == (why in late)


def test_judge_says_trigger_first_and_escalate_to_who_knows() -> None:
    rule = Rule(channel="c")
    escalated = alert(AlertState.ESCALATE, "critical")
    assert judge(escalated, rule, None, Facts()).action is AlertState.TRIGGER
    assert judge(escalated, rule, told(), Facts()).action is AlertState.ESCALATE
    assert judge(escalated, rule, told("critical", change=1), Facts()).why is Why.KNOWN


def test_judge_alert_that_fell_below_the_least_severity_ends_for_the_channel() -> None:
    rule = Rule(channel="c", min_severity=Severity.CRITICAL)
    routed = judge(alert(AlertState.TRIGGER, "warning"), rule, told("critical"), Facts())
    assert (routed.why, routed.action) == (Why.ADMITTED, AlertState.RESOLVE)
