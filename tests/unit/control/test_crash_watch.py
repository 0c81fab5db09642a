"""When an alert about a process begins and ends."""

from actors.crash_watch import alerts_due, key_of
from actors.messages import AlertState, Severity


def child(name, state="ready", slow=False):
    return {"id": name, "state": state, "slow": slow, "restarts": 11, "last_exit": "signal 9"}


def due(children, opened=()):
    return [(one.key, one.state) for one in alerts_due(children, set(opened), 5.0)]


def test_single_crash_is_no_alert():
    assert due([child("edge", "starting"), child("keeper", "backoff")]) == []


def test_slow_retry_triggers_once_and_ready_resolves():
    slow = [child("edge", "backoff", slow=True), child("keeper")]
    assert due(slow) == [("process:edge", AlertState.TRIGGER)]
    assert due(slow, ["process:edge"]) == []
    assert due([child("edge", "starting", slow=True)], ["process:edge"]) == []
    assert due([child("edge"), child("keeper")], ["process:edge"]) == [("process:edge", AlertState.RESOLVE)]


def test_alert_says_who_how_often_and_how_it_ended():
    (alert,) = alerts_due([child("edge", "backoff", slow=True)], set(), 5.0)
    assert alert.severity is Severity.CRITICAL
    assert alert.key == key_of("edge")
    assert "edge" in alert.title
    assert "11 times" in alert.summary
    assert "signal 9" in alert.summary
