"""Mail over SMTP. The Message-ID is that of the message, however often it is sent, and a key's mails are one thread.

4yz answers and network faults come again, 5yz are final. A connection that breaks after the text was sent may have
delivered it; the same Message-ID lets the receiver drop the second one.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING

import aiosmtplib

from actors.channel_knobs import EmailChannel
from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.http import as_json, host_name, secret
from actors.notifier.wording import resolved_title

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Mail", "composed"]


def composed(alert: Alert, sender: str, to: tuple[str, ...], now: float) -> EmailMessage:
    """Build the mail."""
    over = alert.state is AlertState.RESOLVE
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, ", ".join(to)
    mail["Subject"] = f"[treewarden] {resolved_title(alert) if over else f'{alert.severity.value}: {alert.title}'}"
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    domain = sender.rpartition("@")[2]
    thread = f"<{hashlib.sha256(alert.key.encode()).hexdigest()[:32]}@{domain}>"
    mail["Message-ID"] = f"<{alert.message_id}@{domain}>"
    mail["In-Reply-To"] = mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"
    if alert.severity is Severity.CRITICAL and not over:
        mail["Importance"] = "high"
    details = as_json(alert.details).decode() if alert.details else ""
    lines = [alert.summary, "", f"key: {alert.key}", f"source: {alert.source} on {host_name()}", details]
    mail.set_content("\n".join(lines).rstrip() + "\n")
    return mail


class Mail:
    """See the module."""

    def __init__(self, knobs: EmailChannel, tools: Tools) -> None:
        self._knobs = knobs
        self._password = secret(tools.environ, knobs.password_env)

    async def deliver(self, alert: Alert, now: float) -> Answer:
        knobs = self._knobs
        mail = composed(alert, knobs.sender, knobs.to, now)
        try:
            refused, _ = await aiosmtplib.send(
                mail,
                hostname=knobs.host,
                port=knobs.port,
                username=knobs.user,
                password=self._password or None,
                use_tls=knobs.security == "tls",
                start_tls=knobs.security == "starttls",
                timeout=None,
            )
        except aiosmtplib.SMTPException as error:
            return _judged(error)
        except OSError as error:
            return Retry(Failure.UNAVAILABLE, f"{knobs.host}: {error.strerror or error}")
        if refused:
            return Delivered(f"not to {', '.join(sorted(refused))}")
        return Delivered()

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        return None


def _judged(error: aiosmtplib.SMTPException) -> Answer:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        codes = [one.code for one in error.recipients]
        final = bool(codes) and all(code >= 500 for code in codes)
        return Rejected(Failure.REFUSED, said) if final else Retry(Failure.UNAVAILABLE, said)
    if isinstance(error, aiosmtplib.SMTPConnectError):
        return Retry(Failure.UNAVAILABLE, said)
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code >= 500:
        return Rejected(Failure.REFUSED, said)
    if isinstance(error, aiosmtplib.SMTPResponseException) and error.code >= 400:
        throttled = error.code in (421, 450, 451, 452)
        return Retry(Failure.THROTTLED if throttled else Failure.UNAVAILABLE, said)
    return Retry(Failure.UNAVAILABLE, said, ambiguous=True)
