"""What a channel says of an alert: its template, and only as much detail as its operator allows. Pure.

Titles and summaries carry names that clients chose: control characters never leave here. A target (a path, the words of
a command) is named only with detail full; report gives figures without it; short gives no details at all.
"""

from __future__ import annotations

import json
from string import Template
from typing import Any

from actors.channel_knobs import ChannelKnobs
from actors.notifier.alert import Alert

__all__ = ["ACTIONS", "one_line", "resolved_title", "worded"]

_TARGETS = ("top_target", "target", "path", "paths", "targets")
_UNNAMED = "(target)"
ACTIONS = {"trigger": "new", "escalate": "worse", "acknowledge": "taken on", "resolve": "over"}


def one_line(text: str) -> str:
    """Return ``text`` without control characters and line breaks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def resolved_title(alert: Alert) -> str:
    return one_line(f"Resolved: {alert.title}")


def worded(alert: Alert, knobs: ChannelKnobs) -> Alert:
    """Return the alert as this channel shows it."""
    seen = alert if knobs.detail == "full" else _without_targets(alert)
    details = {} if knobs.detail == "short" else seen.details
    fields = {
        **seen.model_dump(mode="json", include={"key", "severity", "state", "title", "summary", "source"}),
        "details": json.dumps(details),
    }
    title = Template(knobs.title).substitute(fields) if knobs.title else seen.title
    body = Template(knobs.body).substitute(fields) if knobs.body else seen.summary
    mark = " (may have come before)" if alert.doubtful else ""
    return seen.model_copy(update={"title": one_line(title) + mark, "summary": one_line(body), "details": details})


def _without_targets(alert: Alert) -> Alert:
    title, summary = alert.title, alert.summary
    for name in _TARGETS:
        target = alert.details.get(name)
        if isinstance(target, str) and target:
            title, summary = title.replace(target, _UNNAMED), summary.replace(target, _UNNAMED)
    return alert.model_copy(update={"title": title, "summary": summary, "details": _pruned(alert.details)})


def _pruned(details: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in details.items() if name not in _TARGETS}
    return {name: _pruned(value) if isinstance(value, dict) else value for name, value in kept.items()}
