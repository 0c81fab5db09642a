"""kill -9 of the notifier and of root under 1,000 alerts on 5 channels whose services fail in every way.

After it settles: every message that routing admitted is at its channel, in order per key; a service that can tell
duplicates sees them by their key, and where it cannot they are marked and come once. The figures are printed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from actors.messages import AlertState, Severity
from actors.store.alert_reader import AlertReader
from tests.e2e.alert_sender import Sender, effect
from tests.e2e.daemon_rig import Daemon, until
from tests.e2e.services import Fault, Mailbox, Services

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("alert_kills")]

SEED = 20261201
KEYS = 334  # three events each, less two
NOTIFIER_KILLS = 6
ROOT_KILLS = 2
MOST_QUEUED = 60  # a sender in step with the channels: past 100 only the newest of each key is sent
CHANNELS = ("webhook", "ntfy", "slack", "pagerduty", "email")
MARK = "(may have come before)"

CONFIG = """
notifications:
  timeout_s: 0.5
  circuit_after: 8
  channels:
  - {{name: webhook, type: webhook, url: "{url}/hook", secret_env: HOOK_KEY, {free}}}
  - {{name: ntfy, type: ntfy, url: "{url}/topic", token_env: NTFY_TOKEN, {free}}}
  - {{name: slack, type: slack, url_env: SLACK_URL, {free}}}
  - {{name: pagerduty, type: pagerduty, routing_key_env: ROUTING_KEY, url: "{url}", {free}, min_severity: warning}}
  - {{name: email, type: email, host: 127.0.0.1, port: {port}, security: none, sender: a@b.c, to: [d@e.f], {free}}}
"""
FREE = "rate_limit: {burst: 10000, every_s: 1}"


class Trouble:
    """What goes wrong: seeded; ``on`` False lets everything through. Slack takes what it loses: see below."""

    def __init__(self) -> None:
        self.on = True
        self._random = random.Random(SEED)

    def __call__(self, service: str) -> Fault:
        dice = self._random.random()
        if not self.on or dice > 0.10:
            return None
        if dice < 0.003:
            return 429
        if dice < 0.01:
            return "hang"
        if dice < 0.04:
            return "lost"
        # a Slack message that is dropped twice is given up as "unknown" (at most one duplicate): not here
        return 500 if dice < 0.07 or service == "slack" else "drop"


def script() -> list[tuple[str, AlertState, Severity]]:
    """1,000 events: triggers, escalations and ends of many keys, interleaved, in order within each key."""
    dice = random.Random(SEED)
    life = [
        (AlertState.TRIGGER, Severity.WARNING),
        (AlertState.ESCALATE, Severity.CRITICAL),
        (AlertState.RESOLVE, Severity.INFO),
    ]
    order = [f"ses_{number}" for number in range(KEYS) for _ in life]
    dice.shuffle(order)
    at: Counter[str] = Counter()
    events = []
    for key in order:
        events.append((key, *life[at[key]]))
        at[key] += 1
    return events[:1000]


class Campaign:
    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.sent = 0
        self.kills: Counter[str] = Counter()
        self._dice = random.Random(SEED + 1)

    async def run(self) -> None:
        events = script()
        places = sorted(self._dice.sample(range(50, len(events) - 20), NOTIFIER_KILLS + ROOT_KILLS))
        victims = ["notifier"] * NOTIFIER_KILLS + ["root"] * ROOT_KILLS
        self._dice.shuffle(victims)
        plan = dict(zip(places, victims, strict=True))
        sender = Sender(self.daemon.runtime)
        for number, (key, state, severity) in enumerate(events):
            if number % 20 == 0:
                while await sender.queued() > MOST_QUEUED:
                    await asyncio.sleep(0.02)
            offering = asyncio.create_task(sender.raise_alert(effect(key, state, severity)))
            if number in plan:
                await asyncio.sleep(self._dice.random() * 0.02)
                await asyncio.to_thread(self._kill, plan[number])
            await offering
            self.sent += 1
        await sender.close()

    def _kill(self, victim: str) -> None:
        self.kills[victim] += 1
        if victim == "root":
            self.daemon.kill_root()
            self.daemon.start()
        else:
            children = until(lambda: self.daemon.children().get("notifier", {}).get("pid"), 20, "a notifier")
            os.kill(children, signal.SIGKILL)


STATES = ("trigger", "escalate", "resolve")
ACTIONS = {("trigger", "warning"): 0, ("trigger", "critical"): 1, ("resolve", ""): 2}


@dataclass(frozen=True)
class Seen:
    """One arrival: whose, which message (the same for its copies), its place in the life, marked as a duplicate."""

    key: str
    message: str
    place: int
    marked: bool


def arrivals(service: str, services: Services, mailbox: Mailbox) -> Iterator[Seen]:
    """Yield what a service got, in order."""
    if service == "email":
        for mail in mailbox.mails:
            yield titled(mail["Subject"], mail["Message-ID"])
    for one in services.got(service):
        body = one.body
        if service == "webhook":
            yield Seen(body["key"], one.headers["idempotency-key"], STATES.index(body["state"]), False)
        elif service == "pagerduty":
            place = ACTIONS[body["event_action"], body.get("payload", {}).get("severity", "")]
            yield Seen(body["dedup_key"], str(place), place, False)
        else:
            yield titled(body["title"] if service == "ntfy" else body["attachments"][0]["title"])


def titled(title: str, message: str = "") -> Seen:
    key = next(word for word in title.split() if word.startswith("ses_"))
    place = next(place for place, state in enumerate(STATES) if state in title)
    return Seen(key, message or str(place), place, MARK in title)


def owed(reader: AlertReader) -> dict[str, Counter[str]]:
    """Count the rows of each channel by state and reason."""
    rows: dict[str, Counter[str]] = {name: Counter() for name in CHANNELS}
    for log in reader.alert_log(limit=-1):
        for row in reader.deliveries(log.id):
            if log.key.startswith("ses_"):
                why = (row.error or "").split(":")[0] if row.state in ("suppressed", "failed") else ""
                rows[row.channel][f"{row.state} {why}".strip()] += 1
    return rows


def test_alerts_survive_kills_of_notifier_and_root_on_services_that_fail() -> None:
    trouble = Trouble()
    services, mailbox = Services(trouble), Mailbox(trouble)
    config = CONFIG.format(url=services.url, port=mailbox.port, free=FREE)
    daemon = Daemon(config, services.env)
    began = time.monotonic()
    try:
        daemon.start()
        campaign = Campaign(daemon)
        asyncio.run(campaign.run())
        raised_s = time.monotonic() - began
        trouble.on = False
        reader = AlertReader(daemon.state / "treewarden.db")
        until(lambda: not reader.deliveries_pending(), 60, "an empty outbox")
        took_s = time.monotonic() - began
        check(services, mailbox, owed(reader), campaign, (raised_s, took_s))
    finally:
        daemon.close()
        services.close()
        mailbox.close()


def check(
    services: Services, mailbox: Mailbox, rows: dict[str, Counter[str]], campaign: Campaign, times: tuple[float, float]
) -> None:
    print(f"\n{campaign.sent} alert events, {KEYS} keys, kills {dict(campaign.kills)}, seed {SEED}")
    print(f"raised within {times[0]:.1f} s, all settled after {times[1]:.1f} s")
    print(f"faults {sum(services.faults.values()) + sum(mailbox.faults.values())}: {services.faults | mailbox.faults}")
    for service in CHANNELS:
        got = list(arrivals(service, services, mailbox))
        firsts: dict[str, list[int]] = {}
        copies: Counter[tuple[str, str]] = Counter()
        unmarked = 0
        for seen in got:
            copies[seen.key, seen.message] += 1
            if copies[seen.key, seen.message] == 1:
                firsts.setdefault(seen.key, []).append(seen.place)
            else:
                unmarked += not seen.marked
        duplicates = sum(copies.values()) - len(copies)
        print(
            f"{service:10} arrived {len(got)}, messages {len(copies)}, duplicates {duplicates}"
            f" (unmarked {unmarked}, most copies {max(copies.values())}), rows {dict(rows[service])}"
        )
        # sent twice without an answer: given up, and both copies are there
        given_up = rows[service].pop("failed unknown", 0) if service == "slack" else 0
        assert rows[service] == {"delivered": campaign.sent - given_up}
        assert len(copies) == campaign.sent, f"{service}: messages are missing"
        assert all(places == sorted(places) for places in firsts.values()), f"{service}: out of order"
        if service == "slack":
            assert unmarked == 0
            assert max(copies.values()) <= 2
    assert campaign.kills == {"notifier": NOTIFIER_KILLS, "root": ROOT_KILLS}
