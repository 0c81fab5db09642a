"""What a conversation's calls have in common with those before them: counters of repetition, in O(1) per call.

A call is *again* when it was made with the same outcome at least twice before, *fresh* when it is new and did not fail.
A repeat that is silent, or that comes after a pause, is a wait: waits count by themselves, with more patience, and
leave the other counters alone (T20-T23). Whatever lands anew starts it over (``clear_since``), but for what outlives a
landing and says so; a user turn starts over everything (``clear``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

from actors.tree.keys import SILENT, UNKNOWN
from actors.tree.tally import Tally

__all__ = ["HALF", "Trail"]

HALF = 12  # calls that the shares look at; looping looks at twice as many
_MASK = (1 << 2 * HALF) - 1
_LONGEST = 8
_PERIODS = range(2, _LONGEST + 1)
_LEAST_CYCLE = 8  # calls: two that took turns three times are no cycle yet
_SIGHTS = 48
_STREAK = 24
_PLACES = 24
_ACKNOWLEDGED = 3  # an outcome of more landings than this says "accepted", not what came of it
_FEW_CALLS = 4  # between two compactions that belong together
_FEW_FINDINGS = 2  # new things that an injected turn may lead to and still be one of a run
_DONE_CALLS = 12
_TEXTS = 5
_NEAR_BITS = 20  # unrelated texts differ in 32 +- 4 of 64 bits (T23)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Trail:
    """Counters of one conversation. Attributes without a leading underscore are what the rules read."""

    __slots__ = (
        "again", "calls", "cycle_rounds", "done_at", "done_run", "edit", "edit_run", "fail_points", "fresh",
        "idle_edits", "known_run", "landed", "last", "last_t", "matches", "nudges", "outcomes", "pace", "places",
        "recent", "run", "same_failure", "sights", "squeeze_at", "squeezes", "storm", "streak", "stubborn", "text_run",
        "texts", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.last_t: float | None = None
        self.pace: float | None = None  # seconds between calls that repeat nothing: a slow model is not a waiting one
        self.sights = Tally(_SIGHTS)
        self.clear()

    def clear(self) -> None:
        """Start over altogether: the user spoke, or an operator resumed."""
        self.calls = 0
        self.done_run = self.done_at = 0
        self.edit, self.edit_run = UNKNOWN, 0  # outlive a landing: an edit made again and again lands again and again
        self.stubborn: dict[int, tuple[int, int]] = {}  # outlives it too: place -> outcome, failures alike
        self.same_failure = 0
        self.landed: dict[int, int] = {}  # outcome of landings -> how many
        self.places: dict[int, int] = {}  # place -> outcome of its last landing
        self.idle_edits = 0
        self.clear_since()

    def clear_since(self) -> None:
        """Start over what counts since the last landing."""
        self.last, self.run, self.cycle_rounds = UNKNOWN, 0, 0
        self.recent: list[int] = []
        self.matches: dict[int, int] = {}
        self.again = self.known_run = self.waits = self.fail_points = self.storm = 0
        self.outcomes: dict[int, int] = {}
        self.streak: dict[int, None] = {}
        self.fresh = self.nudges = self.squeezes = self.squeeze_at = self.text_run = 0
        self.texts: list[tuple[int, int]] = []
        self.sights.clear()

    def saved(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def restore(self, saved: dict[str, Any]) -> None:
        """Undo ``saved``; a counter that it lacks starts anew, one that no longer exists is left out."""
        for name, value in saved.items():
            if name not in self.__slots__:
                continue
            kept = getattr(self, name)
            if isinstance(kept, Tally):
                kept.restore(value)
            elif isinstance(kept, dict):
                setattr(self, name, {key: tuple(one) if isinstance(one, list) else one for key, one in value})
            else:
                setattr(self, name, [tuple(one) for one in value] if name == "texts" else value)

    def paused(self, t: float, pause_s: float) -> bool:
        """Whether the time since the last call is a pause: long, and three times as long as is usual here."""
        if self.last_t is None or self.pace is None:
            return False
        return t - self.last_t >= max(pause_s, 3 * self.pace)

    def keep_pace(self, t: float) -> None:
        """Note the time of a call that repeats nothing; the pace follows over some eight of them."""
        if self.last_t is not None:
            gap = max(0.0, t - self.last_t)
            self.pace = gap if self.pace is None else self.pace + (gap - self.pace) / 8

    def call(
        self,
        exact: int,
        seen: int,
        outcome: int,
        target: int,
        *,
        passed: bool,
        failed: bool = False,
        landed: bool = False,
    ) -> None:
        """Count a call that did not land anew: ``seen`` times before, ``target`` UNKNOWN where it named none.

        It may neither have passed nor failed, where the sensor does not know; then it is fresh all the same.
        """
        if seen >= 2:
            self.again = (self.again << 1 | 1) & _MASK
        elif self.again:
            self.again = self.again << 1 & _MASK
        if self.idle_edits and not landed:
            self.idle_edits = self.idle_edits << 1 & _MASK
        if exact:
            self._in_a_row(exact, seen)
        if target and outcome and not landed and outcome not in SILENT:
            self.sights.add(target ^ outcome)
            if passed:
                self._known(outcome)
        if not seen:
            self.text_run = 0
            if not failed:
                self.fresh += 1
                self.waits = 0

    def recover(self) -> None:
        """Note a success in a streak of failures: it takes half of it away."""
        self.fail_points >>= 1
        if not self.fail_points:
            self.streak.clear()

    def mend(self, place: int) -> None:
        """Note a success at ``place``: it fails alike no more."""
        if self.stubborn.pop(place, None) is not None:
            self.same_failure = max((count for _, count in self.stubborn.values()), default=0)

    def failed(self, outcome: int, place: int, target: int, *, repeated: bool, batch: bool) -> None:
        """Note a failure; one of a ``batch`` refused target by target alike is not a streak (T20)."""
        if outcome in SILENT:
            return
        known = outcome in self.streak and outcome != UNKNOWN
        if not (batch and known and target not in self.streak):
            self.fail_points += 2 if known or repeated else 1
        _remember(self.streak, outcome, None, _STREAK)
        _remember(self.streak, target, None, _STREAK)
        if target and outcome:
            before, count = self.stubborn.pop(place, (UNKNOWN, 0))
            count = count + 1 if before == outcome else 1
            _remember(self.stubborn, place, (outcome, count), _STREAK)
            self.same_failure = max(self.same_failure, count)

    def refused(self, t: float, pause_s: float) -> None:
        """Note a call that the provider refused; with a pause before it somebody waits as they should."""
        if self.last_t is None or t - self.last_t < pause_s:
            self.storm += 1

    def land(self, fingerprint: int, outcome: int, place: int) -> bool:
        """Note an accepted edit, new or not; return whether it brought only a state that was there before."""
        self.edit_run = self.edit_run + 1 if fingerprint == self.edit != UNKNOWN else 1
        self.edit = fingerprint
        telling = self.places.get(place, outcome) != outcome and outcome not in SILENT
        times = self.landed.get(outcome, 0)
        idle = telling and 0 < times < _ACKNOWLEDGED
        self.idle_edits = (self.idle_edits << 1 | idle) & _MASK
        _remember(self.landed, outcome, times + 1, _STREAK)
        _remember(self.places, place, outcome, _PLACES)
        return idle

    def nudge(self) -> None:
        """Note an injected turn."""
        self.nudges = self.nudges + 1 if self.fresh < _FEW_FINDINGS else 1
        self.fresh = 0

    def squeeze(self) -> None:
        """Note a compaction: what was read before it may be read again (T89)."""
        close = self.squeezes and self.calls - self.squeeze_at < _FEW_CALLS
        self.squeezes = self.squeezes + 1 if close else 1
        self.squeeze_at = self.calls
        self.again = self.known_run = 0
        self.outcomes.clear()
        self.sights.clear()

    def done(self) -> None:
        """Note that the agent says it is done; hearing it again means that it was not."""
        close = self.done_run and self.calls - self.done_at <= _DONE_CALLS
        self.done_run = self.done_run + 1 if close else 1
        self.done_at = self.calls

    def say(self, said: int, sim: int) -> None:
        """Note an assistant text: equal or near to one of the last five goes on the run."""
        near = any(said == one or _near(sim, other) for one, other in self.texts)
        self.text_run = self.text_run + 1 if near else 1
        self.texts.append((said, sim))
        if len(self.texts) > _TEXTS:
            del self.texts[0]

    def _in_a_row(self, exact: int, seen: int) -> None:
        recent = self.recent
        if seen and exact in recent:
            self.run = self.run + 1 if exact == self.last else 1
            self._cycle(exact)
        else:
            self.run = 1
            if self.matches:
                self.matches, self.cycle_rounds = {}, 0
        self.last = exact
        recent.append(exact)
        if len(recent) > _LONGEST:
            del recent[0]

    def _cycle(self, exact: int) -> None:
        recent, matches, rounds = self.recent, {}, 0
        for period in _PERIODS:
            if period <= len(recent) and recent[-period] == exact:
                matched = matches[period] = self.matches.get(period, 0) + 1
                if matched + period >= _LEAST_CYCLE and self.run == 1:
                    rounds = max(rounds, matched // period + 1)
        self.matches, self.cycle_rounds = matches, rounds

    def _known(self, outcome: int) -> None:
        outcomes = self.outcomes
        times = outcomes.pop(outcome, 0)
        outcomes[outcome] = times + 1
        self.known_run = self.known_run + 1 if times >= 2 else 0
        if len(outcomes) > _SIGHTS:
            del outcomes[next(iter(outcomes))]


def _near(sim: int, other: int) -> bool:
    return bool(sim and other) and (sim ^ other).bit_count() <= _NEAR_BITS


def _plain(value: Any) -> Any:
    if isinstance(value, Tally):
        return value.pairs()
    return list(value.items()) if isinstance(value, dict) else value


def _remember(known: dict[K, V], key: K, value: V, limit: int) -> None:
    """Set ``key`` as the latest and forget the oldest beyond ``limit``."""
    known.pop(key, None)
    known[key] = value
    if len(known) > limit:
        del known[next(iter(known))]
