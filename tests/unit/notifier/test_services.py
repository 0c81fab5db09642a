"""Every channel against a real server that speaks its service's protocol: what arrives, and what each answer means."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.channel_knobs import CommandChannel
from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Channel, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.registry import CHANNELS, Tools
from actors.notifier.wording import worded
from tests.e2e.services import Mailbox, Services
from tests.unit.notifier.channel_samples import settings_at

HTTP = ["apprise", "ntfy", "pagerduty", "ringcentral", "slack", "twilio", "webhook"]


@pytest.fixture
def services() -> Iterator[Services]:
    made = Services()
    yield made
    made.close()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    yield made
    made.close()


def alert(state: AlertState = AlertState.TRIGGER, severity: Severity = Severity.CRITICAL, **changes: Any) -> Alert:
    fields = {
        "key": "ses_1",
        "severity": severity,
        "state": state,
        "title": "build is looping",
        "summary": "57 turns <b>&</b> nothing landed",
        "details": {"turns": 57},
        "source": "no-progress",
        "opened_at": 1000.0,
        "changed_at": 1001.0,
        "last_effect": 3,
        "change": 3,
    }
    return Alert.model_validate(fields | changes)


def build(kind: str, services: Services, smtp: int = 9, tools: Tools | None = None) -> Channel:
    return CHANNELS[kind].build(settings_at(services.url, smtp)[kind], tools or Tools(environ=services.env))


def send(channel: Channel, *alerts: Alert, now: float = 2000.0, timeout_s: float = 30.0) -> list[Answer]:
    async def run() -> list[Answer]:
        try:
            async with asyncio.timeout(timeout_s):
                return [await channel.deliver(one, now) for one in alerts]
        finally:
            await channel.close()

    return asyncio.run(run())


LIFE = (
    alert(AlertState.TRIGGER, Severity.WARNING, change=1),
    alert(AlertState.ESCALATE, change=2),
    alert(AlertState.RESOLVE, change=3),
)


@pytest.mark.parametrize("kind", HTTP)
def test_channel_life_of_an_alert_arrives(kind: str, services: Services) -> None:
    answers = send(build(kind, services), *LIFE)
    assert all(isinstance(answer, Delivered) for answer in answers), answers
    assert len(services.got(kind)) == 3


@pytest.mark.parametrize("kind", HTTP)
def test_channel_429_waits_as_long_as_it_is_told(kind: str, services: Services) -> None:
    services.fault = lambda service: 429 if service == kind else None
    (answer,) = send(build(kind, services), alert())
    assert isinstance(answer, Retry)
    if kind != "apprise":  # it says yes or no
        assert (answer.reason, answer.after_s, answer.ambiguous) == (Failure.THROTTLED, 1.0, False)


@pytest.mark.parametrize("kind", HTTP)
def test_channel_500_comes_again(kind: str, services: Services) -> None:
    services.fault = lambda service: 500 if service == kind else None
    (answer,) = send(build(kind, services), alert())
    assert isinstance(answer, Retry)
    assert answer.ambiguous == (kind in ("apprise", "twilio"))


@pytest.mark.parametrize("kind", [kind for kind in HTTP if kind != "apprise"])
def test_channel_400_is_final(kind: str, services: Services) -> None:
    services.fault = lambda service: 400 if service == kind else None
    (answer,) = send(build(kind, services), alert())
    assert isinstance(answer, Rejected)
    assert "400" in answer.detail


@pytest.mark.parametrize("fault", ["lost", "drop"])
@pytest.mark.parametrize("kind", HTTP)
def test_channel_connection_lost_is_ambiguous(kind: str, fault: str, services: Services) -> None:
    services.fault = lambda service: fault if service == kind else None
    (answer,) = send(build(kind, services), alert())
    assert isinstance(answer, Retry)
    assert answer.ambiguous


@pytest.mark.parametrize("kind", HTTP)
def test_channel_nobody_listens_is_not_ambiguous(kind: str, services: Services) -> None:
    channel = build(kind, services)
    services.close()
    (answer,) = send(channel, alert())
    assert isinstance(answer, Retry)
    assert answer.ambiguous == (kind == "apprise")


def test_webhook_has_a_signature_an_idempotency_key_and_the_whole_alert(services: Services) -> None:
    send(build("webhook", services), *LIFE, LIFE[2])
    keys = [arrival.headers["idempotency-key"] for arrival in services.got("webhook")]
    assert len(set(keys)) == 3
    assert keys[2] == keys[3] == services.got("webhook")[2].body["id"]
    body = services.got("webhook")[1].body
    assert body.items() >= {"key": "ses_1", "state": "escalate", "severity": "critical", "version": 1}.items()
    assert body["changed_at"] == "1970-01-01T00:16:41.000+00:00"


def test_pagerduty_maps_one_to_one(services: Services) -> None:
    send(build("pagerduty", services), *LIFE, alert(AlertState.ACKNOWLEDGE), alert(key="k" * 300))
    bodies = [arrival.body for arrival in services.got("pagerduty")]
    assert [body["event_action"] for body in bodies] == ["trigger", "trigger", "resolve", "acknowledge", "trigger"]
    assert {body["dedup_key"] for body in bodies[:4]} == {"ses_1"}
    assert [body["payload"]["severity"] for body in bodies[:2]] == ["warning", "critical"]
    assert len(bodies[4]["dedup_key"]) == 255


def test_ntfy_replaces_by_sequence_and_says_how_urgent(services: Services) -> None:
    send(build("ntfy", services), *LIFE, alert(summary="x" * 9000))
    got = services.got("ntfy")
    assert len({arrival.headers["x-sequence-id"] for arrival in got}) == 1
    assert [arrival.body["priority"] for arrival in got[:3]] == [4, 5, 2]
    assert got[2].body["title"] == "Resolved: build is looping"


def test_slack_escapes_markup_and_needs_the_word_ok(services: Services) -> None:
    send(build("slack", services), alert())
    assert services.got("slack")[0].body["attachments"][0]["text"] == "57 turns &lt;b&gt;&amp;&lt;/b&gt; nothing landed"


def test_twilio_text_is_short_and_sent_once(services: Services) -> None:
    send(build("twilio", services), alert(summary="x" * 900))
    (arrival,) = services.got("twilio")
    assert len(arrival.body["Body"]) == 320


def test_ringcentral_token_that_ran_out_is_fetched_once_more(services: Services) -> None:
    channel = build("ringcentral", services)

    async def run() -> list[Answer]:
        first = await channel.deliver(alert(), 1.0)
        services.rc_tokens.clear()
        services.rc_tokens.add("x")
        second = await channel.deliver(alert(), 1.0)
        await channel.close()
        return [first, second]

    assert all(isinstance(answer, Delivered) for answer in asyncio.run(run()))
    assert services.requests["ringcentral token"] == 2


def test_retry_after_as_a_date_is_counted_from_now() -> None:
    import httpx

    from actors.notifier.channels.http import retry_after_s

    answer = httpx.Response(429, headers={"Retry-After": "Thu, 01 Jan 1970 00:01:00 GMT"})
    assert retry_after_s(answer, 20.0) == 40.0
    assert retry_after_s(httpx.Response(429), 20.0) is None


# mail


def test_email_life_of_an_alert_is_one_thread_and_repeats_have_one_id(services: Services, mailbox: Mailbox) -> None:
    answers = send(build("email", services, mailbox.port), *LIFE, LIFE[2])
    assert all(isinstance(answer, Delivered) for answer in answers), answers
    mails = mailbox.mails
    assert len({mail["Message-ID"] for mail in mails}) == 3
    assert mails[2]["Message-ID"] == mails[3]["Message-ID"]
    assert len({mail["References"] for mail in mails}) == 1
    assert mails[1]["Subject"] == "[treewarden] critical: build is looping"
    assert "57 turns" in mails[1].get_content()


@pytest.mark.parametrize(
    ("fault", "kind", "ambiguous"),
    [(451, Retry, False), (554, Rejected, False), ("lost", Retry, True), ("drop", Retry, True)],
)
def test_email_faults(fault: Any, kind: type, ambiguous: bool, services: Services) -> None:
    box = Mailbox(lambda _service: fault)
    try:
        (answer,) = send(build("email", services, box.port), alert())
    finally:
        box.close()
    assert isinstance(answer, kind), answer
    assert getattr(answer, "ambiguous", False) == ambiguous


# programs


def program(directory: Path, text: str) -> CommandChannel:
    path = directory / "program.py"
    path.write_text(text)
    return CommandChannel(name="program", type="command", argv=(sys.executable, str(path), "; echo not a shell"))


def test_command_gets_json_on_its_standard_input_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = f"import sys, json\nopen({str(out)!r}, 'w').write(json.dumps([sys.argv[1:], json.load(sys.stdin)]))\n"
    (answer,) = send(CHANNELS["command"].build(program(tmp_path, text), Tools()), alert())
    assert isinstance(answer, Delivered)
    arguments, body = json.loads(out.read_text())
    assert arguments == ["; echo not a shell"]
    assert (body["key"], body["state"]) == ("ses_1", "trigger")


@pytest.mark.parametrize(("code", "kind"), [(0, Delivered), (75, Retry), (3, Rejected)])
def test_command_exit_codes(code: int, kind: type, tmp_path: Path) -> None:
    channel = CHANNELS["command"].build(program(tmp_path, f"raise SystemExit({code})"), Tools())
    assert isinstance(send(channel, alert())[0], kind)


def test_command_that_hangs_is_killed_with_its_time(tmp_path: Path) -> None:
    channel = CHANNELS["command"].build(program(tmp_path, "import time\ntime.sleep(600)"), Tools())
    with pytest.raises(TimeoutError):
        send(channel, alert(), timeout_s=0.5)


# what is shown


def test_worded_detail_decides_what_is_named() -> None:
    told = alert(
        summary="top repeat src/secret.py x9",
        details={"top_target": "src/secret.py", "turns": 9},
        title="src/secret.py",
    )
    knobs = settings_at("http://127.0.0.1:9")["slack"]
    short, report, full = (worded(told, knobs.model_copy(update={"detail": d})) for d in ("short", "report", "full"))
    assert "secret.py" not in f"{short.title} {short.summary} {short.details} {report.summary} {report.details}"
    assert (short.details, report.details) == ({}, {"turns": 9})
    assert "secret.py" in full.summary
    assert full.details["top_target"] == "src/secret.py"


def test_worded_templates_replace_title_and_body() -> None:
    update = {"title": "$severity $key", "body": "$title / $source"}
    knobs = settings_at("http://127.0.0.1:9")["slack"].model_copy(update=update)
    seen = worded(alert(doubtful=True), knobs)
    assert (seen.title, seen.summary) == ("critical ses_1 (may have come before)", "build is looping / no-progress")
