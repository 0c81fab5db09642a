"""treewarden why: the verdict on a tree, its reason, the evidence against the thresholds, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from actors.cli.options import Json, RuntimeDir, colour, emit_json
from actors.cli.table import clock, columns, plain, usd

__all__ = ["EVIDENCE", "NOTHING_IS_DONE", "evidence_lines", "why"]

NOTHING_IS_DONE = "In this version every mode only warns: an alert is sent, nothing is stopped or compacted."

# evidence, its name for people, (threshold, what it means)
EVIDENCE: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("turns_since_landed", "turns since landed", (("stall_turns", "stalling"), ("loop_turns", "looping"),
                                                  ("ceiling_turns", "ceiling"))),
    ("usd_since_landed", "dollars since landed", (("stall_usd", "stalling"), ("loop_usd", "looping"),
                                                  ("ceiling_usd", "ceiling"))),
    ("dup_share", "share of duplicates", (("dup_warn", "stalling"), ("loop_dup", "looping"))),
    ("fail_streak", "failures in a row", (("fail_warn", "stalling"), ("loop_fail", "looping"))),
    ("target_fail_streak", "failures at one target", (("top_repeat_read_only", "read-only agent"),)),
    ("top_repeat", "repeats in the window", (("top_repeat", "stalling"), ("top_repeat_read_only", "read-only agent"))),
    ("session_repeat", "repeats in all", (("session_repeat", "stalling"),)),
    ("repeat_run", "equal calls in a row", (("repeat_run", "stalling"),)),
    ("cycle_rounds", "rounds of a cycle", (("cycle_rounds", "stalling"),)),
    ("exact_repeat", "equal calls in the window", (("exact_repeat", "stalling"),)),
    ("same_outcome", "calls of a target that ended alike", (("same_outcome", "stalling"),)),
    ("known_outcomes", "outcomes in a row seen before", (("known_outcomes", "stalling"),)),
    ("nothing_new", "of 12 calls made before", (("nothing_new", "stalling"),)),
    ("failure_points", "points of a failure streak", (("failure_points", "stalling"),)),
    ("same_failure", "failures alike of a target", (("same_failure", "stalling"),)),
    ("provider_failures", "refused by the provider", (("provider_failures", "stalling"),)),
    ("edit_run", "the same edit", (("edit_run", "stalling"),)),
    ("idle_edits", "of 12 calls idle edits", (("idle_edits", "stalling"),)),
    ("refused_done", "done, and had to go on", (("refused_done", "stalling"),)),
    ("injected_run", "injected turns in a row", (("injected_run", "stalling"),)),
    ("compaction_run", "compactions in a row", (("compaction_run", "stalling"),)),
    ("text_run", "texts that say the same", (("text_run", "stalling"),)),
    ("wait_repeat", "repeats that wait", (("wait_repeat", "stalling"),)),
    ("distinct_targets", "distinct targets", (("novelty_targets", "read-only agent, fewer than"),)),
    ("window_calls", "calls in the window", (("window", "size"),)),
    ("calls_since_landed", "calls since landed", ()),
    ("injected_since_landed", "injected turns since landed", ()),
    ("context_tokens", "context tokens", ()),
    ("top_target", "top target", ()),
)  # fmt: skip


def why(
    tree: Annotated[str, typer.Argument(metavar="TREE", help="Id of the tree: its root conversation.")],
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Explain a tree's verdict: reason, evidence against thresholds, transitions, what would happen next."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        found = control.get(f"/v1/trees/{quote(tree, safe='')}")
    if json_output:
        emit_json({**found, "note": NOTHING_IS_DONE})
    else:
        typer.echo("\n".join(screen(found)))


def screen(found: Mapping[str, Any]) -> list[str]:
    """Lay out GET /v1/trees/{id}."""
    verdict = found.get("verdict", "ok")
    mode = found.get("mode") or "as the daemon"
    return [
        f"tree {plain(found['id'])}: {colour(verdict, verdict)}, reason {found.get('reason')}",
        *([plain(found["sentence"])] if found.get("sentence") else []),
        f"status {found.get('status')}, mode {mode}, {usd(found.get('usd_since_landed'))} and "
        f"{plain(found.get('turns_since_landed'))} turns since something landed",
        "",
        *evidence_lines(found.get("evidence") or {}, found.get("thresholds") or {}),
        *_conversations(found.get("conversations")),
        *_transitions(found.get("transitions") or []),
        *_next(found.get("would_next")),
        NOTHING_IS_DONE,
    ]


def evidence_lines(evidence: Mapping[str, Any], thresholds: Mapping[str, Any]) -> list[str]:
    """Lay out what was counted beside the thresholds that it is held against."""
    rows = [
        (name, _number(evidence[key]), _limits(limits, thresholds)) for key, name, limits in EVIDENCE if key in evidence
    ]
    return [*columns(("EVIDENCE", "VALUE", "THRESHOLDS"), rows), ""] if rows else []


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else plain(value)


def _limits(limits: tuple[tuple[str, str], ...], thresholds: Mapping[str, Any]) -> str:
    return ", ".join(f"{meaning} {_number(thresholds[name])}" for name, meaning in limits if name in thresholds)


def _conversations(found: Any) -> list[str]:
    if not isinstance(found, list) or not found:
        return []
    keys = ("id", "agent", "verdict", "reason", "status", "parent")
    rows = [[item.get(key) for key in keys] for item in found]
    return [*columns(("CONVERSATION", "AGENT", "VERDICT", "REASON", "STATUS", "PARENT"), rows), ""]


def _transitions(found: list[Mapping[str, Any]]) -> list[str]:
    if not found:
        return []
    rows = [(clock(item["t"]), item["conversation"], item["before"], item["after"], item["reason"]) for item in found]
    return [*columns(("WHEN", "CONVERSATION", "BEFORE", "AFTER", "REASON"), rows), ""]


def _next(would: Any) -> list[str]:
    if not would:
        return []
    lines = would if isinstance(would, list) else [would]
    return ["what would happen next:", *(f"  {plain(line)}" for line in lines)]
