"""One supervisor as a pure state machine: events in, commands out; OTP's semantics of every strategy.

The order of everything follows OTP 25's `supervisor.erl`: one count per restart attempt; a restart that fails goes
through the mailbox and counts again; rest_for_one and one_for_all stop in reverse order, drop temporary siblings for
good and start whatever has a spec, also what had been stopped by hand; giving up ends with reason shutdown.
tests/conformance compares it with OTP itself. Beyond OTP, off by default: ``eager``, ``backoff``, ``slow_retry``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar

from supervisor import calls
from supervisor.children import Child, ChildState, Standing
from supervisor.events import Call, Ending, Exited, Forget, Halt, Ignored, Reply, SetTimer, Timer, Up
from supervisor.machine import Machine, Message, Phase, Task, TryAgain
from supervisor.spec import AutoShutdown, OnExcess, Restart, Strategy

__all__ = ["AUTO_SHUTDOWN", "INTENSITY_REACHED", "ChildState", "Standing", "Supervisor"]

INTENSITY_REACHED = "reached_max_restart_intensity"
"""OTP's words, in reports and as the reason of ``Down``."""

AUTO_SHUTDOWN = "auto_shutdown"
"""Reason of ``Down`` after the end of significant children."""

Failed = Generator[Child, None, bool]
"""Work on children that says whether one of them could not be started."""


class Supervisor(Machine):
    """The machine with its strategies."""

    # Life of the supervisor

    def boot(self) -> Task:
        """Start the children in order, each after its elder serves; the first failure stops them all again."""
        for child in self.table:
            failed = yield from self.start(child)
            while failed is not None:
                self.report("start_error", child, failed.reason)
                if not self.patient:
                    return f"failed to start child {child.id}: {failed.reason}"
                if not (yield from self._wait_for_its_turn(child)):
                    break
                failed = yield from self.start(child)
            self._drop_if_ignored(child)
        self.phase = Phase.RUNNING
        self.emit(Up())
        return None

    def _wait_for_its_turn(self, child: Child) -> Generator[Child, None, bool]:
        """Wait out the backoff of a first start; False when the ordered start goes on without the child."""
        if child.spec.restart is Restart.TEMPORARY:
            self.forget(child)
            return False
        excess = child.window.add(self.now)
        if not self._back_off(child, excess=excess):
            return True
        if excess:
            self.report("slow_retry", child, INTENSITY_REACHED)
            return False
        while child.state is ChildState.BACKOFF:
            yield child
        return True

    def shut_down(self, reason: str, *, kill: bool) -> Task:
        """Stop the children in reverse order; those of a dynamic supervisor, and to kill, all at once."""
        children = list(self.table)[::-1]
        if kill or self.spec.strategy is Strategy.DYNAMIC:
            for child in children:
                self.order_stop(child, kill=kill)
            for child in children:
                yield from self.gone(child)
        for child in () if kill else children:
            yield from self.stop(child)
        self.down(reason, Ending.KILLED if kill else Ending.SHUTDOWN)
        return None

    # Messages

    def take(self, message: Message) -> Task:
        """Work on one message of the mailbox."""
        if isinstance(message, Halt):
            return (yield from _ready_made("shutdown"))
        if isinstance(message, Call):
            return (yield from self._serve(message))
        if isinstance(message, Exited):
            return (yield from self._on_exit(message))
        return (yield from self._on_due(message))

    def _serve(self, call: Call) -> Task:
        self.serving = call
        answer = yield from calls.answer(self, call.request)
        self.serving = None
        self.emit(Reply(call.ref, answer))
        return None

    def independent(self, message: Message) -> Child | None:
        """Return the child whose restart need not wait: a dead or due one among independent siblings."""
        if self.spec.strategy not in (Strategy.ONE_FOR_ONE, Strategy.DYNAMIC):
            return None
        if isinstance(message, Exited):
            return self.table.get(message.id)
        if isinstance(message, Timer | TryAgain):
            return self.table.get(message.key[1] if isinstance(message, Timer) else message.id)
        return None

    def _on_exit(self, event: Exited) -> Task:
        child = self.table.running(event.id, event.run)
        if child is None or child.end is not event:
            return None  # stopped meanwhile: whoever did it has dealt with this end
        child.end, child.state = None, ChildState.STOPPED
        restart = child.spec.restart
        if restart is Restart.PERMANENT or not event.ending.clean:
            self.report("child_terminated", child, event.reason)
        if restart.wants(normal=event.ending.clean):
            return (yield from self._restart(child))
        self.forget(child)
        return AUTO_SHUTDOWN if self._shuts_down_after(child) else None

    def _shuts_down_after(self, child: Child) -> bool:
        if not child.spec.significant or self.spec.auto_shutdown is AutoShutdown.NEVER:
            return False
        others = any(other.spec.significant and not other.stopped for other in self.table)
        return self.spec.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT or not others

    def _on_due(self, message: Timer | TryAgain) -> Task:
        name = message.key[1] if isinstance(message, Timer) else message.id
        child = self.table.get(name)
        if child is None:
            return None
        if isinstance(message, TryAgain):
            return (yield from self._restart(child)) if child.state is ChildState.RESTARTING else None
        due = child.state is ChildState.BACKOFF and child.run == message.key[2]
        return (yield from self._again(child)) if due else None

    # Restarts

    @property
    def patient(self) -> bool:
        """True when a child over its intensity is retried slowly (beyond OTP)."""
        return self.spec.on_excess is OnExcess.SLOW_RETRY

    def _restart(self, child: Child) -> Task:
        excess = (child.window if self.patient else self.window).add(self.now)
        if excess and not self.patient:
            self.report("shutdown", child, INTENSITY_REACHED)
            self.forget(child)
            return INTENSITY_REACHED
        delayed = self._back_off(child, excess=excess)
        if excess:
            self.report("slow_retry", child, INTENSITY_REACHED)
        return None if delayed else (yield from self._again(child))

    def _again(self, child: Child) -> Task:
        yield from self._STRATEGIES[self.spec.strategy](self, child)
        return None

    def _one(self, child: Child) -> Generator[Child, None, None]:
        failed = yield from self.start(child)
        if failed is not None:
            self.try_again(child, failed.reason)
        elif self.spec.strategy is Strategy.DYNAMIC and child.stopped:
            self.forget(child)

    def _all(self, _child: Child) -> Generator[Child, None, None]:
        yield from self._several(list(self.table))

    def _rest(self, child: Child) -> Generator[Child, None, None]:
        yield from self._several(self.table.since(child))

    def _several(self, children: list[Child]) -> Generator[Child, None, None]:
        for child in reversed(children):
            yield from self.stop(child)
            if child.spec.restart is Restart.TEMPORARY:
                self.forget(child)
        for child in children:
            if self.table.get(child.id) is not child:
                continue
            failed = yield from self.start(child)
            if failed is not None:
                self.try_again(child, failed.reason)
                return

    def try_again(self, child: Child, reason: str) -> None:
        self.report("start_error", child, reason)
        child.state = ChildState.RESTARTING
        self.post(TryAgain(child.id))

    def _back_off(self, child: Child, *, excess: bool) -> bool:
        """Set the timer of a delayed restart; False when there is nothing to wait for."""
        delay_s = self._delay_s(child, excess=excess)
        if delay_s <= 0:
            return False
        child.state = ChildState.BACKOFF
        self.emit(SetTimer(("restart", child.id, child.run), delay_s))
        return True

    def _delay_s(self, child: Child, *, excess: bool) -> float:
        backoff = self.spec.backoff
        if backoff is None:
            return 0.0
        if child.ready_at is not None and self.now - child.ready_at >= backoff.settled_s:
            child.failures = child.excesses = 0
        delay_s = backoff.delay_s(child.failures, self.jitter())
        child.failures += 1
        if excess:
            delay_s = backoff.slow_delay_s(child.excesses, self.jitter())
            child.excesses += 1
        return delay_s

    # Leaving the table

    def forget(self, child: Child) -> None:
        """OTP's del_child: a temporary or dynamic child leaves with its spec, another one stays, stopped."""
        child.state = ChildState.STOPPED
        if child.spec.restart is Restart.TEMPORARY or self.spec.strategy is Strategy.DYNAMIC:
            self.delete(child)

    def delete(self, child: Child) -> None:
        """Take a child and its spec out for good."""
        self.table.remove(child)
        self.emit(Forget(child.id))

    def _drop_if_ignored(self, child: Child) -> None:
        if isinstance(child.end, Ignored) and child.spec.restart is Restart.TEMPORARY:
            self.delete(child)

    _STRATEGIES: ClassVar[dict[Strategy, Callable[[Supervisor, Child], Generator[Child, None, None]]]] = {
        Strategy.ONE_FOR_ONE: _one,
        Strategy.DYNAMIC: _one,
        Strategy.ONE_FOR_ALL: _all,
        Strategy.REST_FOR_ONE: _rest,
    }


def _ready_made(reason: str) -> Task:
    return reason
    yield  # a task that waits for nothing
