"""Where passive trees are: the database, read-only. Loading is snapshot plus tail.

Blocks the loop for one or a few indexed reads (well under a millisecond when the pages are cached).

Moved         the tree was merged into another one
Unreadable    the database cannot be read now (from actors.store.reader)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from actors.knobs import Progress
from actors.messages import ProgressEvent
from actors.store.reader import Reader
from actors.store.records import TreeRecord
from actors.tree.record import Header
from actors.tree.snapshot import load
from actors.tree.state import TreeState, new_tree
from actors.tree.step import Effects, step

__all__ = ["Loaded", "Moved", "Shelf"]

_log = logging.getLogger(__name__)


class Moved(Exception):
    """The tree is part of ``into`` now."""

    def __init__(self, into: str) -> None:
        super().__init__(into)
        self.into = into


@dataclass
class Loaded:
    """A tree ready to go on. ``effects``: what the tail brought about and no commit has seen (changed knobs)."""

    state: TreeState
    header: Header
    conversations: dict[str, tuple[str | None, str | None]]
    touched_at: float
    effects: Effects


class Shelf:
    """Loads trees and tells which events are new. ``now`` is wall time, ``current_knobs`` the settings in force."""

    def __init__(self, reader: Reader, current_knobs: Callable[[], Progress], now: Callable[[], float]) -> None:
        self.reader = reader
        self.now = now
        self._current_knobs = current_knobs

    @property
    def knobs(self) -> Progress:
        return self._current_knobs()

    def load(self, tree: str) -> Loaded:
        """Return the tree as committed; a tree nobody stored is new. Raises Moved, Unreadable."""
        found = self.reader.tree(tree)
        if found is None:
            now = self.now()
            return Loaded(new_tree(tree), Header(created_at=now), {}, now, [])
        if found.merged_into is not None:
            raise Moved(found.merged_into)
        state, known_seq = _restored(found)
        effects = self._replay(state, known_seq)
        last = self.reader.transitions(tree, limit=1)
        header = Header(found.rev, found.snapshot_seq, last[-1].n + 1 if last else 0, found.created_at)
        known = {row.id: (row.parent, row.agent) for row in self.reader.conversations(tree)}
        return Loaded(state, header, known, found.touched_at, effects)

    def unseen(self, events: Sequence[ProgressEvent], drafted: Iterable[ProgressEvent]) -> list[int]:
        """Return the indexes of the events that are neither stored nor in the draft nor earlier in ``events``."""
        wanted: dict[str, list[str]] = {}
        for event in events:
            if event.id is not None:
                wanted.setdefault(event.session_id, []).append(event.id)
        seen = {(event.session_id, event.id) for event in drafted}
        for conversation, ids in wanted.items():
            seen.update((conversation, one) for one in self.reader.seen_ids(conversation, ids))
        fresh = []
        for index, event in enumerate(events):
            key = (event.session_id, event.id)
            if event.id is None or key not in seen:
                fresh.append(index)
                seen.add(key)
        return fresh

    def _replay(self, state: TreeState, seq: int) -> Effects:
        effects: Effects = []
        knobs = self.knobs
        for row in self.reader.events_after(state.id, seq):
            state.seq = row.seq - 1  # pruned numbers leave gaps
            try:
                effects += step(state, ProgressEvent.model_validate_json(row.body), knobs)[1]
            except Exception:  # noqa: BLE001 - a newer judge stumbles over it: one event must not cost the tree
                _log.exception("event %d of tree %s is left out", row.seq, state.id)
        return effects


def _restored(found: TreeRecord) -> tuple[TreeState, int]:
    """Return the state of the snapshot and its number. An unreadable snapshot is rebuilt from the kept events."""
    if found.snapshot is not None:
        try:
            return load(found.snapshot), found.snapshot_seq
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it: the events are there as well
            _log.error("snapshot of tree %s is rebuilt from its events: %s", found.id, error)
    state = new_tree(found.id)
    state.seq = found.seq
    return state, 0
