"""One target with one outcome again and again, in ever new words: rewording does not hide a loop (P128, T23)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on calls of one target that all ended alike."""
    if signals.same_outcome < knobs.same_outcome:
        return None
    return grade(signals.same_outcome, knobs.same_outcome, knobs), Reason.SAME_OUTCOME
