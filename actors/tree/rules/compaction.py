"""Compactions with next to nothing between them: what is left is larger than the window."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on compactions in a row."""
    if signals.compaction_run < knobs.compaction_run:
        return None
    return grade(signals.compaction_run, knobs.compaction_run, knobs), Reason.COMPACTION_LOOP
