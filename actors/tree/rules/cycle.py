"""Two to eight calls that take turns with unchanged outcomes (T22); odd calls in between are for ``nothing_new``."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on rounds of a cycle."""
    if signals.cycle_rounds < knobs.cycle_rounds:
        return None
    return grade(signals.cycle_rounds, knobs.cycle_rounds, knobs), Reason.CYCLE
