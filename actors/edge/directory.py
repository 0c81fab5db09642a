"""Which tree each conversation belongs to: the pure router with a bounded memory and the database behind it (P015).

A conversation that fell out of memory is read from the store when it speaks again: one indexed read on the event loop.
Merges take hold here at once; the barrier in both lanes keeps every later event behind the actual move.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from actors.messages import ProgressEvent
from actors.tree.routing import Routed, Router

__all__ = ["Directory"]

MAX_CONVERSATIONS = 100_000  # far more than can be under way and uncommitted at a time

Stored = Callable[[str], str | None]


class Directory:
    """``stored`` reads a conversation's tree from the database and may raise Unreadable."""

    def __init__(self, stored: Stored, *, most: int = MAX_CONVERSATIONS) -> None:
        self._stored = stored
        self._most = most
        self._router = Router()
        self._recent: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def load(self, known: Iterable[tuple[str, str]]) -> None:
        """Take (conversation, tree) pairs from the store, the newest last."""
        for conversation, tree in known:
            self._router.learn(conversation, tree)
            self._touch(conversation)

    def route(self, event: ProgressEvent) -> Routed:
        """Return where ``event`` goes and what must be merged first; ask once, the answer is remembered."""
        self.tree_of(event.session_id)
        if event.parent_session_id is not None:
            self.tree_of(event.parent_session_id)
        routed = self._router.resolve(event)
        if routed.merge is not None:
            self._router.merged(routed.merge.old, routed.tree)
        self._touch(event.session_id)
        if event.parent_session_id is not None:
            self._touch(event.parent_session_id)
        return routed

    def tree_of(self, conversation: str) -> str | None:
        """Return the tree of a conversation, or None when neither memory nor store knows it."""
        tree = self._router.tree_of(conversation)
        if tree is None:
            tree = self._stored(conversation)
            if tree is not None:
                self._router.learn(conversation, tree)
                self._touch(conversation)
                tree = self._router.tree_of(conversation)
        return tree

    def moved(self, old: str, into: str) -> None:
        """A shard said that the tree ``old`` is part of ``into``."""
        self._router.merged(old, into)

    def _touch(self, conversation: str) -> None:
        self._recent[conversation] = None
        self._recent.move_to_end(conversation)
        if len(self._recent) > self._most:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the half that spoke last, in a new router: it forgets the rest and the moves behind it."""
        for _ in range(len(self._recent) - self._most // 2):
            self._recent.popitem(last=False)
        trees = {name: self._router.tree_of(name) for name in self._recent}
        self._router = Router({name: tree for name, tree in trees.items() if tree is not None})
