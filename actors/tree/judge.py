"""The judge: a table of rule families, the worst verdict wins, of equals the first.

A new family is one module in ``rules`` with ``judge(signals, knobs)`` and one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.knobs import Progress
from actors.messages import Reason, Verdict
from actors.tree.rules import (
    ceiling,
    compaction,
    cycle,
    edits,
    exact_repeat,
    failure_streak,
    injected,
    known_outcomes,
    nothing_new,
    provider_failures,
    read_only,
    refused_done,
    repeat_run,
    repeats,
    same_failure,
    same_outcome,
    same_text,
    specification,
    waiting,
)
from actors.tree.signals import Signals, latest
from actors.tree.state import Conversation

__all__ = ["RULES", "calm", "judge", "limits_of", "rank"]

Rule = Callable[[Signals, Progress], tuple[Verdict, Reason] | None]

RULES: tuple[Rule, ...] = (
    specification.judge,
    repeat_run.judge,
    cycle.judge,
    edits.judge,
    refused_done.judge,
    injected.judge,
    compaction.judge,
    failure_streak.judge,
    same_failure.judge,
    same_text.judge,
    exact_repeat.judge,
    same_outcome.judge,
    nothing_new.judge,
    known_outcomes.judge,
    provider_failures.judge,
    repeats.judge,
    read_only.judge,
    waiting.judge,
    ceiling.judge,
)

_PATTERNS = (
    "repeat_run", "failure_points", "exact_repeat", "same_outcome", "known_outcomes", "same_failure", "edit_run",
    "cycle_rounds", "wait_repeat", "text_run", "refused_done", "injected_run", "compaction_run", "provider_failures",
    "top_repeat", "nothing_new", "idle_edits",
)  # fmt: skip
_CENT = 1e-6  # ten times $0.10 is a dollar
_NOTHING = (Verdict.OK, Reason.NONE)
_LOOPING = Verdict.LOOPING
_RANK = {Verdict.OK: 0, Verdict.STALLING: 1, Verdict.LOOPING: 2}


def rank(verdict: Verdict) -> int:
    """Order verdicts: a worse one ranks higher."""
    return _RANK[verdict]


def limits_of(knobs: Progress) -> tuple[Any, ...]:
    """Take the thresholds out of the knobs, in the order in which ``calm`` compares them."""
    return (
        tuple(getattr(knobs, name) for name in _PATTERNS),
        min(knobs.session_repeat, knobs.session_repeat_spent),
        knobs.stall_turns,
        knobs.stall_usd,
        knobs,
    )


def calm(conversation: Conversation, limits: tuple[Any, ...]) -> bool:
    """Whether every counter is below every threshold, so that no rule has anything to find.

    Says in one look on most events what ``judge`` would find out rule by rule; a property test holds the two together.
    """
    window, trail = conversation.window, conversation.trail
    patterns, repeats, turns, usd, knobs = limits
    (
        run, points, exact, outcome, known, failure, edit, rounds, waits, text, done, nudges, squeezes, storm, top,
        again, idle,
    ) = patterns  # fmt: skip
    return (
        trail.run < run
        and trail.fail_points < points
        and window.exact.top < exact
        and trail.sights.top < outcome
        and trail.known_run < known
        and trail.same_failure < failure
        and trail.edit_run < edit
        and trail.cycle_rounds < rounds
        and trail.waits < waits
        and trail.text_run < text
        and trail.done_run < done
        and trail.nudges < nudges
        and trail.squeezes < squeezes
        and trail.storm < storm
        and window.slices.top < top
        and (not trail.again or latest(trail.again, 1) < again)
        and (not trail.idle_edits or latest(trail.idle_edits, 1) < idle)
        and conversation.repeats.top < repeats
        and (conversation.agent is None or conversation.agent not in knobs.read_only_agents)
        and (
            (conversation.turns_since < turns and conversation.usd_since < usd - _CENT)
            or not _spent(conversation, knobs)
        )
    )


def _spent(conversation: Conversation, knobs: Progress) -> bool:
    """Whether the specification's rule or a ceiling may speak of what was spent."""
    if conversation.turns_since >= knobs.ceiling_turns or conversation.usd_since >= knobs.ceiling_usd - _CENT:
        return True
    return conversation.window.dup_share >= knobs.dup_warn or conversation.failures.top >= knobs.fail_warn


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason]:
    """Return the worst finding of all rules, ``(ok, none)`` when there is none."""
    worst = _NOTHING
    for rule in RULES:
        found = rule(signals, knobs)
        if found is None:
            continue
        if found[0] is _LOOPING:
            return found
        if worst is _NOTHING:
            worst = found
    return worst
