"""Most of the last calls had been made with the same outcome twice before: a loop with odd calls in between."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.signals import Signals, latest

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return stalling for 12 calls, looping for 24."""
    if not signals.again:
        return None
    if latest(signals.again, 2) >= knobs.nothing_new * 2:
        return Verdict.LOOPING, Reason.NOTHING_NEW
    return (Verdict.STALLING, Reason.NOTHING_NEW) if latest(signals.again, 1) >= knobs.nothing_new else None
