"""Counts of keys with the largest count at hand, in O(1) per change and bounded by ``limit`` keys."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Bag", "Key", "Tally"]

Key = int | str


class Bag:
    """Count keys; nothing is forgotten."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, key: Key) -> bool:
        return key in self.counts

    def add(self, key: Key) -> None:
        self.counts[key] = self.counts.get(key, 0) + 1

    def remove(self, key: Key) -> None:
        """Take one back."""
        left = self.counts[key] - 1
        if left:
            self.counts[key] = left
        else:
            del self.counts[key]

    def clear(self) -> None:
        if self.counts:
            self.counts = {}


class Tally:
    """Count keys; with ``limit`` the key that was added to least recently is forgotten first.

    ``top`` is the largest count; ``_levels[n]`` is how many keys have the count n, for n of 2 and more, and makes that
    O(1). Most keys come once, and cost no level.
    """

    __slots__ = ("_levels", "_limit", "counts", "top")

    def __init__(self, limit: int = 0) -> None:
        self.counts: dict[Key, int] = {}
        self.top = 0
        self._levels: dict[int, int] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, key: Key) -> bool:
        return key in self.counts

    def add(self, key: Key) -> None:
        counts = self.counts
        count = (counts.pop(key, 0) if self._limit else counts.get(key, 0)) + 1
        counts[key] = count
        if count > 1:
            levels = self._levels
            levels[count] = levels.get(count, 0) + 1
            if count > 2:
                self._leave(count - 1)
        self.top = max(self.top, count)
        if self._limit and len(counts) > self._limit:
            self.drop(next(iter(counts)))

    def remove(self, key: Key) -> None:
        """Take one back; the key keeps its place in the order of forgetting."""
        count = self.counts[key]
        if count == 1:
            del self.counts[key]
        else:
            self.counts[key] = count - 1
            if count > 2:
                self._levels[count - 1] = self._levels.get(count - 1, 0) + 1
            self._leave(count)
        if count == self.top:
            self._lower()

    def drop(self, key: Key) -> None:
        """Forget a key altogether; an unknown one is fine."""
        count = self.counts.pop(key, 0)
        if count > 1:
            self._leave(count)
        if count and count == self.top:
            self._lower()

    def clear(self) -> None:
        if self.counts:
            self.counts, self._levels, self.top = {}, {}, 0

    def pairs(self) -> list[tuple[Key, int]]:
        """Return ``(key, count)`` pairs, least recently added first."""
        return list(self.counts.items())

    def restore(self, pairs: Iterable[tuple[Key, int]]) -> None:
        """Undo ``pairs``."""
        self.clear()
        for key, count in pairs:
            self.counts[key] = count
            if count > 1:
                self._levels[count] = self._levels.get(count, 0) + 1
            self.top = max(self.top, count)

    def _leave(self, count: int) -> None:
        left = self._levels[count] - 1
        if left:
            self._levels[count] = left
        else:
            del self._levels[count]

    def _lower(self) -> None:
        """Find the top again: one step after ``remove``; ``drop`` may leave a gap, which its adds have paid for."""
        if self.top not in self._levels and (self.top > 1 or not self.counts):
            self.top = max(self._levels, default=1 if self.counts else 0)
