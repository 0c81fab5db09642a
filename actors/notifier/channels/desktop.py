"""Alerts on the operator's desktop: the session bus first, notify-send when the bus cannot be reached (P087, P088).

A critical notification stays until it is closed. An escalation replaces the notification of its key, a resolve closes
it and (``resolve_messages``) shows a short one. The ids of shown notifications are kept in the store, with the owner
of the notification service, because another one's ids belong to somebody else; so a later process replaces and closes
what an earlier one showed. Buttons (Resume, Snooze, False alarm) are told to ``acted`` by key. While the bus is away
every delivery looks for it again.
"""

from __future__ import annotations

import asyncio
import html
import shutil
from typing import TYPE_CHECKING

from actors.channel_knobs import DesktopChannel
from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Recall, Rejected, Remember, Retry
from actors.notifier.channels.session_bus import BusRefused, BusUnavailable, Notification, SessionBus
from actors.notifier.wording import one_line, resolved_title

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["URGENCY", "Desktop", "notify_send_argv", "resolved_text"]

URGENCY = {Severity.INFO: "low", Severity.WARNING: "normal", Severity.CRITICAL: "critical"}
NO_PROGRESS = "no-progress"  # alerts about trees: a button means one
_PERSISTS_MS = 0
_SERVER_DEFAULT_MS = -1


BUTTONS = (("resume", "Resume"), ("snooze", "Snooze"), ("wrong", "False alarm"))


def resolved_text(alert: Alert) -> tuple[str, str]:
    """Return title and body of the short message that an alert is over."""
    return resolved_title(alert), one_line(alert.summary)


def notify_send_argv(binary: str, urgency: str, title: str, body: str) -> list[str]:
    """Build the fallback's command line; the text goes after ``--``, so it is never taken for an option."""
    return [binary, "--app-name=treewarden", f"--urgency={urgency}", "--", title, html.escape(body, quote=False)]


class Desktop:
    """The desktop channel. ``bus`` is replaceable for a bus at another address."""

    def __init__(
        self,
        resolve_messages: bool,
        bus: SessionBus | None = None,
        *,
        recall: Recall = lambda _key: None,
        remember: Remember | None = None,
    ) -> None:
        self._resolve_messages = resolve_messages
        self._bus = bus or SessionBus()
        self._recall = recall
        self._remember = remember

    @classmethod
    def build(cls, knobs: DesktopChannel, tools: Tools) -> Desktop:
        def pressed(key: str, reference: str, action: str) -> None:
            known = key or tools.key_of(reference)
            if known:
                tools.acted(known, action)

        bus = SessionBus(acted=pressed)
        return cls(knobs.resolve_messages, bus, recall=tools.recall, remember=tools.remember)

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
        await self._bus.adopt(alert.key, self._recall(alert.key))
        if alert.state is not AlertState.RESOLVE:
            await self._bus.show(alert.key, self._notification(alert))
            await self._keep(alert.key)
            return
        await self._bus.dismiss(alert.key)
        if self._resolve_messages:
            title, body = resolved_text(alert)
            await self._bus.show("", Notification(title, body, URGENCY[Severity.INFO], _SERVER_DEFAULT_MS))

    async def _keep(self, key: str) -> None:
        reference = self._bus.reference(key)
        if self._remember is not None and reference:
            await self._remember(key, reference)

    def _notification(self, alert: Alert) -> Notification:
        expire_ms = _PERSISTS_MS if alert.severity is Severity.CRITICAL else _SERVER_DEFAULT_MS
        return Notification(
            one_line(alert.title),
            one_line(alert.summary),
            URGENCY[alert.severity],
            expire_ms,
            actions=BUTTONS if alert.is_open and alert.source == NO_PROGRESS else (),
        )

    async def _by_command(self, alert: Alert, why_no_bus: str) -> Answer:
        binary = shutil.which("notify-send")
        if binary is None:
            return Rejected(Failure.BLIND, _blind(why_no_bus))
        if alert.state is not AlertState.RESOLVE:
            title, body, urgency = one_line(alert.title), one_line(alert.summary), URGENCY[alert.severity]
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
    said = one_line(errors.decode("utf8", "replace"))[:200] or f"exit code {process.returncode}"
    return Rejected(Failure.BLIND, f"{why_no_bus}, and notify-send failed: {said}")
