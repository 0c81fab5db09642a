"""Injected turns that lead to nothing: the agent is done, or waits for somebody, and is woken again (P004, P005)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on injected turns in a row."""
    if signals.injected_run < knobs.injected_run:
        return None
    return grade(signals.injected_run, knobs.injected_run, knobs), Reason.INJECTED
