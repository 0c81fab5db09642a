"""One call or one slice again and again with nothing landed between (P128, P130, P132, P133).

The window catches rewordings by their slice; the counter of the whole session catches the slow loop, whose repeats lie
too far apart for any window.
"""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.signals import Signals

__all__ = ["judge"]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return stalling: repeats alone never make looping."""
    if signals.top_repeat >= knobs.top_repeat and not signals.read_only:
        return Verdict.STALLING, Reason.TOP_REPEAT
    if signals.session_repeat >= knobs.session_repeat:
        return Verdict.STALLING, Reason.SESSION_REPEAT
    spent = signals.turns >= knobs.loop_turns or signals.usd >= knobs.loop_usd
    if spent and signals.session_repeat >= knobs.session_repeat_spent:
        return Verdict.STALLING, Reason.SESSION_REPEAT
    return None
