"""What the API and the CLI show of a tree: plain JSON values, built on demand, never on the way of an event."""

from __future__ import annotations

from typing import Any

from actors.judge_knobs import Patterns
from actors.knobs import Progress
from actors.messages import Status, Verdict
from actors.tree.alerts import worst_of
from actors.tree.sentences import sentence_of
from actors.tree.signals import evidence_of
from actors.tree.state import Conversation, TreeState

__all__ = ["THRESHOLDS", "describe", "next_wakeup", "summarise"]

THRESHOLDS = (
    "window",
    "stall_turns",
    "stall_usd",
    "dup_warn",
    "fail_warn",
    "loop_turns",
    "loop_usd",
    "loop_dup",
    "loop_fail",
    "top_repeat",
    "top_repeat_read_only",
    "session_repeat",
    "novelty_calls",
    "novelty_targets",
    "ceiling_turns",
    "ceiling_usd",
    "retire_after_s",
    *Patterns.model_fields,
)


def summarise(tree: TreeState, knobs: Progress) -> dict[str, Any]:
    """Return the row of ``GET /v1/trees``; the figures are those of the conversation that gives the verdict."""
    worst = worst_of(tree)
    evidence = evidence_of(worst, knobs) if worst else None
    return {
        "id": tree.id,
        "verdict": tree.verdict.value,
        "reason": worst.reason.value if worst else "none",
        "status": _status(tree, knobs).value,
        "mode": (tree.mode or knobs.mode).value,
        "stage": None,
        "conversations": len(tree.conversations),
        "events": tree.seq,
        "turns_since_landed": evidence.turns_since_landed if evidence else 0,
        "usd_since_landed": evidence.usd_since_landed if evidence else 0.0,
        "top_target": evidence.top_target if evidence else None,
        "top_repeat": evidence.top_repeat if evidence else 0,
        "last_event_at": tree.last_event_at,
        "conversation": worst.id if worst else tree.id,
        "agent": worst.agent if worst else None,
    }


def describe(tree: TreeState, knobs: Progress) -> dict[str, Any]:
    """Return the rest of ``GET /v1/trees/{id}``: conversations, evidence, thresholds, what would happen next."""
    worst = worst_of(tree)
    found = evidence_of(worst, knobs) if worst else None
    evidence = found.model_dump(mode="json") if found else {}
    return {
        **{key: value for key, value in summarise(tree, knobs).items() if key not in ("id", "conversations")},
        "conversations": [_conversation(one, knobs, tree.now) for one in tree.conversations.values()],
        "sentence": sentence_of(worst.reason, found) if worst and found else None,
        "evidence": evidence,
        "thresholds": {name: getattr(knobs, name) for name in THRESHOLDS},
        "would_next": _would_next(tree, worst, knobs),
        "ignored_links": tree.ignored_links,
        "forgotten": tree.forgotten,
    }


def next_wakeup(tree: TreeState, knobs: Progress) -> float | None:
    """Return when the tree next needs a tick, on its own clock; None when nothing is due."""
    live = [one for one in tree.conversations.values() if not one.retired]
    due = [one.alive_at + knobs.retire_after_s for one in live]
    due += [
        at for one in live if one.ends_turns and not one.idle and (at := one.alive_at + knobs.silent_after_s) > tree.now
    ]
    return min(due, default=None)


def _status(tree: TreeState, knobs: Progress) -> Status:
    """Retired when all are; otherwise the liveliest, and waiting for the user only when nobody works."""
    seen = {one.status_at(tree.now, knobs.silent_after_s) for one in tree.conversations.values()}
    for status in (Status.ACTIVE, Status.SILENT, Status.WAITING_USER, Status.IDLE, Status.RETIRED):
        if status in seen:
            return status
    return Status.IDLE


def _conversation(one: Conversation, knobs: Progress, now: float) -> dict[str, Any]:
    return {
        "id": one.id,
        "parent": one.parent,
        "agent": one.agent,
        "verdict": one.verdict.value,
        "reason": one.reason.value,
        "status": one.status_at(now, knobs.silent_after_s).value,
        "events": one.events,
        "turns": one.turns,
        "usd": round(one.usd, 6),
        "last_alive_at": one.alive_at,
        "evidence": evidence_of(one, knobs).model_dump(mode="json"),
    }


def _would_next(tree: TreeState, worst: Conversation | None, knobs: Progress) -> str:
    if tree.verdict is Verdict.LOOPING:
        return "nothing more: in this version every mode only warns; a landed change, a user turn or resume ends it"
    if tree.verdict is Verdict.STALLING:
        return (
            f"a critical alert once a pattern comes {knobs.loop_factor:g} times as often as what is stalling, or at "
            f"{knobs.loop_turns} turns or ${knobs.loop_usd:.2f} since the last landed change with {knobs.loop_dup:.0%} "
            f"duplicates or {knobs.loop_fail} failures in a row of one call"
        )
    turns = worst.turns_since if worst else 0
    return (
        f"a warning when a pattern reaches its threshold, or at {knobs.stall_turns} turns (now {turns}) or "
        f"${knobs.stall_usd:.2f} since the last landed change with {knobs.dup_warn:.0%} duplicates or "
        f"{knobs.fail_warn} failures in a row of one call"
    )
