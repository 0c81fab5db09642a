"""Failures in a row whatever the wording: those that repeat a failure of the streak weigh double.

A success takes half of the streak away, so that one lucky call does not hide it. A batch that is refused target by
target is one failure (T20), and infrastructure is not the agent's (T10).
"""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on a streak of failures."""
    if signals.failure_points < knobs.failure_points:
        return None
    return grade(signals.failure_points, knobs.failure_points, knobs), Reason.FAILURE_STREAK
