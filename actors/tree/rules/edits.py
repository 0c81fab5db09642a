"""Edits that are accepted and change nothing: the same one again, or edits back to a state seen before (T47)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals, latest

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on equal edits in a row, or on edits of the last calls that brought a known state."""
    if signals.edit_run >= knobs.edit_run:
        return grade(signals.edit_run, knobs.edit_run, knobs), Reason.SAME_EDIT
    if not signals.idle_edits:
        return None
    if latest(signals.idle_edits, 2) >= knobs.idle_edits * 2:
        return Verdict.LOOPING, Reason.IDLE_EDITS
    return (Verdict.STALLING, Reason.IDLE_EDITS) if latest(signals.idle_edits, 1) >= knobs.idle_edits else None
