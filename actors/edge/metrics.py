"""Prometheus metrics of the edge. Labels come from closed sets, never from a session: there is no end of those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.messages import ProgressEvent
from actors.sensors.item_errors import ItemError
from actors.tree.requests import TreeRow

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
FIELDS = frozenset(ProgressEvent.model_fields)


class Metrics:
    """The edge's registry; one a process."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self._events = Counter("treewarden_events", "Items of progress requests", ["result"], registry=made)
        self._errors = Counter("treewarden_ingest_errors", "Rejected fields", ["field"], registry=made)
        self._verdicts = Counter(
            "treewarden_verdicts", "Verdict changes of trees", ["verdict", "reason"], registry=made
        )
        self._latency = Histogram(
            "treewarden_request_seconds",
            "Time to answer, body included",
            ["route", "status"],
            buckets=BUCKETS,
            registry=made,
        )
        Gauge("treewarden_build_info", "Version", ["version"], registry=made).labels(version).set(1)

    def gauge(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a gauge whose values are read at scrape time, by the values of ``label``."""
        self.registry.register(_Read(name, text, label, read))

    def counted(self, counts: Mapping[str, int], errors: Iterable[ItemError]) -> None:
        """Count the items of one progress request."""
        for result, number in counts.items():
            if number:
                self._events.labels(result).inc(number)
        for error in errors:
            self._errors.labels(error.field if error.field in FIELDS else "other").inc()

    def judged(self, row: TreeRow) -> None:
        """Count a change of a tree's verdict."""
        self._verdicts.labels(row.verdict.value, row.reason.value).inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Observe one request of a hot route."""
        self._latency.labels(route, str(status)).observe(seconds)

    def text(self) -> bytes:
        """Render for a scrape."""
        return generate_latest(self.registry)


class _Read(Collector):
    def __init__(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._name = name
        self._text = text
        self._label = label
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for value, number in self._read().items():
            family.add_metric([value], number)
        yield family
