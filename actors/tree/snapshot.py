"""Snapshots: a tree as JSON text and back; a loaded state behaves like the one that was dumped.

``FORMAT`` grows when the text changes its meaning. Format 1, from before the trail, is read with an empty one; a text
of any other format is refused, and the caller replays the events instead.
"""

from __future__ import annotations

import json
from typing import Any

from actors.messages import Mode, Reason, Verdict
from actors.tree.state import Conversation, TreeState
from actors.tree.window import Call, Window

__all__ = ["FORMAT", "SnapshotFormat", "dump", "load"]

FORMAT = 2

_TREE = ("id", "seq", "now", "last_event_at", "ignored_links", "forgotten", "oldest_alive", "knobs_key")
_CONVERSATION = (
    "id",
    "parent",
    "agent",
    "placeholder",
    "assumed",
    "children",
    "quiet",
    "retired",
    "idle",
    "questions",
    "open_calls",
    "ends_turns",
    "busy",
    "alive_at",
    "reset_at",
    "events",
    "turns",
    "usd",
    "turns_since",
    "usd_since",
    "calls_since",
    "injected_since",
    "sends_turns",
    "round",
    "context_tokens",
)
_TALLIES = ("repeats", "failures", "target_failures")
_OLD_CALL = 6  # fields of a call in format 1


class SnapshotFormat(ValueError):
    """The text is a snapshot of another format."""


def dump(tree: TreeState) -> str:
    """Write a tree as compact JSON."""
    body = {name: getattr(tree, name) for name in _TREE}
    body["format"] = FORMAT
    body["mode"] = tree.mode
    body["alerted"] = tree.alerted
    body["landed_states"] = list(tree.landed_states)
    body["conversations"] = [_saved(one) for one in tree.conversations.values()]
    return json.dumps(body, separators=(",", ":"))


def load(text: str) -> TreeState:
    """Read what ``dump`` wrote. Raises ``SnapshotFormat`` for another format."""
    body = json.loads(text)
    if body.get("format") not in (1, FORMAT):
        raise SnapshotFormat(f"snapshot format {body.get('format')!r}, allowed: 1, {FORMAT}")
    tree = TreeState(**{name: body[name] for name in _TREE})
    tree.mode = Mode(body["mode"]) if body["mode"] else None
    tree.alerted = Verdict(body["alerted"])
    tree.landed_states = dict.fromkeys(body["landed_states"])
    for saved in body["conversations"]:
        one = _loaded(saved)
        tree.conversations[one.id] = one
        tree.stalling += one.verdict is Verdict.STALLING
        tree.looping += one.verdict is Verdict.LOOPING
    return tree


def _saved(one: Conversation) -> dict[str, Any]:
    window = one.window
    return {
        **{name: getattr(one, name) for name in _CONVERSATION},
        **{name: getattr(one, name).pairs() for name in _TALLIES},
        "verdict": one.verdict,
        "reason": one.reason,
        "requests": list(one.requests.items()),
        "window": [window.limit, window.span, window.since, list(window.calls)],
        "trail": one.trail.saved(),
    }


def _loaded(saved: dict[str, Any]) -> Conversation:
    limit, span, since, calls = saved["window"]
    window = Window(limit, span)
    window.restore([Call(*(call if len(call) > _OLD_CALL else [*call, False])) for call in calls], since, limit, span)
    one = Conversation(window=window, **{name: saved[name] for name in _CONVERSATION if name in saved})
    one.verdict, one.reason = Verdict(saved["verdict"]), Reason(saved["reason"])
    one.requests = dict(saved["requests"])
    for name in _TALLIES:
        getattr(one, name).restore(saved[name])
    if "trail" in saved:
        one.trail.restore(saved["trail"])
    return one
