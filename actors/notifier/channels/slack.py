"""Slack incoming webhook: a message for each change. No idempotency: a doubtful one says that it may have come before.

The answer is 200 with the body ``ok``; 429 has Retry-After; 4xx bodies are words such as ``no_service`` or
``invalid_payload`` and are final.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from actors.channel_knobs import SlackChannel
from actors.messages import AlertState
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected
from actors.notifier.channels.http import Poster, judged, secret
from actors.notifier.wording import resolved_title

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Slack"]

MOST_TEXT = 3000
COLOUR = {"info": "#439fe0", "warning": "warning", "critical": "danger"}


class Slack:
    """See the module."""

    def __init__(self, knobs: SlackChannel, tools: Tools) -> None:
        self._url = secret(tools.environ, knobs.url_env)
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        answer = await self._poster.send("POST", self._url, now, json=_message(alert))
        if not isinstance(answer, httpx.Response):
            return answer
        outcome = judged(answer, now)
        if isinstance(outcome, Delivered) and answer.text.strip() != "ok":
            return Rejected(Failure.REFUSED, f"Slack said: {answer.text[:200]}")
        return outcome

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        await self._poster.close()


def _message(alert: Alert) -> dict[str, object]:
    over = alert.state is AlertState.RESOLVE
    title = resolved_title(alert) if over else f"{alert.severity.value}: {alert.title}"
    shown = {
        "color": "good" if over else COLOUR[alert.severity.value],
        "fallback": _escaped(title),
        "title": _escaped(title),
        "text": _escaped(alert.summary[:MOST_TEXT]),
        "footer": _escaped(alert.key),
        "mrkdwn_in": [],
    }
    return {"text": "", "attachments": [shown]}


def _escaped(text: str) -> str:
    """Slack reads &, < and > as markup: a name must not become a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
