"""What an operator may ask of a running root: restart one child, or all of them one after the other.

``Restart {child}`` -> {child, ready: true, pid} or {child, ready: false, reason}: stops the child within its budget,
starts it again, and answers once it serves or has failed; a failed start goes the way of every failed restart (backoff,
slow retry), so nothing is left down. A supervisor's id restarts everything below it.
``RestartRolling`` -> {restarted: [...], failed: null or what Restart answers, left: [...]}: every process in start
order, which is the order of their dependencies; stops at the first one that does not get ready, the rest keeps running
as it is. Children that have ended for good are skipped. One at a time: a second one is refused (code busy).

Both answer late (ready_timeout_s of each child at most, plus its shutdown): ask with a timeout to match. A root that is
told to stop meanwhile answers with reason ``gone``. Nothing here blocks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.children import ChildState
from supervisor.events import Call, Event, Reply
from supervisor.requests import Answer, Cycle, No, Request
from supervisor.tree import Tree

__all__ = ["Operations"]


class Operations:
    """Asks the tree, through its mailboxes, and waits for the answers."""

    def __init__(self, tree: Tree, feed: Callable[[Event], None], pid: Callable[[str], int | None]) -> None:
        self._tree = tree
        self._feed = feed
        self._pid = pid
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._rolling = False

    def register(self, endpoint: Endpoint) -> None:
        """Register the kinds on the bus."""
        endpoint.on("Restart", self.restart)
        endpoint.on("RestartRolling", self.restart_rolling)

    def answered(self, reply: Reply) -> None:
        """Take an answer of the core."""
        future = self._waiting.pop(reply.ref, None)
        if future is not None and not future.done():
            future.set_result(reply.answer)

    async def call(self, supervisor: str, request: Request) -> Answer:
        """Ask a supervisor; the answer comes when its turn has come and the work is done."""
        number = next(self._numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._feed(Call(number, supervisor, request))
        return await future

    async def restart(self, body: bytes) -> bytes:
        """Restart one child."""
        return json.dumps(await self._cycle(self._child(body))).encode()

    async def restart_rolling(self, _body: bytes) -> bytes:
        """Restart every process that runs, one after the other."""
        if self._rolling:
            raise Refused("busy", "a rolling restart is under way")
        self._rolling = True
        try:
            return json.dumps(await self._roll()).encode()
        finally:
            self._rolling = False

    async def _roll(self) -> dict[str, Any]:
        left = [s.id for s in self._tree.standings() if s.state is not ChildState.STOPPED]
        restarted: list[str] = []
        while left:
            outcome = await self._cycle(left[0])
            if not outcome["ready"]:
                return {"restarted": restarted, "failed": outcome, "left": left[1:]}
            restarted.append(left.pop(0))
        return {"restarted": restarted, "failed": None, "left": []}

    async def _cycle(self, child: str) -> dict[str, Any]:
        answer = await self.call(self._tree.supervisor_of(child), Cycle(child))
        if isinstance(answer, No):
            return {"child": child, "ready": False, "reason": answer.detail or str(answer.refusal)}
        return {"child": child, "ready": True, "pid": self._pid(child)}

    def _child(self, body: bytes) -> str:
        try:
            child = str(json.loads(body)["child"])
        except (ValueError, KeyError, TypeError):
            raise Refused("invalid", "Restart needs child") from None
        try:
            self._tree.supervisor_of(child)
        except KeyError:
            known = ", ".join(standing.id for standing in self._tree.standings())
            raise Refused("unknown_child", f"child is {child!r}; allowed: {known}") from None
        return child
