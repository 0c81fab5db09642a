"""One supervisor as a pure state machine: events in, commands out; OTP's semantics of one_for_one.

No process, thread or clock: ``now`` (monotonic seconds) comes with the event, ``jitter`` is injected.
Ordering: ``Boot`` starts the children in order, the next one after the elder is ready; ``Halt`` stops them in reverse,
the next one after the younger is gone; both go through one queue of steps, in which later strategies put theirs.
Restarts of one_for_one run beside that queue, so a slow child never delays another one's restart.
Beyond OTP (``OnExcess.SLOW_RETRY``): a failed first start is retried like a failed restart, the intensity is counted
per child, and a child over it is retried slowly while its siblings live on and the ordered start goes on without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from supervisor.events import (
    Boot,
    Command,
    Down,
    Event,
    Exited,
    Halt,
    Ready,
    Report,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.intensity import Window
from supervisor.spec import ChildSpec, OnExcess, Restart, SupervisorSpec

__all__ = ["ChildState", "Phase", "Standing", "Supervisor"]

INTENSITY_REACHED = "reached_max_restart_intensity"
"""OTP's word for it, in reports and as the reason of ``Down``."""


class ChildState(StrEnum):
    """Where a child is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "backoff"
    STOPPING = "stopping"

    @property
    def live(self) -> bool:
        """True while a process may exist."""
        return self in (ChildState.STARTING, ChildState.READY, ChildState.STOPPING)


class Phase(StrEnum):
    """Where the supervisor is in its life."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one child stands: what `which_children` shows."""

    id: str
    state: ChildState
    run: int
    slow: bool


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    window: Window
    state: ChildState = ChildState.STOPPED
    run: int = 0
    ready_at: float | None = None
    failures: int = 0
    excesses: int = 0


@dataclass(slots=True)
class _Step:
    start: bool
    child: _Child = field(repr=False)


class Supervisor:
    """The machine. ``handle`` is its only entrance; nothing happens between two calls."""

    def __init__(self, spec: SupervisorSpec, *, runs: Iterator[int], jitter: Callable[[], float]) -> None:
        self.spec = spec
        self.phase = Phase.IDLE
        self._runs = runs
        self._jitter = jitter
        self._window = Window(spec.intensity, spec.period_s)
        self._children = {child.id: _Child(child, Window(spec.intensity, spec.period_s)) for child in spec.children}
        self._steps: deque[_Step] = deque()
        self._awaited: _Child | None = None
        self._kill = False
        self._reason = "shutdown"
        self._now = 0.0
        self._out: list[Command] = []

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take one event at monotonic time ``now``; return the commands to perform, in order."""
        self._now = now
        self._HANDLERS[type(event)](self, event)
        commands, self._out = self._out, []
        return commands

    def standings(self) -> list[Standing]:
        """Return how every child stands, in start order."""
        return [Standing(c.spec.id, c.state, c.run, c.excesses > 0) for c in self._children.values()]

    # Life of the supervisor

    def _on_boot(self, _event: Boot) -> None:
        if self.phase is Phase.IDLE:
            self.phase = Phase.STARTING
            self._steps.extend(_Step(True, child) for child in self._children.values())
            self._advance()

    def _on_halt(self, event: Halt) -> None:
        if event.kill and not self._kill:
            self._kill = True
            self._hasten()
        if self.phase not in (Phase.STOPPING, Phase.DOWN):
            self._shut_down("shutdown")

    def _hasten(self) -> None:
        for child in self._children.values():
            if child.state is ChildState.STOPPING:
                self._out.append(Stop(child.spec.id, child.run, "brutal_kill"))

    def _shut_down(self, reason: str) -> None:
        self.phase = Phase.STOPPING
        self._reason = reason
        self._awaited = None
        self._steps = deque(_Step(False, child) for child in reversed(self._children.values()))
        self._advance()

    def _advance(self) -> None:
        while self._awaited is None and self._steps:
            step = self._steps.popleft()
            if step.start:
                self._launch(step.child)
            elif step.child.state.live:
                self._end(step.child)
            else:
                step.child.state = ChildState.STOPPED
                continue
            self._awaited = step.child
        if self._awaited is None:
            self._settle()

    def _settle(self) -> None:
        if self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING
            self._out.append(Up())
        elif self.phase is Phase.STOPPING:
            self.phase = Phase.DOWN
            self._out.append(Down(self._reason))

    def _done(self, child: _Child) -> None:
        if self._awaited is child:
            self._awaited = None
            self._advance()

    # Life of a child

    def _launch(self, child: _Child) -> None:
        child.state = ChildState.STARTING
        child.run = next(self._runs)
        child.ready_at = None
        self._out.append(Start(child.spec.id, child.run))

    def _end(self, child: _Child) -> None:
        if child.state is not ChildState.STOPPING:
            child.state = ChildState.STOPPING
            self._out.append(Stop(child.spec.id, child.run, "brutal_kill" if self._kill else child.spec.shutdown))

    def _on_ready(self, event: Ready) -> None:
        child = self._current(event)
        if child is not None and child.state is ChildState.STARTING:
            child.state = ChildState.READY
            child.ready_at = self._now
            self._done(child)

    def _on_exited(self, event: Exited) -> None:
        child = self._unexpected(event)
        if child is None:
            return
        self._report("child_terminated", child, event.reason)
        if child.spec.restart.wants(normal=event.normal):
            self._restart(child)
        else:
            self._done(child)

    def _on_start_failed(self, event: StartFailed) -> None:
        child = self._unexpected(event)
        if child is None:
            return
        self._report("start_error", child, event.reason)
        if self.phase is Phase.STARTING and self._awaited is child and not self._patient:
            self._shut_down(f"failed to start child {child.spec.id}: {event.reason}")
        elif child.spec.restart is Restart.TEMPORARY:
            self._done(child)
        else:
            self._restart(child)

    def _unexpected(self, event: Exited | StartFailed) -> _Child | None:
        """Note the end of a run; return its child unless the end was wanted or is old news."""
        child = self._current(event)
        if child is None or not child.state.live:
            return None
        wanted = child.state is ChildState.STOPPING
        child.state = ChildState.STOPPED
        if wanted or self.phase is Phase.STOPPING:
            self._done(child)
            return None
        return child

    def _current(self, event: Ready | Exited | StartFailed) -> _Child | None:
        child = self._children.get(event.id)
        return child if child is not None and child.run == event.run else None

    # Restarts

    @property
    def _patient(self) -> bool:
        return self.spec.on_excess is OnExcess.SLOW_RETRY

    def _restart(self, child: _Child) -> None:
        excess = (child.window if self._patient else self._window).add(self._now)
        if excess and not self._patient:
            self._report("shutdown", child, INTENSITY_REACHED)
            self._shut_down(INTENSITY_REACHED)
            return
        delay_s = self._delay_s(child, excess=excess)
        if delay_s > 0:
            child.state = ChildState.BACKOFF
            self._out.append(SetTimer(("restart", child.spec.id, child.run), delay_s))
        else:
            self._launch(child)
        if excess:
            self._report("slow_retry", child, INTENSITY_REACHED)
            self._done(child)

    def _delay_s(self, child: _Child, *, excess: bool) -> float:
        backoff = self.spec.backoff
        if backoff is None:
            return 0.0
        if child.ready_at is not None and self._now - child.ready_at >= backoff.settled_s:
            child.failures = child.excesses = 0
        delay_s = backoff.delay_s(child.failures, self._jitter())
        child.failures += 1
        if excess:
            delay_s = backoff.slow_delay_s(child.excesses, self._jitter())
            child.excesses += 1
        return delay_s

    def _on_timer(self, event: Timer) -> None:
        _purpose, name, run = event.key
        child = self._children.get(name)
        if child is not None and child.state is ChildState.BACKOFF and child.run == run:
            self._launch(child)

    def _report(self, context: str, child: _Child, reason: str) -> None:
        self._out.append(Report(self.spec.id, context, reason, child.spec.id, child.run))

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Boot: _on_boot,
        Halt: _on_halt,
        Ready: _on_ready,
        Exited: _on_exited,
        StartFailed: _on_start_failed,
        Timer: _on_timer,
    }
