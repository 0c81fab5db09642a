"""PagerDuty Events v2 (P078): the alert's own lifecycle; events with one dedup key are one incident.

POST /v2/enqueue: 202 taken; 400 never; 429, 5xx and network later. An escalation is a trigger with the same key and a
higher severity.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from actors.channel_knobs import PagerdutyChannel
from actors.messages import AlertState
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer
from actors.notifier.channels.http import Poster, host_name, isoformat, secret

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["ACTION", "Pagerduty", "dedup_key", "event"]

MOST_KEY = 255
MOST_SUMMARY = 1024
ACTION = {
    AlertState.TRIGGER: "trigger",
    AlertState.ESCALATE: "trigger",
    AlertState.ACKNOWLEDGE: "acknowledge",
    AlertState.RESOLVE: "resolve",
}


def dedup_key(key: str) -> str:
    """Return the key, shortened where it is too long for the service but still its own."""
    if len(key) <= MOST_KEY:
        return key
    return f"{key[: MOST_KEY - 33]}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def event(alert: Alert, routing_key: str) -> dict[str, Any]:
    """Build the body of the event."""
    shape = {"routing_key": routing_key, "event_action": ACTION[alert.state], "dedup_key": dedup_key(alert.key)}
    if shape["event_action"] != "trigger":
        return shape
    payload = {
        "summary": f"{alert.title}: {alert.summary}"[:MOST_SUMMARY],
        "source": host_name(),
        "severity": alert.severity.value,
        "timestamp": isoformat(alert.changed_at),
        "component": "treewarden",
        "class": alert.source,
        "custom_details": alert.details,
    }
    return {**shape, "client": "treewarden", "payload": payload}


class Pagerduty:
    """See the module."""

    def __init__(self, knobs: PagerdutyChannel, tools: Tools) -> None:
        self._url = f"{knobs.url}/v2/enqueue"
        self._key = secret(tools.environ, knobs.routing_key_env)
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        return await self._poster.post(self._url, now, json=event(alert, self._key))

    async def sight(self) -> str:
        return "" if len(self._key) == 32 else f"the routing key has {len(self._key)} characters, not 32"

    async def close(self) -> None:
        await self._poster.close()
