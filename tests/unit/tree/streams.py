"""Event streams for the tests of the tree, and a small runner around the pure step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from actors.judge_knobs import Patterns
from actors.knobs import Progress
from actors.messages import AlertEffect, Command, Kind, ProgressEvent, Reason, Tick, Transition, Verdict
from actors.tree.state import Conversation, TreeState, new_tree
from actors.tree.step import Effects, step

__all__ = ["KNOBS", "SPECIFICATION", "Driver", "call", "digest", "event", "told"]

KNOBS = Progress()
_NEVER = {"loop_factor", "pause_s", "silent_after_s", "waiting_tools"}
# the specification's own rules alone: what the mechanics of verdicts, alerts and trees are tested with
SPECIFICATION = Progress(
    **{name: 10_000 for name in Patterns.model_fields if name not in _NEVER} | {"nothing_new": 13, "idle_edits": 13}
)


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def event(session: str = "root", **fields: Any) -> ProgressEvent:
    """Build one event; a missing time is filled in by ``Driver``."""
    return ProgressEvent(session_id=session, **fields)


def call(what: object, session: str = "root", **fields: Any) -> ProgressEvent:
    """Build one successful call of ``what``: same words, same fingerprint, slice, target and outcome."""
    given = {
        "tool": "read",
        "fingerprint": digest("call", what),
        "slice": digest("slice", what),
        "target": f"src/{what}.py",
        "result": digest("result", what),
        "exit": 0,
    }
    return event(session, **(given | fields))


class Driver:
    """One tree and what came out of it; each event is a second after the one before."""

    def __init__(self, tree: str = "root", knobs: Progress = SPECIFICATION) -> None:
        self.state: TreeState = new_tree(tree)
        self.knobs = knobs
        self.effects: Effects = []

    def feed(self, events: Iterable[ProgressEvent | Tick | Command]) -> Driver:
        for one in events:
            if isinstance(one, ProgressEvent) and one.t is None:
                one = one.model_copy(update={"t": self.state.now + 1})
            self.state, effects = step(self.state, one, self.knobs)
            self.effects += effects
        return self

    def tick(self, t: float) -> Driver:
        return self.feed([Tick(t=t)])

    def resume(self) -> Driver:
        return self.feed([Command(t=self.state.now, action="resume")])

    def of(self, name: str = "root") -> Conversation:
        return self.state.conversations[name]

    @property
    def transitions(self) -> list[Transition]:
        return [one for one in self.effects if isinstance(one, Transition)]

    @property
    def alerts(self) -> list[AlertEffect]:
        return [one for one in self.effects if isinstance(one, AlertEffect)]

    @property
    def moves(self) -> list[tuple[str, Verdict, Reason]]:
        return [(one.conversation, one.after, one.reason) for one in self.transitions]


def told(kind: Kind, session: str = "root", **fields: Any) -> ProgressEvent:
    """Build an event that is no call."""
    return event(session, kind=kind, **fields)
