"""Counts of keys with the largest count at hand, in O(1) per change and bounded by ``limit`` keys."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Key", "Tally"]

Key = int | str


class Tally:
    """Count keys; with ``limit`` the key that was added to least recently is forgotten first.

    ``top`` is the largest count, ``total`` the sum of all; ``_levels[n]`` is how many keys have the count n, and makes
    that O(1).
    """

    __slots__ = ("_levels", "_limit", "counts", "top", "total")

    def __init__(self, limit: int = 0) -> None:
        self.counts: dict[Key, int] = {}
        self.top = 0
        self.total = 0
        self._levels: dict[int, int] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, key: Key) -> bool:
        return key in self.counts

    def add(self, key: Key) -> None:
        before = self.counts.pop(key, 0)
        self.counts[key] = before + 1
        self._shift(before, before + 1)
        if self._limit and len(self.counts) > self._limit:
            self.drop(next(iter(self.counts)))

    def remove(self, key: Key) -> None:
        """Take one back; the key keeps its place in the order of forgetting."""
        before = self.counts[key]
        if before == 1:
            del self.counts[key]
        else:
            self.counts[key] = before - 1
        self._shift(before, before - 1)

    def drop(self, key: Key) -> None:
        """Forget a key altogether; an unknown one is fine."""
        before = self.counts.pop(key, 0)
        if before:
            self._shift(before, 0)

    def clear(self) -> None:
        if self.counts:
            self.counts, self._levels, self.top, self.total = {}, {}, 0, 0

    def pairs(self) -> list[tuple[Key, int]]:
        """Return ``(key, count)`` pairs, least recently added first."""
        return list(self.counts.items())

    def restore(self, pairs: Iterable[tuple[Key, int]]) -> None:
        """Undo ``pairs``."""
        self.clear()
        for key, count in pairs:
            self.counts[key] = count
            self._shift(0, count)

    def _shift(self, before: int, after: int) -> None:
        self.total += after - before
        levels = self._levels
        if before:
            if levels[before] == 1:
                del levels[before]
            else:
                levels[before] -= 1
        if after:
            levels[after] = levels.get(after, 0) + 1
        if after > self.top:
            self.top = after
        elif before == self.top and before not in levels:
            # one step down is enough after remove; drop may leave a gap, which the adds that made it have paid for
            self.top = after or max(levels, default=0)
