"""The agent says done, is told it is not, and says so again: landings in between do not count (T15)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on refused done-claims."""
    if signals.refused_done < knobs.refused_done:
        return None
    return grade(signals.refused_done, knobs.refused_done, knobs), Reason.REFUSED_DONE
