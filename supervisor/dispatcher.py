"""pykka actors on one event loop: no thread per actor, no lock, mailboxes drained in bounded slices.

Stock pykka runs one thread per actor. Here ``actor_inbox.get`` raises a private BaseException where the slice ends, so
pykka's own receive loop is used as it is (it calls ``get`` outside of its try block; tests/unit/supervisor pins that).
Differences to stock pykka, all deliberate: a crash in an ask ends the actor as a crash in a tell does; a failing
on_start fails ``start``; SystemExit and other BaseExceptions in one actor end that actor alone; a blocking ask raises,
because it would wait for itself. ``tell`` may be called from any thread.

``monitor`` tells how an actor ended, in the very turn of the loop in which it did: by itself, with ``Leave``, by a
crash (also one in an ask), or dropped by ``drop``. ``supervisor.actor_runner`` builds on it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import pykka
from pykka import ActorDeadError, ActorRegistry
from pykka.messages import _ActorStop

from supervisor.leaving import Leave

__all__ = ["ActorCrashed", "ActorStartError", "LoopActor", "Monitor", "ask", "drop", "monitor", "stop", "wind_down"]

SLICE_MESSAGES = 64

T = TypeVar("T")


class ActorStartError(RuntimeError):
    """The actor's on_start raised; the actor never lived."""


class ActorCrashed(RuntimeError):
    """A BaseException that is no Exception ended the actor."""


class Dropped(BaseException):
    """The end of an actor that was dropped; only monitors see it."""


Monitor = Callable[[BaseException | None], None]
"""Called once with what ended the actor: None when it stopped, ``Leave``, ``Dropped``, or what it crashed with."""


@dataclass(frozen=True)
class _WindDown:
    """Asks an actor to finish what is under way; passes through the mailbox like everything else."""


class _SliceEnd(BaseException):
    """Leaves pykka's receive loop: the inbox is empty or the slice is used up."""


class _LoopInbox:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._queue: deque[Any] = deque()
        self._scheduled = False
        self._left = 0
        self.drain: Callable[[], None] = lambda: None
        self.actor: LoopActor | None = None

    def put(self, envelope: Any) -> None:
        self._queue.append(envelope)
        if threading.get_ident() == self._thread:
            self.schedule()
        else:
            self._loop.call_soon_threadsafe(self.schedule)

    def get(self) -> Any:
        if not self._queue or not self._left:
            raise _SliceEnd
        self._left -= 1
        return self._queue.popleft()

    def empty(self) -> bool:
        return not self._queue

    def schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._scheduled = False
        self._left = SLICE_MESSAGES
        self.drain()
        self.schedule()

    def wake(self) -> None:
        """Run a slice even when nothing is queued: the loop has to see that it is over."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run_slice)

    def open_for_teardown(self) -> None:
        self._left = len(self._queue)

    def __len__(self) -> int:
        return len(self._queue)


class LoopFuture(pykka.Future[T]):
    """A pykka future that is awaited; ``get`` only returns what is already there."""

    def __init__(self) -> None:
        super().__init__()
        self._future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def get(self, *, timeout: float | None = None) -> Any:
        if not self._future.done():
            raise RuntimeError("a blocking ask on the event loop would wait for itself; await ask(ref, message)")
        return self._future.result()

    def set(self, value: Any = None) -> None:
        if not self._future.done():  # its asker may have been cancelled
            self._future.set_result(value)

    def set_exception(self, exc_info: Any = None) -> None:
        error = (exc_info or sys.exc_info())[1]
        if not self._future.done():
            self._future.set_exception(error or RuntimeError("unknown failure"))

    def __await__(self) -> Generator[None, None, Any]:
        return (yield from self._future.__await__())


class LoopActor(pykka.Actor):
    """Base of all actors. Start it, tell it and stop it on the event loop that shall run it."""

    _failure_handled = False
    _end: BaseException | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._monitors: list[Monitor] | None = []
        self._winding: asyncio.Task[None] | None = None

    async def wind_down(self) -> None:
        """Finish what is under way: a supervisor waits for it, within the child's budget, before it stops the actor.

        Messages are still handled meanwhile.
        """

    @staticmethod
    def _create_actor_inbox() -> Any:
        return _LoopInbox(asyncio.get_running_loop())

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.actor_inbox.drain = self._drain  # type: ignore[attr-defined]
        self.actor_inbox.actor = self  # type: ignore[attr-defined]
        try:
            self.on_start()
        except BaseException as error:
            ActorRegistry.unregister(self.actor_ref)
            self.actor_stopped.set()
            raise ActorStartError(f"{type(self).__name__}: {error}") from error

    def _drain(self) -> None:
        try:
            self._actor_loop_running()
        except _SliceEnd:
            return
        self.actor_inbox.open_for_teardown()  # type: ignore[attr-defined]
        self._actor_loop_teardown()
        if self._winding is not None:
            self._winding.cancel()
        monitors, self._monitors = self._monitors or [], None
        for tell in monitors:
            tell(self._end)

    async def _wind_down(self) -> None:
        try:
            await self.wind_down()
        except Leave as leaving:
            self._leave(leaving)
        except Exception:  # noqa: BLE001 - a crash while winding down is a crash of the actor
            if not self.actor_stopped.is_set():
                self._fail_once()
        self.actor_inbox.wake()  # type: ignore[attr-defined]

    def _leave(self, leaving: Leave) -> None:
        if not self.actor_stopped.is_set():
            self._end = leaving
            self._stop()

    def _drop(self) -> None:
        if self._monitors is None or self.actor_stopped.is_set():
            return
        self._end = Dropped()
        ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        self.actor_inbox.wake()  # type: ignore[attr-defined]

    def _monitor(self, tell: Monitor) -> None:
        if self._monitors is None:
            tell(self._end)
        else:
            self._monitors.append(tell)

    def _handle_receive(self, message: Any) -> Any:
        if isinstance(message, _WindDown):
            self._winding = asyncio.get_running_loop().create_task(self._wind_down())
            return self._winding
        try:
            return super()._handle_receive(message)
        except Leave as leaving:
            self._leave(leaving)
            return None
        except Exception:
            self._fail_once()
            raise
        except BaseException as error:
            self._fail_once()
            raise ActorCrashed(f"{type(error).__name__}: {error}") from error

    def _fail_once(self) -> None:
        info = sys.exc_info()
        self._end = self._end or info[1]
        self._handle_failure(*info)
        self.on_crash(info[1])

    def _handle_failure(self, *info: Any) -> None:
        if not self._failure_handled:  # pykka reports a crashed tell a second time
            self._failure_handled = True
            super()._handle_failure(*info)

    def on_crash(self, error: BaseException | None) -> None:
        """Clean up after a crash; called once, for asks and tells alike."""


async def ask(ref: pykka.ActorRef[Any], message: Any) -> Any:
    """Ask an actor on this loop and wait; an answer that is itself an asyncio future is waited for too."""
    answer = await ref.ask(message, block=False)
    return await answer if asyncio.isfuture(answer) else answer


async def stop(ref: pykka.ActorRef[Any]) -> None:
    """Stop an actor after what was sent to it before; stopping a dead one is no error.

    pykka's own ``ref.stop(block=False)`` answers through a get hook, which cannot be awaited.
    """
    try:
        await ref.ask(_ActorStop(), block=False)
    except ActorDeadError:
        return


def monitor(ref: pykka.ActorRef[Any], tell: Monitor) -> None:
    """Call ``tell`` when the actor ends; at once when it has ended already. As in OTP, several may watch one actor."""
    ref.actor_inbox.actor._monitor(tell)  # type: ignore[attr-defined]


async def wind_down(ref: pykka.ActorRef[Any]) -> None:
    """Let an actor finish what is under way; returns at once when it is dead."""
    try:
        await ask(ref, _WindDown())
    except ActorDeadError:
        return


def drop(ref: pykka.ActorRef[Any]) -> None:
    """End an actor before its next message, without on_stop: as much of a kill as there is on one loop.

    What waits in its mailbox fails with ActorDeadError. An actor that blocks the loop cannot be dropped.
    """
    ref.actor_inbox.actor._drop()  # type: ignore[attr-defined]
