"""One alert per tree that follows its verdict (P050, P139)."""

from __future__ import annotations

import pytest

from actors.messages import AlertState, Kind, Severity
from tests.unit.tree.streams import Driver, call, told


def lifecycle(driver: Driver) -> list[tuple[str, str, str]]:
    return [(one.key, one.state.value, one.severity.value) for one in driver.alerts]


def test_alert_thousand_events_inside_one_verdict_are_one() -> None:
    driver = Driver().feed(call("same", round="r") for _ in range(1000))

    assert lifecycle(driver) == [("root", "trigger", "warning")]


def test_alert_escalates_once_and_resolves_at_the_end() -> None:
    driver = Driver().feed([*(call("same") for _ in range(300)), call("fix", landed=True)])

    assert lifecycle(driver) == [
        ("root", "trigger", "warning"),
        ("root", "escalate", "critical"),
        ("root", "resolve", "info"),
    ]


def test_alert_straight_to_looping_triggers_critical() -> None:
    spend = [call(index % 5, cost_usd=0.01) for index in range(9)]
    driver = Driver().feed([*spend, call(0, cost_usd=5.0)])

    assert lifecycle(driver) == [("root", "trigger", "critical")]


def test_alert_back_to_stalling_says_nothing_and_looping_again_neither() -> None:
    driver = Driver().feed(call("same", "a") for _ in range(60))
    driver.feed(call("same", "b") for _ in range(20))
    driver.feed([call("fix", "a", landed=True), *(call("same", "b") for _ in range(60))])

    assert [one[1] for one in lifecycle(driver)] == ["trigger", "escalate"]


def test_alert_second_stuck_child_is_the_same_alert() -> None:
    driver = Driver().feed(call("same", name) for name in ("a", "b") for _ in range(12))

    assert lifecycle(driver) == [("root", "trigger", "warning")]


def test_alert_resolves_only_when_the_last_stuck_child_is_ok() -> None:
    driver = Driver().feed(call("same", name) for name in ("a", "b") for _ in range(12))
    assert len(driver.feed([call("x", "a", landed=True)]).alerts) == 1

    assert driver.feed([call("y", "b", landed=True)]).alerts[-1].state is AlertState.RESOLVE


def test_alert_names_session_agent_turns_dollars_and_top_target() -> None:
    driver = Driver().feed(call("navbar", "kid", agent="build", cost_usd=0.07) for _ in range(12))
    alert = driver.alerts[0]

    assert alert.title == "build is stalling: one place was looked at 12 times in the last 12 calls"
    assert alert.summary == (
        "session kid (build, below root): 12 turns and $0.84 since the last landed change, "
        "top repeat src/navbar.py x12; one place was looked at 12 times in the last 12 calls"
    )  # P050
    assert alert.details["conversation"] == "kid"
    assert alert.details["top_target"] == "src/navbar.py"
    assert (alert.key, alert.t, alert.source) == ("root", 12.0, "no-progress")


@pytest.mark.parametrize(
    ("last", "reason"),
    [(told(Kind.USER), "user_turn"), (told(Kind.CLOSE), "retired"), (call("x", landed=True), "landed")],
)
def test_alert_resolve_says_why(last: object, reason: str) -> None:
    driver = Driver().feed([*(call("same") for _ in range(12)), last])  # type: ignore[list-item]

    assert (driver.alerts[-1].severity, driver.alerts[-1].summary) == (Severity.INFO, f"session root: {reason}")
