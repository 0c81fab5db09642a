"""Successful calls in a row that show what had been seen twice before, whatever they are called with."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on outcomes that are known."""
    if signals.known_outcomes < knobs.known_outcomes:
        return None
    return grade(signals.known_outcomes, knobs.known_outcomes, knobs), Reason.KNOWN_OUTCOMES
