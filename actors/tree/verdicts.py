"""Moving verdicts: what makes one rise, what alone may make it fall, and the transition that says so.

A verdict rises at once. It falls by a landing, a user turn, a resume, retirement or changed knobs, or when no call of
a whole window supported it any more: repeats leave the window one by one, so without that wait it would flap with
each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from zlib import crc32

from actors.knobs import Progress
from actors.messages import AlertEffect, Evidence, Reason, Transition, Verdict
from actors.tree.judge import calm, judge, limits_of, rank
from actors.tree.signals import evidence_of, signals_of
from actors.tree.state import Conversation, TreeState

__all__ = ["Effects", "Run", "advance", "change", "clear", "notice_knobs", "restart", "retire", "settle"]

Effects = list[Transition | AlertEffect]

_OK = Verdict.OK  # at hand: to look one up on its class runs a function on Python 3.11
_NOTHING = (Verdict.OK, Reason.NONE)


@dataclass(slots=True)
class Run:
    """One run of the step: the tree, the knobs it is judged by, and the effects so far in the order they came about."""

    tree: TreeState
    knobs: Progress
    out: Effects = field(default_factory=list)


def settle(run: Run, conversation: Conversation, *, call: bool) -> None:
    """Judge one conversation; ``call`` says that it made one itself, which is what a quiet window is counted in."""
    if calm(conversation, run.tree.limits):
        found, reason = _NOTHING
    else:
        found, reason = judge(signals_of(conversation, run.knobs), run.knobs)
    before = conversation.verdict
    if found is before:
        conversation.quiet = 0
    elif rank(found) > rank(before):
        change(run, conversation, found, reason)
    else:
        conversation.quiet += call
        if conversation.quiet >= run.knobs.window:
            change(run, conversation, found, Reason.RECOVERED if found is _OK else reason)


def notice_knobs(run: Run) -> None:
    """Judge anew whoever is flagged when the knobs are not those of the last event; nothing waits for a window then."""
    tree, knobs = run.tree, run.knobs
    if knobs is tree.judged_by:
        return
    key, limits = _read(knobs)
    changed = tree.knobs_key is not None and tree.knobs_key != key
    tree.judged_by, tree.knobs_key, tree.limits = knobs, key, limits
    for one in tree.conversations.values():
        if changed and one.verdict is not Verdict.OK:
            found, reason = judge(signals_of(one, knobs), knobs)
            if rank(found) < rank(one.verdict):
                change(run, one, found, Reason.SETTINGS if found is _OK else reason)


@lru_cache(maxsize=8)
def _read(knobs: Progress) -> tuple[int, tuple[Any, ...]]:
    return crc32(knobs.model_dump_json(exclude={"mode"}).encode()), limits_of(knobs)


def change(
    run: Run,
    conversation: Conversation,
    after: Verdict,
    reason: Reason,
    *,
    evidence: Evidence | None = None,
    t: float | None = None,
) -> None:
    """Set a verdict and record the transition; nothing when it is the same."""
    before, tree = conversation.verdict, run.tree
    if after is before:
        return
    conversation.verdict, conversation.reason, conversation.quiet = after, reason, 0
    tree.stalling += (after is Verdict.STALLING) - (before is Verdict.STALLING)
    tree.looping += (after is Verdict.LOOPING) - (before is Verdict.LOOPING)
    run.out.append(
        Transition(
            index=max(tree.seq - 1, 0),
            t=tree.now if t is None else t,
            conversation=conversation.id,
            before=before,
            after=after,
            reason=reason,
            tree_verdict=tree.verdict,
            evidence=evidence or evidence_of(conversation, run.knobs),
        )
    )


def clear(run: Run, conversation: Conversation, reason: Reason) -> None:
    """Start counting anew and fall to what is left, mostly ok; the transition's evidence is from before."""
    before = conversation.verdict
    evidence = None if before is _OK else evidence_of(conversation, run.knobs)
    conversation.reset(run.tree.now, landed=reason is Reason.LANDED)
    if before is _OK:
        return
    found, why = judge(signals_of(conversation, run.knobs), run.knobs)
    if rank(found) < rank(before):  # what outlives a landing may speak as loudly as before: then nothing changed
        change(run, conversation, found, reason if found is _OK else why, evidence=evidence)


def restart(run: Run, conversation: Conversation, reason: Reason) -> None:
    """Clear a conversation and all its ancestors: what lands in a child landed for them, too (P030)."""
    for one in run.tree.lineage(conversation):
        clear(run, one, reason)


def retire(run: Run, conversation: Conversation, *, t: float | None = None) -> None:
    """Take a conversation out of its tree's verdict; its next event brings it back with what was counted."""
    conversation.retired = True
    change(run, conversation, Verdict.OK, Reason.RETIRED, t=t)


def advance(run: Run, t: float) -> None:
    """Move the tree's clock to ``t`` (never back) and retire who has been idle too long, as of when that was.

    The effects are the same whether one tick or many lead there. O(1) unless somebody may be due.
    """
    tree, after_s = run.tree, run.knobs.retire_after_s
    tree.now = max(tree.now, t)
    if tree.oldest_alive is None or tree.now < tree.oldest_alive + after_s:
        return
    live = [one for one in tree.conversations.values() if not one.retired]
    for one in sorted(live, key=lambda one: one.alive_at):
        if one.alive_at + after_s <= tree.now:
            retire(run, one, t=one.alive_at + after_s)
    tree.oldest_alive = min((one.alive_at for one in live if not one.retired), default=None)
