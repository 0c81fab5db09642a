"""A storm: 1,000 trees raise an alert at once, every 50th a critical one, while one channel hangs for ever.

``run_storm`` starts a daemon of its own and returns figures; the test judges them, the benchmark prints them.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from dataclasses import dataclass

import httpx
import psutil

from actors.messages import AlertState, Severity
from tests.e2e.alert_sender import Sender, effect
from tests.e2e.daemon_rig import Daemon, until
from tests.e2e.services import Arrival, Services

__all__ = ["BURST", "CRITICAL", "EVERY_S", "TREES", "Figures", "run_storm"]

TREES = 1000
CRITICAL = 20
BURST = 20
EVERY_S = 5
AT_ONCE = 50
CONFIG = """
notifications:
  timeout_s: 2
  channels:
  - name: webhook
    type: webhook
    url: "{url}/hook"
    secret_env: HOOK_KEY
    rate_limit: {{burst: {burst}, every_s: {every}}}
  - {{name: pager, type: pagerduty, routing_key_env: ROUTING_KEY, url: "{url}"}}
  - {{name: hanging, type: slack, url_env: SLACK_URL}}
"""


@dataclass(frozen=True)
class Figures:
    """Seconds, milliseconds, MiB and numbers of messages; ``admission`` is p50 and p99 (quiet, storm)."""

    raised_s: float
    critical_s: float
    settled_s: float
    webhook_messages: int
    webhook_digests: int
    told_of: int
    pager_messages: int
    restarts: int
    grown_mib: float
    quiet_ms: tuple[float, float]
    storm_ms: tuple[float, float]


def run_storm() -> Figures:
    services = Services(lambda service: "hang" if service == "slack" else None)
    daemon = Daemon(CONFIG.format(url=services.url, burst=BURST, every=EVERY_S), services.env)
    try:
        daemon.start()
        return _storm(daemon, services)
    finally:
        daemon.close()
        services.close()


def _storm(daemon: Daemon, services: Services) -> Figures:
    notifier = psutil.Process(daemon.children()["notifier"]["pid"])
    with daemon.client("router") as client:
        quiet = [_admission_ms(client) for _ in range(300)]
        before = notifier.memory_info().rss
        over, busy = threading.Event(), []
        watcher = threading.Thread(target=lambda: busy.extend(_until(over, client)))
        watcher.start()
        began = time.monotonic()
        asyncio.run(_raise_all(daemon))
        raised_s = time.monotonic() - began
        over.set()
        watcher.join()
    until(lambda: len(_of(services, "critical")) == CRITICAL, 30, "every critical alert")
    critical_s = time.monotonic() - began
    until(lambda: _told_of(services) >= TREES, 60, "digests of all that was held back")
    settled_s = time.monotonic() - began
    return Figures(
        raised_s=raised_s,
        critical_s=critical_s,
        settled_s=settled_s,
        webhook_messages=len(services.got("webhook")),
        webhook_digests=len(_digests(services)),
        told_of=_told_of(services),
        pager_messages=len(services.got("pagerduty")),
        restarts=daemon.children()["notifier"]["restarts"],
        grown_mib=(notifier.memory_info().rss - before) / 2**20,
        quiet_ms=_spread(quiet),
        storm_ms=_spread(busy),
    )


def _until(over: threading.Event, client: httpx.Client) -> list[float]:
    taken = []
    while not over.wait(0.005):
        taken.append(_admission_ms(client))
    return taken


def _admission_ms(client: httpx.Client) -> float:
    began = time.perf_counter()
    client.post("/v1/admission", json={"conversation": "s1"}).raise_for_status()
    return (time.perf_counter() - began) * 1000


async def _raise_all(daemon: Daemon) -> None:
    sender = Sender(daemon.runtime)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        severity = Severity.CRITICAL if number % (TREES // CRITICAL) == 0 else Severity.WARNING
        async with gate:
            await sender.raise_alert(effect(f"tree_{number}", AlertState.TRIGGER, severity))

    await asyncio.gather(*(one(number) for number in range(TREES)))
    await sender.close()


def _of(services: Services, severity: str) -> list[Arrival]:
    return [one for one in services.got("webhook") if one.body["severity"] == severity]


def _digests(services: Services) -> list[Arrival]:
    return [one for one in services.got("webhook") if one.body["source"] == "digest"]


def _told_of(services: Services) -> int:
    """Count the alerts that the webhook was told of: one a message, as many as it says in a digest."""
    digests = _digests(services)
    return len(services.got("webhook")) - len(digests) + sum(int(one.body["title"].split()[0]) for one in digests)


def _spread(taken: list[float]) -> tuple[float, float]:
    ordered = sorted(taken)
    return round(statistics.median(ordered), 2), round(ordered[int(len(ordered) * 0.99)], 2)
