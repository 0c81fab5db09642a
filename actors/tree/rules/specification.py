"""The specification's own rule: much spent with nothing landed AND the calls repeat or fail (P039, P040).

Both halves are necessary (P012, P041): neither a long read-heavy session nor a few duplicates are stuck. Agents that
only read cannot land, so the first half says nothing about them (P007).
"""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.signals import Signals

__all__ = ["judge"]

# a share of fewer calls than this is noise: with big models $1 is gone before the first repeat means anything
_LEAST_CALLS = 8


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason] | None:
    """Return looping before stalling, duplicates before failures; None when either half is missing."""
    if signals.read_only:
        return None
    if signals.turns < knobs.stall_turns and signals.usd < knobs.stall_usd:
        return None  # the knobs' schema keeps loop_* above stall_*
    for verdict, turns, usd, dup, fail in (
        (Verdict.LOOPING, knobs.loop_turns, knobs.loop_usd, knobs.loop_dup, knobs.loop_fail),
        (Verdict.STALLING, knobs.stall_turns, knobs.stall_usd, knobs.dup_warn, knobs.fail_warn),
    ):
        if signals.turns >= turns or signals.usd >= usd:
            if signals.dup_share >= dup and signals.window_calls >= _LEAST_CALLS:
                return verdict, Reason.DUPLICATES
            if signals.fail_streak >= fail:
                return verdict, Reason.FAILURES
    return None
