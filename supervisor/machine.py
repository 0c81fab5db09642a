"""The engine of one supervisor: a mailbox, tasks that wait for children, and starting and stopping one child.

Pure: no process, thread or clock. OTP's supervisor is a process that blocks while a child starts or stops; here each
piece of work is a generator that yields the child it waits for, and is resumed by that child's events. What arrives
meanwhile waits in the mailbox, in order, as it does in OTP. An eager supervisor (beyond OTP) runs restarts of
independent children as tasks of their own, beside the main one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum

from supervisor.children import Child, ChildState, Standing, Table
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
    Start,
    StartFailed,
    Stop,
    Timer,
)
from supervisor.intensity import Window
from supervisor.requests import No, Refusal
from supervisor.spec import SupervisorSpec

__all__ = ["Machine", "Phase", "Task", "TryAgain"]

Task = Generator[Child, None, str | None]
"""Yields the child it waits for, returns why the supervisor has to go down or None."""


class Phase(StrEnum):
    """Where the supervisor is in its life."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """What a supervisor tells itself when a restart has failed; it queues like everything else."""

    id: str


Message = Halt | Call | Exited | Timer | TryAgain


class Machine:
    """The engine. ``handle`` is its only entrance; nothing happens in between. A subclass knows the strategies."""

    def __init__(self, spec: SupervisorSpec, *, runs: Iterator[int], jitter: Callable[[], float]) -> None:
        self.spec = spec
        self.phase = Phase.IDLE
        self.table = Table(spec)
        self.window = Window(spec.intensity, spec.period_s)
        self.runs = runs
        self.jitter = jitter
        self.now = 0.0
        self._out: list[Command] = []
        self._mailbox: deque[Message] = deque()
        self._main: Task | None = None
        self._beside: dict[str, Task] = {}
        self.serving: Call | None = None

    @property
    def busy(self) -> bool:
        """True while it waits for a child, and requests with it."""
        return self._main is not None

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take one event at monotonic time ``now``; return the commands to perform, in order."""
        self.now = now
        if isinstance(event, Ready | StartFailed | Ignored | Exited):
            self._on_child(event)
        elif isinstance(event, Boot):
            self._on_boot()
        else:
            self._accept(event)
        self._work()
        out, self._out = self._out, []
        return out

    def standings(self) -> list[Standing]:
        """Return how every child stands, in start order."""
        return [child.standing() for child in self.table]

    def emit(self, command: Command) -> None:
        """Add a command to those of this turn."""
        self._out.append(command)

    def report(self, context: str, child: Child, reason: str) -> None:
        """Emit a crash report."""
        self.emit(Report(self.spec.id, context, reason, child.id, child.run))

    # To be defined by the supervisor

    def boot(self) -> Task:
        """Start everything."""
        raise NotImplementedError

    def shut_down(self, reason: str, *, kill: bool) -> Task:
        """Stop everything."""
        raise NotImplementedError

    def take(self, message: Message) -> Task:
        """Work on one message."""
        raise NotImplementedError

    def independent(self, message: Message) -> Child | None:
        """Return the child that this message is about when it need not wait for the main task."""
        raise NotImplementedError

    # Mailbox and tasks

    def post(self, message: Message) -> None:
        """Put a message at the end of the mailbox."""
        self._mailbox.append(message)

    def _on_boot(self) -> None:
        if self.phase is Phase.IDLE:
            self.phase = Phase.STARTING
            self._launch(self.boot())

    def _accept(self, event: Halt | Call | Timer) -> None:
        if isinstance(event, Timer):
            self._on_timer(event)
        elif isinstance(event, Call):
            self.post(event)
        elif event.kill:
            self.go_down("killed", kill=True)
        elif self.phase is Phase.IDLE or self.spec.eager:
            self.go_down("shutdown")
        else:
            self.post(event)  # as in OTP: a supervisor that waits for a child sees nothing else

    def _on_timer(self, event: Timer) -> None:
        _purpose, name, run = event.key
        child = self.table.running(name, run)
        if child is None or child.state is not ChildState.BACKOFF:
            return
        if child.waiter is None:
            self.post(event)
        else:  # the ordered start waits for it
            child.state = ChildState.STOPPED
            self._resume(child)

    def go_down(self, reason: str, *, kill: bool = False) -> None:
        """Drop all work under way and stop everything; the second time only ``kill`` matters."""
        if self.phase is Phase.DOWN or (self.phase is Phase.STOPPING and not kill):
            return
        self.phase = Phase.STOPPING
        for task in (self._main, *self._beside.values()):
            if task is not None:
                self._drop(task)
        self._beside.clear()
        if self.serving is not None:
            self.post(self.serving)  # refused once nothing is left, like those that wait
            self.serving = None
        self._launch(self.shut_down(reason, kill=kill))

    def _drop(self, task: Task) -> None:
        for child in self.table:
            if child.waiter is task:
                child.waiter = None
        task.close()

    def _work(self) -> None:
        """Take messages until one of them has to wait; an eager supervisor looks further for what need not."""
        waiting: deque[Message] = deque()
        while self._mailbox and self.phase is not Phase.DOWN:
            message = self._mailbox.popleft()
            beside = self.independent(message) if self.spec.eager and self.phase is not Phase.STOPPING else None
            if beside is not None:
                self._launch(self.take(message), beside=beside.id)
            elif self._main is None:
                self._launch(self.take(message))
            else:
                waiting.append(message)
                if not self.spec.eager:
                    break
        self._mailbox.extendleft(reversed(waiting))
        if self.phase is Phase.DOWN:
            self._refuse_all()

    def _refuse_all(self) -> None:
        while self._mailbox:
            message = self._mailbox.popleft()
            if isinstance(message, Call):
                self.emit(Reply(message.ref, No(Refusal.GONE)))

    def _launch(self, task: Task, *, beside: str | None = None) -> None:
        if beside is None:
            self._main = task
        else:
            self._beside[beside] = task
        self._drive(task)

    def _drive(self, task: Task) -> None:
        """Run a task up to where it waits, or to its end."""
        try:
            next(task).waiter = task
        except StopIteration as end:
            self._forget_task(task)
            if end.value is not None:
                self.go_down(end.value)

    def _forget_task(self, task: Task) -> None:
        if self._main is task:
            self._main = None
        else:
            self._beside = {name: other for name, other in self._beside.items() if other is not task}

    def _resume(self, child: Child) -> None:
        task, child.waiter = child.waiter, None
        if task is not None:
            self._drive(task)

    def leave(self, child: Child) -> None:
        """Drop the restart of this child that runs beside the main task."""
        task = self._beside.pop(child.id, None)
        if task is not None:
            self._drop(task)

    # Events of children

    def _on_child(self, event: Ready | StartFailed | Ignored | Exited) -> None:
        child = self.table.running(event.id, event.run)
        if child is None or not child.alive:
            return
        if isinstance(event, Ready):
            if child.state is ChildState.STARTING:
                child.state, child.ready_at, child.served = ChildState.READY, self.now, child.run
                self._resume(child)
        elif child.state is ChildState.READY:
            assert isinstance(event, Exited)
            child.end = event
            self.post(event)
        else:
            child.state, child.end = ChildState.STOPPED, event
            self._resume(child)

    # Starting and stopping one child

    def start(self, child: Child) -> Generator[Child, None, StartFailed | None]:
        """Start a child and wait until it serves (None), has nothing to do (None, it is stopped), or has failed."""
        child.state, child.end, child.ready_at = ChildState.STARTING, None, None
        child.run = next(self.runs)
        self.emit(Start(child.id, child.run, child.spec))
        while child.state is ChildState.STARTING:
            yield child
        end = child.end
        if child.state is ChildState.READY or isinstance(end, Ignored):
            return None
        return end if isinstance(end, StartFailed) else StartFailed(child.id, child.run, getattr(end, "reason", ""))

    def stop(self, child: Child) -> Generator[Child, None, None]:
        """Stop a child within its budget and wait; one that has died unnoticed is asked for its reason, as in OTP."""
        self.order_stop(child, kill=False)
        yield from self.gone(child)
        self.settle(child)

    def order_stop(self, child: Child, *, kill: bool) -> None:
        """Tell a living child to stop."""
        hasten = kill and child.state is ChildState.STOPPING
        if child.alive and (hasten or child.state is not ChildState.STOPPING):
            child.state = ChildState.STOPPING
            self.emit(Stop(child.id, child.run, "brutal_kill" if kill else child.spec.shutdown))

    def gone(self, child: Child) -> Generator[Child, None, None]:
        """Wait until a child that was told to stop is gone."""
        while child.state is ChildState.STOPPING:
            yield child

    def settle(self, child: Child) -> None:
        """Note that a child is stopped, and report an end that was not the one asked for."""
        if isinstance(child.end, Exited) and not child.as_asked(child.end.ending):
            self.report("shutdown_error", child, child.end.reason)
        child.state, child.end = ChildState.STOPPED, None

    def down(self, reason: str, ending: Ending) -> None:
        """Say that nothing is left."""
        self.phase = Phase.DOWN
        self.emit(Down(reason, ending))
