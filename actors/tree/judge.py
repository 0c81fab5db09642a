"""The judge: a table of rule families, the worst verdict wins, of equals the first.

A new family is one module in ``rules`` with ``judge(signals, knobs)`` and one row here.
"""

from __future__ import annotations

from collections.abc import Callable

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

__all__ = ["RULES", "calm", "judge", "rank"]

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

_NOTHING = (Verdict.OK, Reason.NONE)
_RANK = {Verdict.OK: 0, Verdict.STALLING: 1, Verdict.LOOPING: 2}


def rank(verdict: Verdict) -> int:
    """Order verdicts: a worse one ranks higher."""
    return _RANK[verdict]


def calm(conversation: Conversation, knobs: Progress) -> bool:
    """Whether every counter is below every threshold, so that no rule has anything to find.

    Says in one look on most events what ``judge`` would find out rule by rule; a property test holds the two together.
    """
    window, trail = conversation.window, conversation.trail
    return (
        trail.run < knobs.repeat_run
        and trail.fail_points < knobs.failure_points
        and window.exact.top < knobs.exact_repeat
        and trail.sights.top < knobs.same_outcome
        and trail.known_run < knobs.known_outcomes
        and trail.same_failure < knobs.same_failure
        and trail.edit_run < knobs.edit_run
        and trail.cycle_rounds < knobs.cycle_rounds
        and trail.waits < knobs.wait_repeat
        and trail.text_run < knobs.text_run
        and trail.done_run < knobs.refused_done
        and trail.nudges < knobs.injected_run
        and trail.squeezes < knobs.compaction_run
        and trail.storm < knobs.provider_failures
        and window.slices.top < knobs.top_repeat
        and (not trail.again or latest(trail.again, 1) < knobs.nothing_new)
        and (not trail.idle_edits or latest(trail.idle_edits, 1) < knobs.idle_edits)
        and conversation.repeats.top < min(knobs.session_repeat, knobs.session_repeat_spent)
        and not _spent(conversation, knobs)
        and (conversation.agent is None or conversation.agent not in knobs.read_only_agents)
    )


def _spent(conversation: Conversation, knobs: Progress) -> bool:
    """Whether the specification's rule or a ceiling may speak."""
    turns, usd = conversation.turns_since, conversation.usd_since + 1e-9
    if turns < knobs.stall_turns and usd < knobs.stall_usd:
        return False
    if turns >= knobs.ceiling_turns or usd >= knobs.ceiling_usd:
        return True
    return conversation.window.dup_share >= knobs.dup_warn or conversation.failures.top >= knobs.fail_warn


def judge(signals: Signals, knobs: Progress) -> tuple[Verdict, Reason]:
    """Return the worst finding of all rules, ``(ok, none)`` when there is none."""
    worst = _NOTHING
    for rule in RULES:
        found = rule(signals, knobs)
        if found is not None and rank(found[0]) > rank(worst[0]):
            worst = found
    return worst
