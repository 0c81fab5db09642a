"""One target that fails alike again and again while real edits land in between: they do not touch the cause."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on a failure that edits leave as it is."""
    if signals.same_failure < knobs.same_failure:
        return None
    return grade(signals.same_failure, knobs.same_failure, knobs), Reason.SAME_FAILURE
