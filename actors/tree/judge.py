"""The judge: a table of rule families, the worst verdict wins, of equals the first.

A new family is one module in ``rules`` with ``judge(signals, knobs)`` and one row here.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules import ceiling, read_only, repeats, specification
from actors.tree.signals import Signals

__all__ = ["RULES", "judge", "rank"]

Rule = Callable[[Signals, Progress], tuple[Verdict, Reason] | None]

RULES: tuple[Rule, ...] = (specification.judge, repeats.judge, read_only.judge, ceiling.judge)

_NOTHING = (Verdict.OK, Reason.NONE)
_RANK = {Verdict.OK: 0, Verdict.STALLING: 1, Verdict.LOOPING: 2}


def rank(verdict: Verdict) -> int:
    """Order verdicts: a worse one ranks higher."""
    return _RANK[verdict]


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason]:
    """Return the worst finding of all rules, ``(ok, none)`` when there is none."""
    worst = _NOTHING
    for rule in RULES:
        found = rule(signals, knobs)
        if found is not None and rank(found[0]) > rank(worst[0]):
            worst = found
    return worst
