"""Alerts on the operator's desktop: the session bus first, notify-send when the bus cannot be reached (P087, P088).

A critical notification stays until it is closed. An escalation replaces the notification of its key, a resolve closes
it and (``resolve_messages``) shows a short one. Ids of shown notifications live in memory: after a restart of this
process an escalation shows a new notification and a resolve cannot close the old one. They are forgotten when the
notification service changes its owner, because its ids may then belong to somebody else. While the bus is away every
delivery looks for it again.
"""

from __future__ import annotations

import asyncio
import html
import shutil

from actors.messages import Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.session_bus import BusRefused, BusUnavailable, Notification, SessionBus

__all__ = ["URGENCY", "Desktop", "notify_send_argv", "resolved_text"]

URGENCY = {Severity.INFO: "low", Severity.WARNING: "normal", Severity.CRITICAL: "critical"}
_PERSISTS_MS = 0
_SERVER_DEFAULT_MS = -1


def _one_line(text: str) -> str:
    """Titles and summaries carry names chosen by clients; keep control characters out of the desktop."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def resolved_text(alert: Alert) -> tuple[str, str]:
    """Return title and body of the short message that an alert is over."""
    return _one_line(f"Resolved: {alert.title}"), _one_line(alert.summary)


def notify_send_argv(binary: str, urgency: str, title: str, body: str) -> list[str]:
    """Build the fallback's command line; the text goes after ``--``, so it is never taken for an option."""
    return [binary, "--app-name=treewarden", f"--urgency={urgency}", "--", title, html.escape(body, quote=False)]


class Desktop:
    """The desktop channel. ``bus`` is replaceable for a bus at another address."""

    def __init__(self, resolve_messages: bool, bus: SessionBus | None = None) -> None:
        self._resolve_messages = resolve_messages
        self._bus = bus or SessionBus()

    async def deliver(self, alert: Alert, now: float) -> Answer:
        """Show, replace or close the notification of ``alert.key``."""
        try:
            await self._by_bus(alert)
        except BusUnavailable as error:
            return await self._by_command(alert, str(error))
        except BusRefused as error:
            return Retry(Failure.REFUSED if error.answered else Failure.BLIND, str(error))
        return Delivered("session bus")

    async def sight(self) -> str:
        """Return "" when the bus has a notification service or notify-send exists, else what is missing."""
        try:
            await self._bus.capabilities()
        except BusUnavailable as error:
            return "" if shutil.which("notify-send") else _blind(str(error))
        except BusRefused as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Disconnect; shown notifications stay."""
        self._bus.disconnect()

    async def _by_bus(self, alert: Alert) -> None:
        if alert.is_open:
            await self._bus.show(alert.key, self._notification(alert))
            return
        await self._bus.dismiss(alert.key)
        if self._resolve_messages:
            title, body = resolved_text(alert)
            await self._bus.show("", Notification(title, body, URGENCY[Severity.INFO], _SERVER_DEFAULT_MS))

    def _notification(self, alert: Alert) -> Notification:
        expire_ms = _PERSISTS_MS if alert.severity is Severity.CRITICAL else _SERVER_DEFAULT_MS
        return Notification(_one_line(alert.title), _one_line(alert.summary), URGENCY[alert.severity], expire_ms)

    async def _by_command(self, alert: Alert, why_no_bus: str) -> Answer:
        binary = shutil.which("notify-send")
        if binary is None:
            return Rejected(Failure.BLIND, _blind(why_no_bus))
        if alert.is_open:
            title, body, urgency = _one_line(alert.title), _one_line(alert.summary), URGENCY[alert.severity]
        elif self._resolve_messages:
            (title, body), urgency = resolved_text(alert), URGENCY[Severity.INFO]
        else:
            return Delivered("nothing to say without the bus")  # the command cannot close what it showed
        return await _run(notify_send_argv(binary, urgency, title, body), why_no_bus)


def _blind(why_no_bus: str) -> str:
    return f"{why_no_bus}, and notify-send is not installed (package libnotify-bin)"


async def _run(argv: list[str], why_no_bus: str) -> Answer:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:  # cancelled by the timeout: do not leave it behind
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return Delivered("notify-send")
    said = _one_line(errors.decode("utf8", "replace"))[:200] or f"exit code {process.returncode}"
    return Rejected(Failure.BLIND, f"{why_no_bus}, and notify-send failed: {said}")
