"""The text of a short message. Pure."""

from __future__ import annotations

from actors.messages import AlertState
from actors.notifier.alert import Alert
from actors.notifier.wording import resolved_title

__all__ = ["short_text"]

MOST = 320  # two segments


def short_text(alert: Alert) -> str:
    """Return one or two segments of plain ASCII."""
    over = alert.state is AlertState.RESOLVE
    head = resolved_title(alert) if over else f"{alert.severity.value}: {alert.title}"
    return f"treewarden {head}. {alert.summary}".encode("ascii", "replace").decode()[:MOST]
