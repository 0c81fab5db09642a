"""One call with one outcome, back to back: polling that brings news and waits are not among them (T20-T23)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on equal calls in a row."""
    if signals.repeat_run < knobs.repeat_run:
        return None
    return grade(signals.repeat_run, knobs.repeat_run, knobs), Reason.REPEAT_RUN
