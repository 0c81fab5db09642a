"""ntfy: one notification a key, replaced as the alert changes (X-Sequence-ID, ntfy 2.16; an older server shows each).

A message of 4096 bytes or more would become an attachment, so it is cut. Headers are ASCII: JSON is published instead.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from actors.channel_knobs import NtfyChannel
from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Failure, Rejected
from actors.notifier.channels.http import Poster, secret
from actors.notifier.wording import resolved_title

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Ntfy"]

MOST_BYTES = 4000
PRIORITY = {Severity.INFO: 2, Severity.WARNING: 4, Severity.CRITICAL: 5}
TAGS = {Severity.INFO: "information_source", Severity.WARNING: "warning", Severity.CRITICAL: "rotating_light"}


class Ntfy:
    """See the module."""

    def __init__(self, knobs: NtfyChannel, tools: Tools) -> None:
        url = (knobs.url or secret(tools.environ, knobs.url_env)).rstrip("/")
        self._server, _, self._topic = url.rpartition("/")
        self._token = secret(tools.environ, knobs.token_env)
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        if not self._topic or self._server.endswith(":/"):
            return Rejected(Failure.REFUSED, "the URL names no topic, such as https://ntfy.sh/mytopic")
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        headers["X-Sequence-ID"] = hashlib.sha256(alert.key.encode()).hexdigest()[:24]
        return await self._poster.post(self._server, now, json=self._message(alert), headers=headers)

    def _message(self, alert: Alert) -> dict[str, Any]:
        over = alert.state is AlertState.RESOLVE
        text = alert.summary.encode()[:MOST_BYTES].decode(errors="ignore")
        return {
            "topic": self._topic,
            "title": resolved_title(alert) if over else alert.title,
            "message": text or alert.title,
            "priority": PRIORITY[Severity.INFO] if over else PRIORITY[alert.severity],
            "tags": ["white_check_mark"] if over else [TAGS[alert.severity]],
        }

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        await self._poster.close()
