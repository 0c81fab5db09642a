"""Every service that apprise knows, by its URL: Pushover, Telegram, Discord, Matrix and the rest.

apprise works in a thread and says yes or no: a no may be anything, so it comes again; nobody knows whether a part of
it arrived. It neither replaces nor closes what it sent.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from actors.channel_knobs import AppriseChannel
from actors.messages import AlertState
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.http import secret
from actors.notifier.wording import resolved_title

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["AppriseUrls"]

KIND = {"info": "info", "warning": "warning", "critical": "failure"}


class AppriseUrls:
    """See the module."""

    def __init__(self, knobs: AppriseChannel, tools: Tools) -> None:
        self._url = secret(tools.environ, knobs.url_env)
        self._service: Any = None
        self._lock = threading.Lock()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        service = await asyncio.to_thread(self._loaded)
        if service is None:
            return Rejected(Failure.REFUSED, "apprise does not know this URL")
        over = alert.state is AlertState.RESOLVE
        title = resolved_title(alert) if over else alert.title
        kind = "success" if over else KIND[alert.severity.value]
        sent = await asyncio.to_thread(service.notify, body=alert.summary or title, title=title, notify_type=kind)
        return Delivered() if sent else Retry(Failure.UNAVAILABLE, "apprise could not send it", ambiguous=True)

    async def sight(self) -> str:
        return "" if await asyncio.to_thread(self._loaded) is not None else "apprise does not know this URL"

    async def close(self) -> None:
        self._service = None

    def _loaded(self) -> Any:
        """Loading apprise takes seconds: only where it is used, and in a thread."""
        with self._lock:
            if self._service is None:
                import apprise

                logging.getLogger("apprise").setLevel(logging.ERROR)  # its warnings show URLs, which are secrets
                service = apprise.Apprise()
                self._service = service if service.add(self._url) else None
                for one in service:
                    one.request_rate_per_sec = 0  # else it sleeps between two messages; the lane has the limits
            return self._service
