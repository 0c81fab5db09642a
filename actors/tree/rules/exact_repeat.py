"""One call with one outcome many times in the window, whatever lies between: odd calls do not hide a loop."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on equal calls in the window."""
    if signals.exact_repeat < knobs.exact_repeat:
        return None
    return grade(signals.exact_repeat, knobs.exact_repeat, knobs), Reason.EXACT_REPEAT
