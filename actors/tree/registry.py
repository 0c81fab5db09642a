"""The active trees of one shard: actors by tree id, made on demand and let go when idle.

Everything runs on the shard's loop. An actor that crashed or lost a commit is forgotten at once; the next message
makes a new one from the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pykka

from actors.store.reader import Unreadable
from actors.tree.actor import Actions, TreeActor
from actors.tree.mailbox import Leave, Look, Put
from actors.tree.requests import Outcome
from actors.tree.shelf import Moved, Shelf
from supervisor.dispatcher import ActorStartError, ask

__all__ = ["Registry"]

_LEAVE_TRIES = 20


class Registry:
    """Find or make the actor of a tree and ask it. Answers are Outcomes; no method raises for a sick tree."""

    def __init__(self, shelf: Shelf, actions: Actions) -> None:
        self._shelf = shelf
        self._actions = actions
        self._active: dict[str, pykka.ActorRef[TreeActor]] = {}

    def __len__(self) -> int:
        return len(self._active)

    def forget(self, tree: str) -> None:
        """Drop the actor of ``tree``: it is gone."""
        self._active.pop(tree, None)

    async def perform(self, tree: str, message: Any) -> Outcome:
        """Let the tree's actor perform Apply, Order, Wake, Put or Merge."""
        try:
            outcome: Outcome = await ask(self._ref(tree), message)
        except ActorStartError as error:
            return _not_started(tree, error.__cause__)
        except pykka.ActorDeadError as error:
            self.forget(tree)
            return Outcome(tree=tree, failed="busy", detail=str(error))
        return outcome

    async def view(self, tree: str) -> dict[str, Any] | None:
        """Return the tree's view, or None when nobody knows the tree. Raises Unreadable."""
        if tree not in self._active and self._shelf.reader.tree(tree) is None:
            return None
        try:
            found: dict[str, Any] = await ask(self._ref(tree), Look())
        except ActorStartError as error:
            if isinstance(error.__cause__, Moved):
                return None
            raise Unreadable(str(error)) from error
        return found

    async def release(self, tree: str) -> bool:
        """Let the tree's actor go once everything is written; False when new messages kept it busy."""
        for _ in range(_LEAVE_TRIES):
            if await self._leave(tree):
                return True
            outcome = await self.perform(tree, Put())
            if outcome.failed == "moved":
                return True
        return await self._leave(tree)

    async def passivate(self, before: float) -> None:
        """Let go of every actor that received nothing since wall time ``before``."""
        for tree in self._idle(before):
            await self.release(tree)
            await asyncio.sleep(0)

    def _idle(self, before: float) -> Iterable[str]:
        return [tree for tree, ref in self._active.items() if _received(ref) < before]

    async def _leave(self, tree: str) -> bool:
        ref = self._active.get(tree)
        if ref is None:
            return True
        try:
            left: bool = await ask(ref, Leave())
        except pykka.ActorDeadError:
            return True
        return left

    def _ref(self, tree: str) -> pykka.ActorRef[TreeActor]:
        ref = self._active.get(tree)
        if ref is None:
            ref = TreeActor.start(tree, self._shelf, self._actions)
            self._active[tree] = ref
        return ref


def _received(ref: pykka.ActorRef[TreeActor]) -> float:
    actor = ref._actor_weakref()
    return actor.received_at if actor is not None else 0.0


def _not_started(tree: str, cause: BaseException | None) -> Outcome:
    if isinstance(cause, Moved):
        return Outcome(tree=tree, failed="moved", detail=cause.into)
    if isinstance(cause, Unreadable):
        return Outcome(tree=tree, failed="storage", detail=str(cause))
    return Outcome(tree=tree, failed="crashed", detail=f"{type(cause).__name__}: {cause}")
