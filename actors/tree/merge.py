"""A tree that turns out to be part of another: its conversations join, the other's root finds its parent.

Exact as long as neither side was reset: the counters are then those of a tree that had known the parent from the
start. Otherwise ``lineage.absorb`` says who gets the benefit of the doubt. Transitions made before stay where they are.
"""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Verdict
from actors.tree.alerts import follow_verdict, resolve_alert
from actors.tree.judge import rank
from actors.tree.lineage import MAX_DEPTH, absorb, appear, crowd_out
from actors.tree.state import MAX_STATES, Conversation, TreeState
from actors.tree.verdicts import Effects, Run, advance, notice_knobs, settle

__all__ = ["merge"]


def merge(into: TreeState, other: TreeState, knobs: Progress, parent: str | None = None) -> tuple[TreeState, Effects]:
    """Move all of ``other`` below ``parent`` (default: the root) of ``into``; ``other`` is not to be used again."""
    run = Run(into, knobs)
    notice_knobs(run)
    advance(run, other.now)
    into.seq += other.seq
    into.last_event_at = max((t for t in (into.last_event_at, other.last_event_at) if t is not None), default=None)
    into.ignored_links += other.ignored_links
    into.forgotten += other.forgotten
    into.mode = into.mode or other.mode
    into.landed_states = dict(list((other.landed_states | into.landed_states).items())[-MAX_STATES:])
    _join(run, other, parent)
    if other.alerted is not Verdict.OK:
        run.out.append(resolve_alert(Run(into, knobs), other.id))
    follow_verdict(run)
    return into, run.out


def _join(run: Run, other: TreeState, parent: str | None) -> None:
    into = run.tree
    root = other.conversations.get(other.id)
    if root is None:
        return
    foreign = parent if parent is not None and parent not in other.conversations else into.id
    above = into.conversations.get(foreign) or appear(into, foreign, run.knobs)
    lineage = list(into.lineage(above))
    if len(lineage) > MAX_DEPTH:
        above, lineage = lineage[-1], lineage[-1:]
        into.ignored_links += 1
    for one in other.conversations.values():
        known = into.conversations.get(one.id)
        into.conversations[one.id] = one if known is None else _fused(known, one)
    if root.id != into.id:
        root.parent, root.assumed = above.id, False
    for one in lineage:
        absorb(run, one, root)
    _recount(into)
    crowd_out(run, above)
    for one in lineage:
        settle(run, one, call=False)


def _fused(known: Conversation, joining: Conversation) -> Conversation:
    """Keep the livelier of two accounts of one conversation, with the figures of both."""
    kept, dropped = (known, joining) if known.alive_at > joining.alive_at else (joining, known)
    if kept.placeholder and not dropped.placeholder:
        kept, dropped = dropped, kept
    for name in ("events", "turns", "usd", "turns_since", "usd_since", "calls_since", "injected_since"):
        setattr(kept, name, getattr(kept, name) + getattr(dropped, name))
    if rank(dropped.verdict) > rank(kept.verdict):
        kept.verdict, kept.reason = dropped.verdict, dropped.reason
    kept.parent, kept.assumed = known.parent, known.assumed
    return kept


def _recount(tree: TreeState) -> None:
    """Set the sums that are kept beside the conversations right again."""
    every = list(tree.conversations.values())
    for one in every:
        one.children = 0
    for one in every:
        if one.parent is not None and one.parent in tree.conversations:
            tree.conversations[one.parent].children += 1
    tree.stalling = sum(one.verdict is Verdict.STALLING for one in every)
    tree.looping = sum(one.verdict is Verdict.LOOPING for one in every)
    tree.oldest_alive = min((one.alive_at for one in every if not one.retired), default=None)
