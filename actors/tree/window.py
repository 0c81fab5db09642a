"""The rolling window of a conversation's last calls, with counters that follow it in O(1) per call (P032).

The window outlives a landing; its counters do not: they look at the calls since the last reset only, so that what
an agent repeated before a change landed is not held against it afterwards. Two keys per call (T41): the exact one is
fingerprint and outcome, the slice is what was touched. A call repeated word for word whose outcome is new is polling,
or a test after an edit: neither a duplicate nor a repeat. Outcomes that the sensor does not know are taken as equal.
A repeat that waits (``trail``) is neither, too.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from actors.tree.keys import pair_key
from actors.tree.tally import Bag, Key, Tally

__all__ = ["Call", "Window"]

_made = tuple.__new__


class Call(NamedTuple):
    """One call; keys are ``UNKNOWN`` where the sensor did not say; ``place`` is the target, or else another key."""

    fingerprint: int
    exact: int
    slice: int
    place: Key
    target: str | None
    polled: bool
    waited: bool


class Window:
    """The last ``limit`` calls; distinct places are counted over the last ``span`` <= ``limit`` of them (P008)."""

    __slots__ = ("calls", "exact", "fingerprints", "known", "limit", "places", "since", "slices", "span")

    def __init__(self, limit: int, span: int) -> None:
        self.limit = limit
        self.span = span
        self.calls: deque[Call] = deque()
        self.since = 0
        self.fingerprints = Bag()
        self.known = 0  # calls since the reset that have a fingerprint and wait for nothing
        self.exact = Tally()
        self.slices = Tally()
        self.places = Bag()

    @property
    def dup_share(self) -> float:
        """Share of calls since the reset that repeat an earlier one, outcome included (P035)."""
        return (self.known - len(self.exact)) / self.since if self.since else 0.0

    @property
    def top_repeat(self) -> int:
        """Calls on the slice that was touched most; for shell calls that name no slice, the fingerprint."""
        return self.slices.top

    @property
    def spans(self) -> int:
        """Calls that ``len(places)`` looks at."""
        return min(self.since, self.span)

    def push(
        self,
        fingerprint: int,
        outcome: int,
        slice_key: int,
        place: Key,
        target: str | None,
        *,
        waited: bool = False,
    ) -> Call:
        """Add one call and let the oldest go."""
        exact = pair_key(fingerprint, outcome)
        polled = waited or (bool(outcome) and fingerprint in self.fingerprints and exact not in self.exact)
        # a plain tuple made a Call: on this path the constructor of a named tuple costs as much as a counter
        call = _made(Call, (fingerprint, exact, slice_key or fingerprint, place, target, polled, waited))
        calls = self.calls
        calls.append(call)
        self.since = since = self.since + 1
        self._count(call)
        if since > self.span:
            self.places.remove(calls[-self.span - 1].place)
        if len(calls) > self.limit:
            self._evict()
        return call

    def reset(self) -> None:
        """Count from here on; the calls themselves stay."""
        self.since = self.known = 0
        for tally in (self.fingerprints, self.exact, self.slices, self.places):
            tally.clear()

    def resize(self, limit: int, span: int) -> None:
        """Follow a changed knob; O(window), and only when it changed."""
        kept = list(self.calls)[-limit:]
        self.restore(kept, min(self.since, limit), limit, span)

    def restore(self, calls: list[Call], since: int, limit: int, span: int) -> None:
        """Take up saved calls, of which the last ``since`` count."""
        self.limit, self.span, self.since, self.known = limit, span, since, 0
        self.calls = deque(calls)
        for tally in (self.fingerprints, self.exact, self.slices, self.places):
            tally.clear()
        counted = calls[len(calls) - since :]
        for call in counted:
            self._count(call)
        for call in counted[: max(0, since - span)]:
            self.places.remove(call.place)

    def top_target(self) -> str | None:
        """Return the target that the calls since the reset name most, the latest of equals; O(window)."""
        counts: dict[str, int] = {}
        for index in range(len(self.calls) - self.since, len(self.calls)):
            target = self.calls[index].target
            if target:
                counts[target] = counts.pop(target, 0) + 1
        return max(reversed(counts), key=counts.__getitem__, default=None)

    def _count(self, call: Call) -> None:
        fingerprint, exact, slice_key, place, _, polled, waited = call
        if fingerprint and not waited:
            self.known += 1
            counts = self.fingerprints.counts
            counts[fingerprint] = counts.get(fingerprint, 0) + 1
            self.exact.add(exact)
        if slice_key and not polled:
            self.slices.add(slice_key)
        counts = self.places.counts
        counts[place] = counts.get(place, 0) + 1

    def _evict(self) -> None:
        call = self.calls.popleft()
        if self.since <= len(self.calls):
            return
        self.since -= 1
        fingerprint, exact, slice_key, _, _, polled, waited = call
        if fingerprint and not waited:
            self.known -= 1
            self.fingerprints.remove(fingerprint)
            self.exact.remove(exact)
        if slice_key and not polled:
            self.slices.remove(slice_key)
