"""The whole routing matrix: severity x state x settings of the channel (P079, P082)."""

from __future__ import annotations

from itertools import product

import pytest

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.route import Rule, Why, route

ORDER = ["info", "warning", "critical"]
BOTH = (True, False)


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
    )


@pytest.mark.parametrize(("least", "severity", "enabled"), list(product(ORDER, ORDER, BOTH)))
@pytest.mark.parametrize("state", [AlertState.TRIGGER, AlertState.ESCALATE])
def test_route_open_alert_goes_by_severity(state: AlertState, least: str, severity: str, enabled: bool) -> None:
    rule = Rule(channel="c", enabled=enabled, min_severity=Severity(least))
    (routed,) = route(alert(state, severity), [rule], frozenset())
    assert routed.admitted == (enabled and ORDER.index(severity) >= ORDER.index(least))
    if not routed.admitted:
        assert routed.why is (Why.BELOW_MIN_SEVERITY if enabled else Why.DISABLED)


@pytest.mark.parametrize(("enabled", "told", "messages", "lifecycle"), list(product(BOTH, repeat=4)))
def test_route_resolve_goes_only_to_the_told(enabled: bool, told: bool, messages: bool, lifecycle: bool) -> None:
    rule = Rule(
        channel="c",
        enabled=enabled,
        min_severity=Severity.CRITICAL,
        resolve_messages=messages,
        lifecycle=lifecycle,
    )
    (routed,) = route(alert(AlertState.RESOLVE, "info"), [rule], frozenset({"c"} if told else ()))
    assert routed.admitted == (enabled and told and (messages or lifecycle))


def test_route_every_channel_gets_a_reason() -> None:
    rules = [Rule(channel=name, enabled=name != "b") for name in "abc"]
    routed = route(alert(AlertState.TRIGGER, "warning"), rules, frozenset())
    assert [(r.channel, r.why) for r in routed] == [("a", Why.ADMITTED), ("b", Why.DISABLED), ("c", Why.ADMITTED)]
