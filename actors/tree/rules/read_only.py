"""Agents that only read: judged by what they look at, not by what lands (P007-P010, P131)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return stalling for one slice again and again, one target failing in a row, or hardly anything new."""
    if not signals.read_only:
        return None
    if signals.top_repeat >= knobs.top_repeat_read_only:
        return Verdict.STALLING, Reason.READ_ONLY_REPEAT
    if signals.target_fail_streak >= knobs.top_repeat_read_only:
        return Verdict.STALLING, Reason.READ_ONLY_FAILURES
    if signals.spans >= knobs.novelty_calls and signals.places < knobs.novelty_targets:
        return Verdict.STALLING, Reason.READ_ONLY_NOVELTY
    return None
