"""JSON to a URL of the operator's own: the whole lifecycle, an idempotency key, a signature.

Headers: ``Idempotency-Key`` (the same however often a message comes), and with a secret ``X-Treewarden-Signature:
t=SECONDS,v1=HEX``, HEX being HMAC-SHA256 of ``SECONDS.BODY``. The receiver compares in constant time and refuses old
times.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from actors.channel_knobs import WebhookChannel
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer
from actors.notifier.channels.http import Poster, as_json, isoformat, secret

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Webhook", "payload", "signature"]


def payload(alert: Alert) -> dict[str, Any]:
    """Return the alert as programs get it; also what a command reads."""
    fields = alert.model_dump(
        mode="json", include={"key", "severity", "state", "title", "summary", "details", "source"}
    )
    times = {"opened_at": isoformat(alert.opened_at), "changed_at": isoformat(alert.changed_at)}
    return {"version": 1, "id": alert.message_id, **fields, **times, "may_be_duplicate": alert.doubtful}


def signature(key: str, at: int, body: bytes) -> str:
    """Return the value of the signature's header."""
    made = hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={made}"


class Webhook:
    """See the module."""

    def __init__(self, knobs: WebhookChannel, tools: Tools) -> None:
        self._url = knobs.url or secret(tools.environ, knobs.url_env)
        self._key = secret(tools.environ, knobs.secret_env)
        self._token = secret(tools.environ, knobs.token_env)
        self._poster = Poster()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        body = as_json(payload(alert))
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert.message_id}
        if self._key:
            headers["X-Treewarden-Signature"] = signature(self._key, int(now), body)
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return await self._poster.post(self._url, now, content=body, headers=headers)

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        await self._poster.close()
