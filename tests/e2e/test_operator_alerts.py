"""Alerts as their operator sees them: one daemon, a desktop with buttons, a service that fails, the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from actors.messages import AlertState, Severity
from tests.e2e.alert_sender import Sender, effect
from tests.e2e.daemon_rig import Daemon, daemon, until
from tests.e2e.desktop_rig import Desktop, desktop
from tests.e2e.services import Services

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("operator_alerts")]

CONFIG = """
notifications:
  timeout_s: 1
  circuit_after: 3
  ping_url_env: PING_URL
  ping_every_s: 1
  channels:
  - {{name: desktop, type: desktop}}
  - {{name: hook, type: webhook, url: "{url}/hook", secret_env: HOOK_KEY}}
  - {{name: pager, type: pagerduty, routing_key_env: ROUTING_KEY, url: "{url}"}}
  - {{name: lost, type: slack, url_env: NO_SUCH_VARIABLE}}
"""


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    made = Services()
    yield made
    made.close()


@pytest.fixture(scope="module")
def screen() -> Iterator[Desktop]:
    with desktop() as made:
        yield made


@pytest.fixture(scope="module")
def running(services: Services, screen: Desktop) -> Iterator[Daemon]:
    env = services.env | screen.env | {"PING_URL": f"{services.url}/alive"}
    with daemon(CONFIG.format(url=services.url), env) as made:
        yield made


def raise_alert(made: Daemon, key: str, state: AlertState, severity: Severity = Severity.WARNING) -> str:
    async def run() -> str:
        sender = Sender(made.runtime)
        try:
            return await sender.raise_alert(effect(key, state, severity, source="no-progress"))
        finally:
            await sender.close()

    return asyncio.run(run())


def hooks(services: Services, key: str) -> list[str]:
    return [one.body["state"] for one in services.got("webhook") if one.body["key"] == key]


def test_channel_without_its_secret_is_one_alert_on_the_others_and_a_line_in_doctor(
    running: Daemon, services: Services, screen: Desktop
) -> None:
    until(lambda: screen.shown("NO_SUCH_VARIABLE is not set"), 15, "an alert about the channel")
    assert len(screen.shown("channel lost is disabled")) == 1
    until(lambda: hooks(services, "channel:lost") == ["trigger"], 15, "the same on the webhook")
    done = running.cli("doctor", check=7)
    line = next(line for line in done.stdout.splitlines() if "channel lost" in line)
    assert "NO_SUCH_VARIABLE is not set" in line
    assert "EnvironmentFile" in line


def test_alerts_open_why_acknowledge(running: Daemon, services: Services) -> None:
    raise_alert(running, "ack-me", AlertState.TRIGGER, Severity.CRITICAL)
    until(lambda: hooks(services, "ack-me") == ["trigger"], 10, "the trigger")
    listed = json.loads(running.cli("alerts", "--json").stdout)
    entry = next(one["entry"] for one in listed if one["key"] == "ack-me")
    assert "ack-me" in running.cli("alerts").stdout
    why = running.cli("alerts", "why", str(entry)).stdout
    assert "lost" in why
    assert "disabled" in why
    running.cli("alerts", "ack", "ack-me")
    until(lambda: hooks(services, "ack-me") == ["trigger", "acknowledge"], 10, "the acknowledgement")
    until(lambda: [one.body["event_action"] for one in services.got("pagerduty")][-1:] == ["acknowledge"], 10, "pager")
    running.cli("alerts", "ack", "nobody", check=5)
    raise_alert(running, "ack-me", AlertState.RESOLVE)
    until(lambda: hooks(services, "ack-me")[-1:] == ["resolve"], 10, "the end")


def test_silence_holds_back_and_its_end_tells_at_once(running: Daemon, services: Services, screen: Desktop) -> None:
    silence = json.loads(running.cli("alerts", "silence", "hush", "--for", "1h", "--json").stdout)
    raise_alert(running, "hush", AlertState.TRIGGER)
    assert "hush" in running.cli("alerts", "silences").stdout
    entry = next(one["entry"] for one in json.loads(running.cli("alerts", "--json").stdout) if one["key"] == "hush")
    assert "silenced" in running.cli("alerts", "why", str(entry)).stdout
    assert hooks(services, "hush") == []
    running.cli("alerts", "unsilence", str(silence["id"]))
    until(lambda: hooks(services, "hush") == ["trigger"], 3, "the trigger after the silence")
    until(lambda: screen.shown("hush"), 3, "the notification after the silence")


def test_silence_that_runs_out_tells_without_anybody(running: Daemon, services: Services) -> None:
    running.cli("alerts", "silence", "short", "--for", "2s")
    raise_alert(running, "short", AlertState.TRIGGER)
    until(lambda: hooks(services, "short") == ["trigger"], 8, "the trigger after the silence")


def test_silence_survives_kill_of_the_notifier(running: Daemon, services: Services) -> None:
    running.cli("alerts", "silence", "kept", "--for", "4s")
    raise_alert(running, "kept", AlertState.TRIGGER)
    running.kill("notifier")
    raise_alert(running, "after-kill", AlertState.TRIGGER)
    until(lambda: hooks(services, "after-kill") == ["trigger"], 10, "a notifier")
    until(lambda: hooks(services, "kept") == ["trigger"], 10, "the trigger after the silence")


def test_channels_test_sends_a_real_message_and_ends_it_where_it_would_stay(
    running: Daemon, services: Services, screen: Desktop
) -> None:
    assert "delivered" in running.cli("channels", "test", "desktop").stdout
    assert screen.shown("Test of channel desktop")
    running.cli("channels", "test", "pager")
    events = [one.body for one in services.got("pagerduty") if one.body["dedup_key"] == "test:pager"]
    assert [event["event_action"] for event in events] == ["trigger", "resolve"]
    running.cli("channels", "test", "lost", check=7)
    running.cli("channels", "test", "nobody", check=5)
    shown = running.cli("channels").stdout
    assert "environment variable NO_SUCH_VARIABLE is not set" in shown


def test_channel_that_is_down_is_told_by_the_others_and_metrics_and_recovers(
    running: Daemon, services: Services, screen: Desktop
) -> None:
    services.fault = lambda service: 503 if service == "webhook" else None
    raise_alert(running, "breaks-it", AlertState.TRIGGER)
    until(lambda: screen.shown("channel hook is down"), 30, "an alert about the channel")
    with running.client() as client:
        assert 'treewarden_channel_up{channel="hook"} 0.0' in client.get("/metrics").text
    assert "down" in running.cli("channels").stdout
    services.fault = lambda _service: None
    until(lambda: screen.shown("channel hook works again"), 60, "the end of it")
    assert hooks(services, "breaks-it") == ["trigger"]
    with running.client() as client:
        text = client.get("/metrics").text
    assert 'treewarden_notifications_total{action="trigger",channel="hook",result="delivered"}' in text


def test_feedback_is_kept_with_its_evidence(running: Daemon) -> None:
    raise_alert(running, "judged", AlertState.TRIGGER)
    entry = next(one["entry"] for one in json.loads(running.cli("alerts", "--json").stdout) if one["key"] == "judged")
    running.cli("alerts", "feedback", str(entry), "wrong", "--note", "it was waiting for CI")
    with running.client() as client:
        (kept,) = [one for one in client.get("/v1/feedback").json()["feedback"] if one["key"] == "judged"]
    assert (kept["says"], kept["note"], kept["evidence"]["severity"]) == ("wrong", "it was waiting for CI", "warning")
    running.cli("alerts", "feedback", str(entry), "maybe", check=5)


def test_dead_man_url_is_called_while_all_is_well(running: Daemon, services: Services) -> None:
    until(lambda: services.got("ping"), 15, "a ping")


def test_button_snooze_silences_the_tree(running: Daemon, services: Services, screen: Desktop) -> None:
    raise_alert(running, "snoozed", AlertState.TRIGGER)
    shown = until(lambda: screen.shown("snoozed"), 10, "the notification")[0]
    assert shown["actions"] == ["resume", "Resume", "snooze", "Snooze", "wrong", "False alarm"]
    screen.press(shown["id"], "snooze")
    until(lambda: "snoozed" in running.cli("alerts", "silences").stdout, 10, "a silence")
    screen.press(shown["id"], "wrong")
    with running.client() as client:
        until(lambda: "snoozed" in client.get("/v1/feedback").text, 10, "feedback by a button")


def test_button_resume_resumes_the_tree_and_closes_the_notification(running: Daemon, screen: Desktop) -> None:
    events = [
        {"v": 1, "id": f"e{n}", "session_id": "stuck", "kind": kind, **more}
        for n in range(60)
        for kind, more in (("turn", {}), ("tool", {"tool": "read", "fingerprint": "f", "slice": "s", "result": "r"}))
    ]
    for number, event in enumerate(events):
        event["id"] = f"e{number}"
    with running.client("sensor") as client:
        client.post("/v1/progress", json=events).raise_for_status()
    shown = until(lambda: screen.shown("stuck"), 15, "the notification")[-1]
    screen.press(shown["id"], "resume")
    until(lambda: [c for c in screen.calls if c["call"] == "CloseNotification" and c["id"] == shown["id"]], 15, "close")
    assert json.loads(running.cli("trees", "--json").stdout)
