"""Offline replay: worlds of events through the same pure step as the daemon, one row per conversation out.

The rows are a contract; tools outside the repo read them, so fields are only ever added: ``calls``
of the row, of its first flag and of its transitions are numbers of tool calls, ``calls_after_first_flag`` what was
left, ``usd_estimated`` says that dollars come from list prices.

A world is routed to trees exactly as the daemon's edge does it, late parents included. Reads no clock and does no I/O:
the same world gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.knobs import Progress
from actors.messages import Kind, ProgressEvent, Transition, Verdict
from actors.sensors.readers.records import World
from actors.tree.judge import rank
from actors.tree.routing import Router
from actors.tree.state import TreeState, new_tree
from actors.tree.step import Effects, merge, step

__all__ = ["SYNTHETIC_STEP_S", "replay_world", "stamped"]

SYNTHETIC_STEP_S = 1.0


def stamped(events: Iterable[ProgressEvent]) -> Iterator[ProgressEvent]:
    """Give every event a time: one without is a second after the one before it, the first at 0."""
    before = -SYNTHETIC_STEP_S
    for event in events:
        if event.t is None:
            event = event.model_copy(update={"t": before + SYNTHETIC_STEP_S})
        assert event.t is not None
        before = event.t
        yield event


def replay_world(world: World, knobs: Progress) -> Iterator[dict[str, Any]]:
    """Judge one world and yield its rows: one for a named world, else one per session in order of appearance."""
    trees, rows = _Trees(knobs), _Rows(world)
    for event in stamped(world.events):
        taken = trees.take(event)
        if taken is None:
            continue
        row = rows.of(event.session_id)
        row.count(event)
        row.spend(taken.turns, taken.usd)
        for effect in taken.effects:
            if isinstance(effect, Transition):
                rows.of(effect.conversation).note(effect)
    if world.conversation is not None:
        yield rows.of(world.conversation).shown(trees.verdict())
        return
    for row in rows.all():
        if row.events:  # a parent that only others named is no conversation of this file
            yield row.shown(trees.verdict_of(row.conversation))


class _Taken(NamedTuple):
    effects: Effects
    turns: int
    usd: float


class _Trees:
    """The trees of one world."""

    def __init__(self, knobs: Progress) -> None:
        self._knobs = knobs
        self._router = Router()
        self._trees: dict[str, TreeState] = {}
        self._seen: set[tuple[str, str]] = set()

    def take(self, event: ProgressEvent) -> _Taken | None:
        """Step the event's tree; None for a delivery that was there before."""
        if event.id is not None:
            key = (event.session_id, event.id)
            if key in self._seen:
                return None
            self._seen.add(key)
        tree, effects = self._routed(event)
        known = tree.conversations.get(event.session_id)
        turns, usd = (known.turns, known.usd) if known else (0, 0.0)
        effects += step(tree, event, self._knobs)[1]
        now = tree.conversations[event.session_id]
        return _Taken(effects, now.turns - turns, now.usd - usd)

    def verdict(self) -> Verdict:
        """Return the worst verdict of all trees."""
        return max((tree.verdict for tree in self._trees.values()), key=rank, default=Verdict.OK)

    def verdict_of(self, conversation: str) -> Verdict:
        tree = self._trees[self._router.tree_of(conversation) or conversation]
        known = tree.conversations.get(conversation)
        return known.verdict if known else Verdict.OK

    def _routed(self, event: ProgressEvent) -> tuple[TreeState, Effects]:
        routed = self._router.resolve(event)
        tree = self._trees.setdefault(routed.tree, new_tree(routed.tree))
        if routed.merge is None:
            return tree, []
        self._router.merged(routed.merge.old, routed.tree)
        other = self._trees.pop(routed.merge.old, None)
        return (tree, []) if other is None else merge(tree, other, self._knobs, routed.merge.parent)


class _Rows:
    """The rows of one world: a single one when the world has a name, else one per session."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows: dict[str, _Row] = {}

    def of(self, conversation: str) -> _Row:
        name = self._world.conversation or conversation
        if name not in self._rows:
            self._rows[name] = _Row(name, self._world.source, self._world.priced)
        return self._rows[name]

    def all(self) -> Iterable[_Row]:
        return self._rows.values()


@dataclass(slots=True)
class _Row:
    """One row of the contract while it comes about; ``index`` counts the row's events from 0, ``calls`` its tool calls.

    The call that made a flag counts among those up to it, and its dollars among those before it.
    """

    conversation: str
    source: str
    priced: bool = False
    events: int = 0
    calls: int = 0
    turns: int = 0
    usd: float = 0.0
    usd_after: float = 0.0
    worst: Verdict = Verdict.OK
    first: dict[str, Any] | None = None
    transitions: list[dict[str, Any]] = field(default_factory=list)

    def count(self, event: ProgressEvent) -> None:
        self.events += 1
        self.calls += event.kind is Kind.TOOL

    def spend(self, turns: int, usd: float) -> None:
        self.turns += turns
        self.usd += usd
        if self.first is not None:
            self.usd_after += usd

    def note(self, transition: Transition) -> None:
        index = max(self.events - 1, 0)
        self.transitions.append({**transition.model_dump(mode="json"), "index": index, "calls": self.calls})
        verdict = transition.after
        self.worst = max(self.worst, verdict, key=rank)
        if self.first is None and verdict is not Verdict.OK:
            reason = transition.reason.value
            at = {"index": index, "calls": self.calls, "t": transition.t}
            self.first = {**at, "verdict": verdict.value, "reason": reason}

    def shown(self, verdict: Verdict) -> dict[str, Any]:
        return {
            "conversation": self.conversation,
            "source": self.source,
            "events": self.events,
            "calls": self.calls,
            "verdict": verdict.value,
            "worst": self.worst.value,
            "first_flag": self.first,
            "transitions": self.transitions,
            "turns": self.turns,
            "usd": round(self.usd, 6),
            "usd_estimated": self.priced,
            "usd_after_first_flag": round(self.usd_after, 6),
            "calls_after_first_flag": self.calls - self.first["calls"] if self.first else 0,
        }
