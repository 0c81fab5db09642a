"""One run of one child as an OS process: from launch through ready and heartbeats to the end, told to the core.

Ordering: ``emit`` gets Ready at most once and then exactly one Exited, or exactly one StartFailed; the last one only
when the process is reaped and its group is killed, so a new run never meets an old one.
Never blocks: the end is seen through a pidfd. Nothing else in root may reap this pid.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from supervisor import linux
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import AskTimeout, BusError
from supervisor.events import Ending, Event, Exited, Ignored, Ready, StartFailed
from supervisor.launcher import LaunchError
from supervisor.logtail import LogPipe
from supervisor.spec import ChildSpec, Shutdown

__all__ = ["IGNORE", "Process", "Surroundings"]

IGNORE: Literal["ignore"] = "ignore"
"""A child's word that it has nothing to do, said before it is ready."""

_BEAT_S = 1.0
_LATE_S = 2.0
_PATIENCE_S = 5.0
_UNDO_S = 0.01


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process needs of its runner: the way to the child, where its news go, and whom to ask.

    ``available`` returns once a launch would be taken; ``may_kill`` says whether a silent child may be killed just now.
    """

    endpoint: Endpoint
    available: Callable[[], Awaitable[None]]
    emit: Callable[[Event], None]
    changed: Callable[[], None]
    may_kill: Callable[[], bool]


class Process:
    """A run. ``stop`` may be called at any time, also again with a harder shutdown."""

    def __init__(
        self, spec: ChildSpec, run: int, pipe: LogPipe, launch: Callable[[], Awaitable[int]], around: Surroundings
    ) -> None:
        self.spec = spec
        self.run = run
        self.pipe = pipe
        self.pid: int | None = None
        self.was_ready = False
        self.answered_at = 0.0
        self.end: str | None = None
        self._around = around
        self._pidfd = -1
        self._early_ready: int | None = None
        self._why: str | None = None
        self._asked = False
        self._farewell: tuple[Ending | Literal["ignore"], str] | None = None
        self._known = asyncio.Event()
        self._dead = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.ensure_future(around.available())
        self._tasks = {self._loop.create_task(self._start(launch))}
        self._overdue: asyncio.TimerHandle | None = None

    # Start

    async def _start(self, launch: Callable[[], Awaitable[int]]) -> None:
        await asyncio.wait({self._turn})
        if self._turn.cancelled():
            self.pipe.handed_over()
            self._over("stopped", Ending.SHUTDOWN)
            return
        try:
            self._turn.result()
            pid = await launch()
        except LaunchError as error:
            self._over(str(error), Ending.ABNORMAL)
            return
        finally:
            self.pipe.handed_over()
        try:
            # Our own child, not reaped yet: even if it has died by now the number is still its own.
            self._pidfd = os.pidfd_open(pid)
        except OSError as error:
            await _undo(pid)
            self._over(f"it cannot be watched: {error.strerror}", Ending.ABNORMAL)
            return
        self.pid = pid
        self._loop.add_reader(self._pidfd, self._died)
        self._overdue = self._loop.call_later(self.spec.ready_timeout_s, self._not_ready)
        self._known.set()
        self._around.changed()
        if self._early_ready == pid:
            self.ready(pid)

    def _not_ready(self) -> None:
        self._kill(f"not ready in {self.spec.ready_timeout_s:g} s")

    def ready(self, pid: int) -> None:
        """Take the child's word that it serves; word of another pid (an older run) is ignored."""
        if self.pid is None:
            self._early_ready = pid
        elif pid == self.pid and not self.was_ready and not self._dead.is_set():
            self.was_ready = True
            self.answered_at = self._loop.time()
            if self._overdue is not None:
                self._overdue.cancel()
            self._spawn(self._beat())
            self._around.emit(Ready(self.spec.id, self.run))

    def farewell(self, ending: Ending | Literal["ignore"], reason: str) -> None:
        """Take the child's word how it is about to end; it counts when it does end with exit code 0."""
        self._farewell = (ending, reason)

    # Heartbeat

    async def _beat(self) -> None:
        deadline_s = self.spec.heartbeat_deadline_s
        while True:
            asked_at = self._loop.time()
            timeout_s = max(self.answered_at + deadline_s - asked_at, min(_BEAT_S, deadline_s))
            try:
                await self._around.endpoint.ask(self.spec.id, "Ping", timeout_s=timeout_s)
                self.answered_at = self._loop.time()
            except AskTimeout:
                if self._loop.time() - asked_at > timeout_s + _LATE_S:
                    self.answered_at = self._loop.time()  # root itself was held up: no evidence against the child
            except BusError:
                pass  # not there, or its probe failed: it has until the deadline
            if self._loop.time() - self.answered_at >= deadline_s and self._around.may_kill():
                self._kill(f"heartbeat missed for {deadline_s:g} s")
                return
            await asyncio.sleep(_BEAT_S)

    # Stop

    def stop(self, shutdown: Shutdown) -> None:
        """Stop it: ask over the bus, then SIGTERM, then SIGKILL of the group, within ``shutdown``.

        A stopped process (SIGSTOP) is continued, or it could not do what it is asked.
        """
        self._spawn(self._ladder(shutdown))

    async def _ladder(self, shutdown: Shutdown) -> None:
        self._turn.cancel()  # not launched yet: then it never will be; later this does nothing
        await self._known.wait()
        self._why = self._why or "stopped"
        self._asked = True
        if shutdown in ("brutal_kill", 0):
            self.signal(signal.SIGKILL)
            return
        self.signal(signal.SIGCONT)
        budget_s = shutdown / 1000 if isinstance(shutdown, int) else None
        half_s = budget_s / 2 if budget_s is not None else _PATIENCE_S
        if await self._ask_to_stop(half_s) and await self._ends_in(half_s):
            return
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if budget_s is not None and not await self._ends_in(half_s):
            self.signal(signal.SIGKILL)

    async def _ask_to_stop(self, timeout_s: float) -> bool:
        try:
            await self._around.endpoint.ask(self.spec.id, "Stop", timeout_s=min(timeout_s, 0.5))
        except BusError:
            return False
        return True

    async def _ends_in(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._dead.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def signal(self, number: int) -> None:
        """Signal the process; SIGKILL takes its whole group."""
        if self.pid is None or self._dead.is_set():
            return
        if number == signal.SIGKILL:
            linux.kill_group(self.pid)
        else:
            signal.pidfd_send_signal(self._pidfd, number)

    def _kill(self, why: str) -> None:
        self._why = self._why or why
        self.signal(signal.SIGKILL)

    # End

    def _died(self) -> None:
        assert self.pid is not None
        # Before reaping: the group's number is still taken, nobody else can be hit.
        linux.kill_group(self.pid)
        _pid, status = os.waitpid(self.pid, 0)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and self._farewell is not None:
            self._over(self._farewell[1] or self._why or _describe(code), self._farewell[0])
        else:
            self._over(self._why or _describe(code), self._ending(code))

    def _ending(self, code: int) -> Ending:
        if code == -signal.SIGKILL:
            return Ending.KILLED
        asked = self._asked and code in (0, -signal.SIGTERM)
        if asked:
            return Ending.SHUTDOWN
        return Ending.NORMAL if code == 0 else Ending.ABNORMAL

    def _over(self, reason: str, ending: Ending | Literal["ignore"]) -> None:
        self._dead.set()
        self.end = reason
        self.pipe.close()
        if self._overdue is not None:
            self._overdue.cancel()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self._around.emit(self._last_word(reason, ending))
        self._around.changed()

    def _last_word(self, reason: str, ending: Ending | Literal["ignore"]) -> Event:
        name, run = self.spec.id, self.run
        if self.was_ready:
            return Exited(name, run, reason, Ending.NORMAL if ending == IGNORE else ending)
        if ending == IGNORE:
            return Ignored(name, run)
        return StartFailed(name, run, f"{reason}, before it was ready")

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _undo(pid: int) -> None:
    """Kill a child for which there is no pidfd (no descriptor is free), and reap it: both need none."""
    linux.kill_group(pid)
    while True:
        if _reaped(pid):
            return
        await asyncio.sleep(_UNDO_S)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # swept up as a stray


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
