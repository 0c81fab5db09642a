"""What /metrics tells of alerts and channels: asked of the notifier at each scrape, left out while it does not answer.

Labels are channels, actions and reason tokens: closed sets, never a session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.edge.api.context import Context
from actors.notifier.requests import Health, NotifierHealth
from actors.store.reader import Unreadable
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["notifications"]

TIMEOUT_S = 1.0


async def notifications(context: Context) -> bytes:
    """Render the families in Prometheus text."""
    try:
        health = await Ref(context.endpoint, "notifier").ask(NotifierHealth(), Health, timeout_s=TIMEOUT_S)
    except BusError:
        health = None
    registry = CollectorRegistry()
    registry.register(_Families(health, _depth(context)))
    return generate_latest(registry)


def _depth(context: Context) -> int | None:
    try:
        return context.reader.outbox_depth()
    except Unreadable:
        return None


class _Families(Collector):
    def __init__(self, health: Health | None, depth: int | None) -> None:
        self._health = health
        self._depth = depth

    def collect(self) -> Iterator[Metric]:
        if self._depth is not None:
            yield GaugeMetricFamily("treewarden_outbox_depth", "Effects that are not done", value=self._depth)
        if self._health is not None:
            yield from _sent(self._health)
            yield from _channels(self._health)


def _sent(health: Health) -> Iterator[Metric]:
    sent = CounterMetricFamily(
        "treewarden_notifications", "Deliveries that ended", labels=["channel", "action", "result"]
    )
    failed = CounterMetricFamily(
        "treewarden_notification_failures", "Deliveries that failed", labels=["channel", "reason"]
    )
    results: Counter[tuple[str, str, str]] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for count in health.counts:
        results[count.channel, count.action, count.result] += count.count
        if count.result == "failed":
            reasons[count.channel, count.reason] += count.count
    for labels, number in results.items():
        sent.add_metric(labels, number)
    for pair, number in reasons.items():
        failed.add_metric(pair, number)
    yield sent
    yield failed


def _channels(health: Health) -> Iterator[Metric]:
    yield GaugeMetricFamily("treewarden_alerts_open", "Alerts that are open", value=health.alerts_open)
    up = GaugeMetricFamily("treewarden_channel_up", "Whether a channel can deliver", labels=["channel"])
    queued = GaugeMetricFamily("treewarden_notifications_queued", "Messages that wait", labels=["channel"])
    held = GaugeMetricFamily("treewarden_notifications_held", "Alerts that are held back", labels=["channel"])
    for channel in health.channels:
        up.add_metric([channel.name], float(channel.state == "ok"))
        queued.add_metric([channel.name], channel.queued)
        held.add_metric([channel.name], channel.held)
    yield from (up, queued, held)
