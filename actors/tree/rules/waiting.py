"""A wait that never ends: silent or paused repeats are healthy for a long time, not for ever (T20)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on repeats that wait."""
    if signals.wait_repeat < knobs.wait_repeat:
        return None
    return grade(signals.wait_repeat, knobs.wait_repeat, knobs), Reason.WAITING
