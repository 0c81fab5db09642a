"""A provider that refuses call after call, asked again with no pause: an outage is waited for, this burns (T10)."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules.grade import grade
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return the verdict on refused calls in a row."""
    if signals.provider_failures < knobs.provider_failures:
        return None
    return grade(signals.provider_failures, knobs.provider_failures, knobs), Reason.PROVIDER_FAILURES
