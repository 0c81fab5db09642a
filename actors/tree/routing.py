"""Which tree a conversation belongs to, parents that are learned late included.

Pure bookkeeping, the same in the daemon's edge and in offline replay. The first parent that is named stands: a
conversation that is no root does not change trees, because that claim comes from an unauthenticated sensor (T48).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from actors.messages import ProgressEvent

__all__ = ["Merge", "Routed", "Router"]


class Merge(NamedTuple):
    """The tree ``old`` is part of the routed tree: its root's parent is ``parent``."""

    old: str
    parent: str


class Routed(NamedTuple):
    """Where an event goes, and what has to be merged first."""

    tree: str
    merge: Merge | None = None


class Router:
    """Trees of the known conversations.

    A merge takes hold when ``merged`` confirms it; until then it is asked for again.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._tree_of: dict[str, str] = dict(known or {})
        self._moved: dict[str, str] = {}

    def tree_of(self, conversation: str) -> str | None:
        """Return the tree of a conversation; None when nothing is known of it."""
        tree = self._tree_of.get(conversation)
        return None if tree is None else self._current(tree)

    def resolve(self, event: ProgressEvent) -> Routed:
        """Return the tree of an event; conversations that it is the first to name become known."""
        own, parent = event.session_id, event.parent_session_id
        tree = self.tree_of(own)
        if parent is None or parent == own:
            return Routed(tree or self._learn(own, own))
        above = self.tree_of(parent)
        if tree is None:
            return Routed(self._learn(own, above or self._learn(parent, parent)))
        if above == tree or tree != own:
            return Routed(tree)
        return Routed(above or self._learn(parent, parent), Merge(tree, parent))

    def learn(self, conversation: str, tree: str) -> None:
        """Take a conversation as known, as when the store is read at the start."""
        self._tree_of[conversation] = tree

    def merged(self, old: str, into: str) -> None:
        """Confirm that the tree ``old`` is part of ``into``; merging what is one tree already does nothing."""
        old, into = self._current(old), self._current(into)
        if old != into:
            self._moved[old] = into

    def _learn(self, conversation: str, tree: str) -> str:
        self._tree_of[conversation] = tree
        return tree

    def _current(self, tree: str) -> str:
        """Follow moves; what was followed is shortened, so that chains stay short."""
        end = tree
        while end in self._moved:
            end = self._moved[end]
        while tree != end:
            self._moved[tree], tree = end, self._moved[tree]
        return end
