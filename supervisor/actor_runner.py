"""Supervised actors: the core's commands performed on pykka actors of this loop, with OTP's semantics.

A child's ``start`` names ``module:Class``, a ``supervisor.dispatcher.LoopActor``; ``args`` are its keyword arguments.
- Started: when ``on_start`` has returned. ``on_start`` that raises is a failed start, ``NothingToDo`` means `ignore`.
- Ended: a monitor tells at once, in the turn of the loop in which it happens, also when it crashed while it was asked.
  ``stop`` by itself is a normal end, ``Leave`` is `{shutdown, Reason}`, everything else that is raised is a crash,
  SystemExit included: it ends that actor alone, no other one, and not the process.
- Stopped: ``wind_down`` is awaited within the child's budget, then on_stop runs; what was sent before is still handled.
  A budget that runs out, and brutal_kill, drop the actor between two messages without on_stop. An actor that blocks
  the loop can be stopped by nobody; the process's heartbeat is what notices that.
``emit`` is never called from within ``start`` or ``stop``. One loop, no threads, no locks.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pykka

from supervisor.dispatcher import ActorStartError, Dropped, LoopActor, drop, monitor, stop, wind_down
from supervisor.events import (
    Boot,
    Call,
    Command,
    Down,
    Ending,
    Event,
    Exited,
    Halt,
    Ignored,
    Ready,
    Reply,
    Report,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.leaving import Leave, NothingToDo
from supervisor.requests import Answer, Request
from supervisor.spec import ChildSpec, SupervisorSpec
from supervisor.tree import Tree

__all__ = ["ActorSupervisor", "Actors", "SupervisorDown"]

_log = logging.getLogger(__name__)

Ref = pykka.ActorRef[Any]


class SupervisorDown(RuntimeError):
    """The supervisor could not be started, or has given up; says why."""


class Actors:
    """The runner. ``emit`` takes events for the core."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._emit = emit
        self._refs: dict[str, tuple[int, Ref]] = {}
        self._stopping: dict[int, asyncio.Task[None]] = {}

    def ref(self, child: str) -> Ref | None:
        """Return the living actor of a child."""
        found = self._refs.get(child)
        return found[1] if found is not None else None

    def start(self, command: Start) -> None:
        """Start an actor."""
        assert command.spec is not None
        self._say(self._started(command, command.spec))

    def _started(self, command: Start, spec: ChildSpec) -> Event:
        name, run = command.id, command.run
        try:
            ref = _load(spec.start).start(**spec.args)
        except ActorStartError as error:
            ignored = isinstance(error.__cause__, NothingToDo)
            return Ignored(name, run) if ignored else StartFailed(name, run, str(error))
        except Exception as error:  # noqa: BLE001 - a constructor or an import that fails is a failed start
            return StartFailed(name, run, f"{type(error).__name__}: {error}")
        self._refs[name] = (run, ref)
        self._loop.call_soon(monitor, ref, lambda end: self._ended(name, run, end))
        return Ready(name, run)

    def stop(self, command: Stop) -> None:
        """Stop an actor within its budget."""
        run, ref = self._refs.get(command.id, (0, None))
        if ref is None or run != command.run:
            return
        if command.shutdown in ("brutal_kill", 0):
            drop(ref)
        else:
            budget_s = command.shutdown / 1000 if isinstance(command.shutdown, int) else None
            self._stopping[run] = self._loop.create_task(self._wind_down(ref, budget_s))

    async def _wind_down(self, ref: Ref, budget_s: float | None) -> None:
        try:
            async with asyncio.timeout(budget_s):
                await wind_down(ref)
                await stop(ref)
        except TimeoutError:
            drop(ref)

    def _ended(self, name: str, run: int, end: BaseException | None) -> None:
        self._refs.pop(name, None)
        task = self._stopping.pop(run, None)
        if task is not None:
            task.cancel()
        self._say(Exited(name, run, _reason(end), _ending(end, asked=task is not None)))

    def _say(self, event: Event) -> None:
        self._loop.call_soon(self._emit, event)


class ActorSupervisor:
    """A supervision tree of actors: ``start`` it, ``call`` it, ``stop`` it; ``down`` resolves when it is down."""

    def __init__(
        self,
        spec: SupervisorSpec,
        *,
        jitter: Callable[[], float] = random.random,
        on_report: Callable[[Report], None] = lambda report: _log.error("%s", report),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.actors = Actors(self._feed)
        self.tree = Tree(spec, jitter=jitter)
        self.down: asyncio.Future[Down] = self._loop.create_future()
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._events: deque[Event] = deque()
        self._working = False
        self._perform: dict[type, Callable[[Any], object]] = {
            Start: self.actors.start,
            Stop: self.actors.stop,
            SetTimer: lambda c: self._loop.call_later(c.after_s, self._feed, Timer(c.key)),
            Report: on_report,
            Reply: self._answered,
            Up: self._on_up,
            Down: self._on_down,
        }

    async def start(self) -> None:
        """Start the actors in order. Raises SupervisorDown when one of them fails; the others are stopped then."""
        self._feed(Boot())
        either: set[asyncio.Future[Any]] = {self._up, self.down}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._up.done():
            raise SupervisorDown(self.down.result().reason)

    async def stop(self) -> None:
        """Stop the actors in reverse order, each within its budget."""
        self._feed(Halt())
        await asyncio.wait({self.down})

    async def call(self, request: Request, supervisor: str = "") -> Answer:
        """Ask a supervisor of the tree (the outermost one) for something."""
        number = next(self._numbers)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[number] = answer
        self._feed(Call(number, supervisor or self.tree.spec.id, request))
        return await answer

    def ref(self, child: str) -> Ref | None:
        """Return the living actor of a child; a new one after every restart, so do not keep it."""
        return self.actors.ref(child)

    def _feed(self, event: Event) -> None:
        self._events.append(event)
        if self._working:
            return
        self._working = True
        while self._events:
            for command in self.tree.handle(self._events.popleft(), self._loop.time()):
                self._do(command)
        self._working = False

    def _do(self, command: Command) -> None:
        perform = self._perform.get(type(command))
        if perform is not None:
            perform(command)

    def _answered(self, reply: Reply) -> None:
        future = self._waiting.pop(reply.ref)
        if not future.done():  # its asker may have been cancelled
            future.set_result(reply.answer)

    def _on_up(self, _command: Up) -> None:
        if not self._up.done():
            self._up.set_result(None)

    def _on_down(self, command: Down) -> None:
        if not self.down.done():
            self.down.set_result(command)


def _load(start: str) -> type[LoopActor]:
    module, _, name = start.partition(":")
    actor: type[LoopActor] = getattr(importlib.import_module(module), name)
    return actor


def _ending(end: BaseException | None, *, asked: bool) -> Ending:
    if end is None:
        return Ending.SHUTDOWN if asked else Ending.NORMAL
    if isinstance(end, Leave):
        return end.ending
    return Ending.KILLED if isinstance(end, Dropped) else Ending.ABNORMAL


def _reason(end: BaseException | None) -> str:
    if end is None:
        return "stopped"
    return str(end) or type(end).__name__ if isinstance(end, Leave) else f"{type(end).__name__}: {end}"
