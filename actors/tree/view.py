"""What the API and the CLI show of a tree: plain JSON values, built on demand, never on the way of an event."""

from __future__ import annotations

from typing import Any

from actors.knobs import Progress
from actors.messages import Status, Verdict
from actors.tree.alerts import worst_of
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
)


def summarise(tree: TreeState, knobs: Progress) -> dict[str, Any]:
    """Return the row of ``GET /v1/trees``; the figures are those of the conversation that gives the verdict."""
    worst = worst_of(tree)
    evidence = evidence_of(worst, knobs) if worst else None
    return {
        "id": tree.id,
        "verdict": tree.verdict.value,
        "reason": worst.reason.value if worst else "none",
        "status": _status(tree).value,
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
    evidence = evidence_of(worst, knobs).model_dump(mode="json") if worst else {}
    return {
        **{key: value for key, value in summarise(tree, knobs).items() if key not in ("id", "conversations")},
        "conversations": [_conversation(one, knobs) for one in tree.conversations.values()],
        "evidence": evidence,
        "thresholds": {name: getattr(knobs, name) for name in THRESHOLDS},
        "would_next": _would_next(tree, worst, knobs),
        "ignored_links": tree.ignored_links,
        "forgotten": tree.forgotten,
    }


def next_wakeup(tree: TreeState, knobs: Progress) -> float | None:
    """Return when the tree next needs a tick, on its own clock; None when nothing is due."""
    live = [one.alive_at for one in tree.conversations.values() if not one.retired]
    return min(live) + knobs.retire_after_s if live else None


def _status(tree: TreeState) -> Status:
    """Retired when all are; otherwise the liveliest, and waiting for the user only when nobody works."""
    seen = {one.status for one in tree.conversations.values()}
    for status in (Status.ACTIVE, Status.WAITING_USER, Status.IDLE, Status.RETIRED):
        if status in seen:
            return status
    return Status.IDLE


def _conversation(one: Conversation, knobs: Progress) -> dict[str, Any]:
    return {
        "id": one.id,
        "parent": one.parent,
        "agent": one.agent,
        "verdict": one.verdict.value,
        "reason": one.reason.value,
        "status": one.status.value,
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
            f"a critical alert at {knobs.loop_turns} turns or ${knobs.loop_usd:.2f} since the last landed change "
            f"with {knobs.loop_dup:.0%} duplicates or {knobs.loop_fail} failures in a row of one call"
        )
    turns = worst.turns_since if worst else 0
    return (
        f"a warning at {knobs.stall_turns} turns (now {turns}) or ${knobs.stall_usd:.2f} since the last landed change "
        f"with {knobs.dup_warn:.0%} duplicates or {knobs.fail_warn} failures in a row of one call"
    )
