"""The one thread that writes. The event loop submits commits; the thread takes all that wait as one group.

Ordering: first in, first out, across and inside groups. Answers are set on the loop, after the COMMIT, one hop a
group. Bounded: more than ``MAX_WAITING`` commits are refused at once. Blocking: never on the loop's side. A storage
fault fails the group it hit; the thread goes on, refuses what comes, and tries again with a growing pause (with the
database opened anew, unless the disk is merely full) until that works. A bug in the thread sets ``failed``: the process
should end and be restarted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from actors.store.database import (
    StorageFault,
    abandon,
    close,
    describe,
    identity,
    open_for_writing,
    prove_writable,
)
from actors.store.group import Checked, GroupFailed, Outcome, Refusal, run_group
from actors.store.requests import Health, RefusalCode
from actors.store.upkeep import Limits, Upkeep

__all__ = ["MAX_WAITING", "Writer"]

MAX_WAITING = 4096
_GROUP_WRITES = 5000
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_ROOM_BYTES = 1024 * 1024
_PIECE_EVERY_S = 0.25
_INSPECT_EVERY_S = 60.0
_SLOW_AFTER_S = 5.0

_KEEP_OPEN = (apsw.FullError, apsw.BusyError)
_DAMAGED = (apsw.CorruptError, apsw.NotADBError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Waiting:
    commit: Checked
    answer: asyncio.Future[Outcome]


class Writer:
    """Own the database at ``path`` from ``start`` to ``stop``. Use from one event loop."""

    def __init__(
        self,
        path: Path,
        limits: Callable[[], Limits],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        on_health: Callable[[Health], None] = lambda health: None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._now = now
        self._on_health = on_health
        self._upkeep = Upkeep(path, limits, clock=clock, now=now)
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._usable = False
        self._damaged = False
        self._suspected = False
        self._inspect_at = float("-inf")
        self._room_bytes = 0
        self._pause_s = _FIRST_PAUSE_S
        self._retry_at = clock()
        self._piece_at = clock()
        self._working_since: float | None = None
        self._health = Health(state="degraded", detail=f"{path} is not open yet", since=now())
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # the loop's side

    async def start(self) -> None:
        """Begin, and return after the first attempt to open the database, whether it worked or not."""
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._opened = self._loop.create_future()
        self._thread.start()
        await asyncio.wait([self._opened, self.failed], return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Execute what waits, close the database, end the thread."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def submit(self, commit: Checked) -> asyncio.Future[Outcome]:
        """Queue ``commit``; the answer comes after its group's COMMIT. Never raises: a full queue answers busy."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._ending:
                answer.set_result(_refusal(RefusalCode.STORAGE, "the keeper is stopping"))
            elif len(self._queue) >= MAX_WAITING:
                answer.set_result(_refusal(RefusalCode.BUSY, f"{MAX_WAITING} commits are waiting"))
            else:
                self._queue.append(_Waiting(commit, answer))
                self._changed.notify()
        return answer

    def suspect(self) -> None:
        """A reader found the file damaged: look at every page soon, at most once a minute. Returns at once."""
        with self._changed:
            self._suspected = True
            self._changed.notify()

    def stuck_for_s(self) -> float:
        """Return how long the thread has been at its present piece of work; 0 while it waits."""
        since = self._working_since
        return 0.0 if since is None else self._clock() - since

    def health(self) -> Health:
        stuck_s = self.stuck_for_s()
        if stuck_s < _SLOW_AFTER_S or self._health.state == "degraded":
            return self._health
        detail = f"{self._path}: a commit has been running for {stuck_s:.0f} s: the disk is slow"
        return Health(state="degraded", detail=detail, since=self._now() - stuck_s)

    # the thread's side

    def _run(self) -> None:
        self._working_since = self._clock()
        try:
            self._open()
            self._working_since = None
            self._loop.call_soon_threadsafe(self._opened.set_result, None)
            while self._turn():
                pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process must hear of it
            self._loop.call_soon_threadsafe(self.failed.set_exception, error)
        finally:
            if self._db is not None:
                close(self._db)

    def _turn(self) -> bool:
        """Wait for work and do one piece of it; return whether there is to be another turn."""
        with self._changed:
            if not self._queue and not self._ending:
                self._changed.wait(self._patience_s())
            group = self._take()
            ending = self._ending and not group
        self._working_since = self._clock()
        if group:
            self._settle(group, self._execute([waiting.commit for waiting in group]))
        if not ending:
            self._between_groups(idle=not group)
        self._working_since = None
        return not ending

    def _patience_s(self) -> float:
        if not self._usable:
            return max(0.0, self._retry_at - self._clock())
        return self._upkeep.patience_s()

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        writes = 0
        while self._queue and writes < _GROUP_WRITES:
            group.append(self._queue.popleft())
            writes += len(group[-1].commit.writes)
        return group

    def _execute(self, commits: Sequence[Checked]) -> Sequence[Outcome]:
        self._open_when_due()
        if self._db is None or not self._usable:
            return [_refusal(RefusalCode.STORAGE, self._health.detail)] * len(commits)
        try:
            outcomes = run_group(self._db, commits)
        except GroupFailed as error:
            self._fault(error.cause)
            return [_refusal(RefusalCode.STORAGE, self._health.detail)] * len(commits)
        self._pause_s = _FIRST_PAUSE_S
        self._upkeep.wrote(self._db, sum(len(commit.writes) for commit in commits))
        return outcomes

    def _between_groups(self, *, idle: bool) -> None:
        """Open when it is time, keep house when nobody waits, and prune now and then even under load."""
        self._open_when_due()
        if self._db is None or not self._usable:
            return
        if idle:
            self._upkeep.idle(self._db)
        if idle or self._clock() >= self._piece_at:
            self._prune(self._db)

    def _prune(self, db: apsw.Connection) -> None:
        self._piece_at = self._clock() + _PIECE_EVERY_S
        try:
            while self._upkeep.piece(db) and not self._queue:
                self._working_since = self._clock()
        except apsw.Error as error:
            self._fault(error)

    def _open_when_due(self) -> None:
        if self._db is not None and identity(self._path) != self._file:
            self._let_go(self._db, "is not the file that was opened: it was removed or replaced")
        if self._db is not None and self._suspected and self._clock() >= self._inspect_at:
            self._inspect_at = self._clock() + _INSPECT_EVERY_S
            self._damaged = True  # opened anew, for our own cache may still hold good copies of bad pages
            self._let_go(self._db, "was found damaged by a reader: it is inspected")
        self._suspected = False
        if not self._usable and self._clock() >= self._retry_at:
            self._open()

    def _let_go(self, db: apsw.Connection, why: str) -> None:
        """Open the file anew at once: what went into one without a name would be gone with our process."""
        abandon(db)
        self._db = None
        self._degrade(f"{self._path} {why}")
        self._retry_at = self._clock()

    def _open(self) -> None:
        try:
            if self._db is None:
                self._db = open_for_writing(self._path, inspect=self._damaged, now=self._now)
                self._file = identity(self._path)
            self._damaged = False
            prove_writable(self._db, self._now(), self._room_bytes)
        except StorageFault as error:
            self._degrade(str(error))
        except apsw.Error as error:
            self._fault(error)
        else:
            self._usable = True
            self._room_bytes = 0
            self._report("ok", "")

    def _fault(self, error: apsw.Error) -> None:
        """Let go of the database, except where that helps nobody: readers need the open log of a full disk."""
        if self._db is not None and not isinstance(error, _KEEP_OPEN):
            close(self._db)
            self._db = None
        self._damaged = isinstance(error, _DAMAGED)
        self._degrade(describe(self._path, error))

    def _degrade(self, detail: str) -> None:
        """Refuse what comes, and try again after a pause that grows until a group succeeds."""
        self._usable = False
        self._room_bytes = _ROOM_BYTES
        self._upkeep.reset()
        self._retry_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._report("degraded", detail)

    def _report(self, state: str, detail: str) -> None:
        if (state, detail) == (self._health.state, self._health.detail):
            return
        since = self._health.since if state == self._health.state else self._now()
        self._health = Health.model_validate({"state": state, "detail": detail, "since": since})
        _log.log(logging.INFO if state == "ok" else logging.ERROR, "storage is %s%s", state, detail and f": {detail}")
        self._loop.call_soon_threadsafe(self._on_health, self._health)

    def _settle(self, group: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        self._loop.call_soon_threadsafe(_set_answers, group, outcomes)


def _set_answers(group: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if not waiting.answer.done():
            waiting.answer.set_result(outcome)


def _refusal(code: RefusalCode, text: str) -> Refusal:
    return Refusal(code, None, text)
