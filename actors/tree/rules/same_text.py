"""Assistant texts that say the same again, in cycles of up to five, with nothing new done in between (S014-S019)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on repeated texts."""
    if signals.text_run < knobs.text_run:
        return None
    return grade(signals.text_run, knobs.text_run, knobs), Reason.SAME_TEXT
