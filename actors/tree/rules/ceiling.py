"""Plain ceilings in turns and dollars since the last landing: a warning, never more (P041, T40).

Agents that only read are left out, since nothing of theirs can land (P007); what they spend counts for their parents.
"""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return stalling once a ceiling is reached."""
    if signals.read_only:
        return None
    if signals.turns >= knobs.ceiling_turns or signals.usd >= knobs.ceiling_usd:
        return Verdict.STALLING, Reason.CEILING
    return None
