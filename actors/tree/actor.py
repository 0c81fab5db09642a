"""The shell around the pure step: one actor per active tree. It receives, steps, commits, and hands effects on.

Order: one commit at a time; what arrives meanwhile waits and goes into the next one. Crash guarantee: nothing is
acknowledged before its commit; when a commit fails, or the step raises, the actor is gone and the next message finds
the tree as the database has it. Events that were committed before are recognised by their ids and count as duplicates.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from actors.messages import Command, ProgressEvent, Tick
from actors.store.reader import Unreadable
from actors.store.requests import Commit, Committed, RefusalCode, Write
from actors.tree.mailbox import Apply, Go, Leave, Look, Merge, Order, Put, Settled, Wake, Work
from actors.tree.merge import merge
from actors.tree.record import Draft, Header, effect_ids, moves, rows_of_conversations, tree_row
from actors.tree.requests import Adopt, Failure, Outcome, TreeRow
from actors.tree.shelf import Loaded, Moved, Shelf
from actors.tree.step import describe, step
from supervisor.bus.errors import BusError, RemoteError
from supervisor.dispatcher import LoopActor

__all__ = ["Actions", "TreeActor"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Actions:
    """What the shard offers its actors. ``commit`` asks the keeper; ``publish`` and ``alert`` run after a commit."""

    commit: Callable[[Commit], Coroutine[Any, Any, Committed]]
    publish: Callable[[TreeRow], None]
    alert: Callable[[str, int, Any], None]
    gone: Callable[[str], None]
    step: Callable[..., Any] = step


Waiting = tuple[Work, "asyncio.Future[Outcome]"]


class TreeActor(LoopActor):
    """One tree. Its messages are those of ``mailbox``."""

    def __init__(self, tree: str, shelf: Shelf, actions: Actions) -> None:
        super().__init__()
        self._tree = tree
        self._shelf = shelf
        self._do = actions
        self._waiting: deque[Waiting] = deque()
        self._under_way: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        self._draft = Draft()
        self._next: tuple[Header, dict[str, Any]] | None = None
        self._published: TreeRow | None = None
        self._index: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._going = False
        self.received_at = shelf.now()

    def on_start(self) -> None:
        """Load the tree: snapshot plus tail. Raises Moved, Unreadable."""
        loaded: Loaded = self._shelf.load(self._tree)
        self._state, self._header, self._known = loaded.state, loaded.header, loaded.conversations
        self._touched_at = loaded.touched_at
        self._draft.take(loaded.effects)

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Look):
            return describe(self._state, self._shelf.knobs)
        if isinstance(message, Settled):
            return self._settle(message)
        if isinstance(message, Go):
            return self._go()
        if isinstance(message, Leave):
            return self._depart()
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, answer))
        self.received_at = self._shelf.now()
        self._go_soon()
        return answer

    def _go_soon(self) -> None:
        """Through the mailbox: messages that arrive together share a commit, and a crash reaches every asker."""
        if self._task is None and self._waiting and not self._going:
            self._going = True
            self.actor_ref.tell(Go())

    def _go(self) -> None:
        self._going = False
        try:
            whole = self._perform_all()
        except Unreadable as error:
            self._discard("storage", str(error))
            return
        self._begin_commit(whole or bool(self._draft.transitions))

    def _perform_all(self) -> bool:
        """Perform what waits; tell whether the tree shall be written whole."""
        whole = False
        while self._waiting:
            message, answer = self._waiting[0]
            outcome = self._perform(message)
            self._waiting.popleft()
            self._under_way.append((answer, outcome))
            whole = whole or isinstance(message, Order | Put | Merge)
        return whole

    def _depart(self) -> bool:
        """Stop if everything is written and nobody waits."""
        if self._task is not None or self._waiting or self._header.snapshot_seq != self._state.seq:
            return False
        self._stop()
        self._do.gone(self._tree)
        return True

    def _perform(self, message: Any) -> Outcome:
        if isinstance(message, Apply):
            return self._apply(message.events)
        if isinstance(message, Merge):
            return self._merge(message.request)
        if isinstance(message, Order):
            self._draft.extra.append(message.audit)
            self._advance_to_now(message.command)
        elif isinstance(message, Wake):
            self._advance_to_now(Tick(t=0))
        return Outcome(tree=self._tree, accepted=1)

    def _advance_to_now(self, event: Tick | Command) -> None:
        """Stamp ``event`` with the tree's own time: event time, going on since the last receipt as the wall does."""
        now = self._shelf.now()
        t = self._state.now + max(0.0, now - self._touched_at)
        self._touched_at = now
        self._advance(event.model_copy(update={"t": t}))

    def _apply(self, events: list[ProgressEvent]) -> Outcome:
        fresh = self._shelf.unseen(events, (event for _, event, _ in self._draft.events))
        now = self._shelf.now()
        for self._index in fresh:
            event = events[self._index]
            self._touched_at = now
            self._advance(event)
            self._draft.events.append((self._state.seq, event, now))
        self._index = None
        return Outcome(tree=self._tree, accepted=len(fresh), duplicates=len(events) - len(fresh))

    def _advance(self, event: ProgressEvent | Tick | Command) -> None:
        self._state, effects = self._do.step(self._state, event, self._shelf.knobs)
        self._draft.take(effects)

    def _merge(self, request: Adopt) -> Outcome:
        try:
            other = self._shelf.load(request.other)
        except Moved as moved:
            failed: Failure | None = None if moved.into == self._tree else "moved"
            return Outcome(tree=self._tree, failed=failed, detail=moved.into)
        if other.header.rev:
            offset, n_offset = self._state.seq, self._header.transitions
            self._draft.extra += moves(
                request.other, other.header, self._tree, offset=offset, n_offset=n_offset, now=self._shelf.now()
            )
            self._header = replace(self._header, transitions=self._header.transitions + other.header.transitions)
        self._touched_at = max(self._touched_at, other.touched_at)
        self._state, effects = merge(self._state, other.state, self._shelf.knobs, request.parent)
        self._draft.take(effects)
        return Outcome(tree=self._tree, accepted=1)

    def _begin_commit(self, whole: bool) -> None:
        now, knobs = self._shelf.now(), self._shelf.knobs
        snapshot = whole or self._header.rev == 0 or self._state.seq - self._header.snapshot_seq >= knobs.snapshot_every
        row, header, summary = tree_row(
            self._state, self._header, knobs, touched_at=self._touched_at, snapshot=snapshot
        )
        touched = self._state.conversations if whole else self._touched()
        writes = [row, *rows_of_conversations(self._state, self._known, touched, now)]
        writes += self._draft.writes(self._tree, self._header, now)
        self._next = (header, summary)
        self._task = asyncio.get_running_loop().create_task(self._commit(writes, self._draft))

    def _touched(self) -> list[str]:
        named = {name for _, event, _ in self._draft.events for name in (event.session_id, event.parent_session_id)}
        return [self._tree, *(name for name in named if name is not None)]

    async def _commit(self, writes: list[Write], draft: Draft) -> None:
        settled = await self._committed_or_not(writes, draft)
        if self.actor_ref.is_alive():
            self.actor_ref.tell(settled)

    async def _committed_or_not(self, writes: list[Write], draft: Draft) -> Settled:
        """Commit; hand the alerts on even when this actor dies meanwhile, for they are in the database now."""
        try:
            done = await self._do.commit(Commit(writes=writes, durable=draft.durable))
        except RemoteError as error:
            return Settled(False, "storage" if error.code == RefusalCode.STORAGE else "busy", str(error))
        except BusError as error:  # the keeper is away: whether it committed shows when the tree is loaded again
            return Settled(False, "busy", str(error))
        for effect, alert in zip(effect_ids(writes, done.rows), draft.alerts, strict=True):
            self._do.alert(self._tree, effect, alert)
        return Settled(True)

    def _settle(self, settled: Settled) -> None:
        self._task = None
        if not settled.committed:
            self._discard(settled.failed, settled.detail)
            return
        self._committed()
        self._go_soon()

    def _committed(self) -> None:
        assert self._next is not None
        header, summary = self._next
        self._header = replace(header, transitions=header.transitions + len(self._draft.transitions))
        self._publish(summary)
        self._draft = Draft()
        answered, self._under_way = self._under_way, []
        for answer, outcome in answered:
            _answer(answer, outcome)

    def _publish(self, summary: dict[str, Any]) -> None:
        row = TreeRow(
            tree=self._tree,
            rev=self._header.rev,
            verdict=summary["verdict"],
            reason=summary["reason"],
            mode=self._state.mode,
            stage=summary["stage"] or "none",
        )
        if self._published is None or row.model_copy(update={"rev": self._published.rev}) != self._published:
            self._published = row
            self._do.publish(row)

    def _discard(self, failed: Failure, detail: str) -> None:
        """Forget this state: the database may not have it. Everybody who waits is told."""
        _log.warning("tree %s is loaded anew: %s", self._tree, detail)
        self._fail_all(failed, detail)  # before _stop, which would call it less precisely
        self._stop()
        self._do.gone(self._tree)

    def on_stop(self) -> None:
        self._fail_all("busy", "the tree's actor stopped")

    def on_crash(self, error: BaseException | None) -> None:
        self._fail_all("crashed", f"{type(error).__name__}: {error}")
        self._do.gone(self._tree)

    def _fail_all(self, failed: Failure, detail: str) -> None:
        """The message at the head of the queue is the one being performed: only it may name a poison event."""
        for answer, _ in self._under_way:
            _answer(answer, Outcome(tree=self._tree, failed="busy" if failed == "crashed" else failed, detail=detail))
        for place, (_, answer) in enumerate(self._waiting):
            first = place == 0 and failed == "crashed"
            index = self._index if first else None
            reason: Failure = failed if first or failed == "storage" else "busy"
            _answer(answer, Outcome(tree=self._tree, failed=reason, detail=detail, index=index))
        self._under_way.clear()
        self._waiting.clear()


def _answer(answer: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not answer.done():  # its asker may be gone
        answer.set_result(outcome)
