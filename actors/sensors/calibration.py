"""Calibration: which thresholds would leave the operator's own working sessions alone and still catch stuck ones. Pure.

One threshold at a time, never a fit of all: a change is proposed only if it frees a working session without losing a
stuck one, or catches a stuck one without flagging a working one. Loosening is tried on the sessions that are flagged,
tightening on the stuck ones that are missed and the longest of the working ones; what is proposed in the end is
replayed over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from actors.knobs import Progress
from actors.sensors.readers.records import World
from actors.sensors.replay import replay_world

__all__ = ["Candidate", "Proposal", "Recorded", "Score", "propose", "thresholds"]

FACTORS = (1.25, 1.5, 2.0, 3.0, 0.75, 0.5)
LOOSENED = 4  # of FACTORS; for a threshold that is a lower bound it is the other way round, which only costs time
AT_RISK = 40  # of the working sessions, those that tightening is tried on
CHANGES = 6  # thresholds that are changed at most: more would be a fit
_NOT_THRESHOLDS = frozenset(
    {
        *("window", "loop_factor", "retire_after_s", "snapshot_every", "passivate_after_s", "silent_after_s"),
        *("pause_s", "loop_turns", "loop_usd", "loop_dup", "loop_fail"),  # of looping, not of the first flag
    }
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded tree: working or stuck, by its label or by assumption."""

    name: str
    world: World
    stuck: bool


@dataclass(frozen=True, slots=True)
class Score:
    """Names of the sessions that would be flagged, with the reason of the first flag."""

    working: dict[str, str] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[set[str], set[str]]:
        return set(self.working), set(self.stuck)

    @property
    def rank(self) -> tuple[int, int]:
        """Better is greater: fewer working sessions flagged, then more stuck ones caught."""
        return -len(self.working), len(self.stuck)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One threshold at another value, and what it would flag."""

    knob: str
    before: float
    after: float
    score: Score


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be changed, step by step, the table of what was tried, and the scores before and after."""

    before: Score
    after: Score
    changes: tuple[Candidate, ...]
    tried: tuple[Candidate, ...]
    knobs: Progress


def thresholds(knobs: Progress) -> dict[str, float]:
    """Return the numbers of the judge that decide whether something is flagged."""
    values = ((name, getattr(knobs, name)) for name in type(knobs).model_fields if name not in _NOT_THRESHOLDS)
    return {name: value for name, value in values if isinstance(value, int | float) and not isinstance(value, bool)}


def propose(recorded: list[Recorded], knobs: Progress, step: Callable[[], None] = lambda: None) -> Proposal:
    """Return what to change; ``step`` is called after every threshold that was tried, for a progress bar."""
    before = now = _score(recorded, knobs)
    tried: list[Candidate] = []
    changes: list[Candidate] = []
    start = knobs
    while len(changes) < CHANGES and (now.working or len(now.stuck) < sum(one.stuck for one in recorded)):
        found = list(_candidates(recorded, knobs, now, step))
        tried += found if not changes else []
        better = [one for one in found if _improves(one.score, now)]
        if not better:
            break
        best = max(better, key=lambda one: (one.score.rank, -abs(one.after / one.before - 1)))
        changed = _with(knobs, best.knob, best.after)
        score = _score(recorded, changed) if changed else now
        if changed is None or not _improves(score, now):
            break  # a session that tightening was not tried on would be flagged
        knobs, now = changed, score
        changes.append(Candidate(best.knob, best.before, best.after, score))
    merged = _merged(changes, start)
    return Proposal(before, now, merged, tuple(tried), knobs)


def _merged(changes: list[Candidate], start: Progress) -> tuple[Candidate, ...]:
    """A threshold that was changed twice is one change."""
    last = {one.knob: one for one in changes}
    return tuple(Candidate(one.knob, getattr(start, one.knob), one.after, one.score) for one in last.values())


def _improves(new: Score, old: Score) -> bool:
    keeps = set(old.stuck) <= set(new.stuck) and set(new.working) <= set(old.working)
    return keeps and (len(new.working) < len(old.working) or len(new.stuck) > len(old.stuck))


def _candidates(recorded: list[Recorded], knobs: Progress, now: Score, step: Callable[[], None]) -> Iterator[Candidate]:
    flagged = [one for one in recorded if one.name in now.working or one.name in now.stuck]
    for name, value in thresholds(knobs).items():
        seen = {value}
        for at, factor in enumerate(FACTORS):
            after = _scaled(value, factor)
            changed = _with(knobs, name, after) if after not in seen else None
            seen.add(after)
            if changed is None:
                continue
            tried = flagged if at < LOOSENED else [*flagged, *_at_risk(recorded, now)]
            score = _score(tried, changed)
            if score.names != now.names:
                yield Candidate(name, value, after, score)
        step()


def _at_risk(recorded: list[Recorded], now: Score) -> list[Recorded]:
    quiet = [one for one in recorded if one.name not in now.working and one.name not in now.stuck]
    longest = sorted((one for one in quiet if not one.stuck), key=lambda one: -len(one.world.events))
    return [*(one for one in quiet if one.stuck), *longest[:AT_RISK]]


def _scaled(value: float, factor: float) -> float:
    return round(value * factor) if isinstance(value, int) else round(value * factor, 4)


def _with(knobs: Progress, name: str, value: Any) -> Progress | None:
    try:
        return type(knobs).model_validate({**knobs.model_dump(), name: value})
    except ValidationError:
        return None  # out of its bounds, or out of order with its neighbour


def _score(recorded: Iterable[Recorded], knobs: Progress) -> Score:
    score = Score()
    for one in recorded:
        reason = _first_flag(one.world, knobs)
        if reason is not None:
            (score.stuck if one.stuck else score.working)[one.name] = reason
    return score


def _first_flag(world: World, knobs: Progress) -> str | None:
    flags = [row["first_flag"] for row in replay_world(world, knobs) if row["first_flag"]]
    return str(min(flags, key=lambda flag: flag["t"])["reason"]) if flags else None
