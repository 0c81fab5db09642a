"""A whole supervision tree: nested supervisors as pure machines inside one another, and giving up.

Pure, like its parts. Events name the child; the tree finds its supervisor. A nested supervisor is a child of its
parent: its ``Up`` is the parent's ``Ready``, its ``Down`` the parent's ``Exited``, its restart is a fresh machine.
Giving up (beyond OTP): an essential child that has not been ready for ``give_up_s`` yields one ``GiveUp``.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable

from supervisor.events import (
    Boot,
    Command,
    Down,
    Event,
    Exited,
    GiveUp,
    Halt,
    Ready,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.spec import ChildSpec, SpecError, SupervisorSpec
from supervisor.strategy import ChildState, Standing, Supervisor

__all__ = ["GIVE_UP_S", "Tree"]

GIVE_UP_S = 300.0


class Tree:
    """The machines of a tree and the traffic between them."""

    def __init__(
        self,
        spec: SupervisorSpec,
        *,
        jitter: Callable[[], float],
        essential: Iterable[str] = (),
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self.spec = spec
        self.essential = _expand(spec, essential)
        self._give_up_s = give_up_s
        self._jitter = jitter
        self._runs = itertools.count(1)
        self._nested = {child.id: child.nested for child in spec.walk() if child.nested is not None}
        self._owner = _owners(spec)
        self._machines: dict[str, Supervisor] = {spec.id: self._machine(spec)}
        self._run_of: dict[str, int] = {}
        self._was_up: set[str] = set()
        self._missing: dict[str, int] = {}
        self._outages = itertools.count(1)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take one event at monotonic time ``now``; return the commands for the runner, in order."""
        if isinstance(event, Timer) and event.key[0] == "give_up":
            return self._on_give_up(event)
        out: list[Command] = []
        todo: deque[tuple[str, Event]] = deque([(self._addressee(event), event)])
        while todo:
            name, item = todo.popleft()
            machine = self._machines.get(name)
            for command in machine.handle(item, now) if machine is not None else ():
                todo.extend(self._route(name, command, out))
        out.extend(self._watch())
        return out

    def standings(self) -> list[Standing]:
        """Return how every process stands, in start order; one whose supervisor is not up is stopped."""
        known = {s.id: s for machine in self._machines.values() for s in machine.standings()}
        blank = {spec.id: Standing(spec.id, ChildState.STOPPED, 0, False) for spec in self.spec.workers()}
        return [known.get(name, standing) for name, standing in blank.items()]

    def supervisor_of(self, child: str) -> str:
        """Return the id of the supervisor that owns this child."""
        return self._owner[child]

    def _machine(self, spec: SupervisorSpec) -> Supervisor:
        return Supervisor(spec, runs=self._runs, jitter=self._jitter)

    def _addressee(self, event: Event) -> str:
        if isinstance(event, Boot | Halt):
            return self.spec.id
        return self._owner.get(event.key[1] if isinstance(event, Timer) else event.id, "")

    def _route(self, name: str, command: Command, out: list[Command]) -> list[tuple[str, Event]]:
        """Keep commands between machines inside; put those for the runner into ``out``."""
        if isinstance(command, Start | Stop) and command.id in self._nested:
            return [(command.id, self._order(command))]
        if isinstance(command, Up | Down) and name != self.spec.id:
            return [(self._owner[name], self._outcome(name, command))]
        out.append(command)
        return []

    def _order(self, command: Start | Stop) -> Event:
        if isinstance(command, Stop):
            return Halt(kill=command.shutdown == "brutal_kill")
        nested = self._nested[command.id]
        self._machines[command.id] = self._machine(nested)
        self._run_of[command.id] = command.run
        self._was_up.discard(command.id)
        return Boot()

    def _outcome(self, name: str, command: Up | Down) -> Event:
        run = self._run_of[name]
        if isinstance(command, Up):
            self._was_up.add(name)
            return Ready(name, run)
        del self._machines[name]
        if name not in self._was_up:
            return StartFailed(name, run, command.reason)
        # OTP: a supervisor that gives up exits with reason shutdown, which a transient child counts as clean.
        return Exited(name, run, command.reason, normal=True)

    def _watch(self) -> list[Command]:
        out: list[Command] = []
        for standing in self.standings():
            if standing.id not in self.essential:
                continue
            if standing.state is ChildState.READY or (standing.state is ChildState.STOPPED and not standing.run):
                self._missing.pop(standing.id, None)
            elif standing.id not in self._missing:
                self._missing[standing.id] = next(self._outages)
                out.append(SetTimer(("give_up", standing.id, self._missing[standing.id]), self._give_up_s))
        return out

    def _on_give_up(self, event: Timer) -> list[Command]:
        _purpose, child, outage = event.key
        if self._missing.get(child) != outage:
            return []
        return [GiveUp(f"essential child {child} was not ready for {self._give_up_s:g} s")]


def _owners(spec: SupervisorSpec) -> dict[str, str]:
    owners = {child.id: spec.id for child in spec.children}
    for child in spec.children:
        owners.update(_owners(child.nested) if child.nested is not None else {})
    return owners


def _expand(spec: SupervisorSpec, names: Iterable[str]) -> frozenset[str]:
    """Turn supervisors into their processes; an unknown name is a ``SpecError``."""
    known: dict[str, ChildSpec] = {child.id: child for child in spec.walk()}
    essential: set[str] = set()
    for name in names:
        if name not in known:
            raise SpecError(f"essential is {name!r}; allowed: {', '.join(known)}")
        nested = known[name].nested
        essential.update([worker.id for worker in nested.workers()] if nested is not None else [name])
    return frozenset(essential)
