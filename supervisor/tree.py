"""A whole supervision tree: nested supervisors as pure machines inside one another, and giving up.

Pure, like its parts. Events name the child; the tree finds its supervisor. A nested supervisor is a child of its
parent: its ``Up`` is the parent's ``Ready``, its ``Down`` the parent's ``Exited``, its restart is a fresh machine.
Where OTP kills a nested supervisor (brutal_kill, or a budget in ms that has run out), everything below it is killed and
waited for; OTP leaves its grandchildren to end by themselves.
Giving up (beyond OTP): an essential child that has not been ready for ``give_up_s`` yields one ``GiveUp``.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from supervisor.children import ChildState, Standing
from supervisor.events import (
    Boot,
    Call,
    Command,
    Down,
    Event,
    Exited,
    Forget,
    GiveUp,
    Halt,
    Ready,
    Reply,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.requests import No, Refusal, StartChild, Update
from supervisor.spec import ChildSpec, SpecError, SupervisorSpec
from supervisor.strategy import Supervisor

__all__ = ["GIVE_UP_S", "Tree"]

GIVE_UP_S = 300.0

Observer = Callable[[str, Command], None]


class Tree:
    """The machines of a tree and the traffic between them. ``observe`` sees every command of every machine."""

    def __init__(
        self,
        spec: SupervisorSpec,
        *,
        jitter: Callable[[], float],
        essential: Iterable[str] = (),
        give_up_s: float = GIVE_UP_S,
        observe: Observer = lambda _supervisor, _command: None,
    ) -> None:
        self.spec = spec
        self.essential = _expand(spec, essential)
        self._give_up_s = give_up_s
        self._jitter = jitter
        self._observe = observe
        self._runs = itertools.count(1)
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
        todo: deque[tuple[str, Event]] = deque(self._deliver(event, out))
        while todo:
            name, item = todo.popleft()
            machine = self._machines.get(name)
            for command in machine.handle(item, now) if machine is not None else ():
                self._observe(name, command)
                todo.extend(self._route(name, command, out))
        if self.essential:
            out.extend(self._watch())
        return out

    def standings(self) -> list[Standing]:
        """Return how every process stands, in start order; one whose supervisor is not up is stopped."""
        return list(self._stand(self.spec))

    def supervisor_of(self, child: str) -> str:
        """Return the id of the supervisor that owns this child. Raises KeyError."""
        return self._owner[child]

    def supervisors(self) -> dict[str, bool]:
        """Return the supervisors that exist just now, and whether each is busy (a request would wait)."""
        return {name: machine.busy for name, machine in self._machines.items()}

    def run_of(self, supervisor: str) -> int:
        """Return the number of a nested supervisor's present incarnation, 0 for the outermost one."""
        return self._run_of.get(supervisor, 0)

    def _machine(self, spec: SupervisorSpec) -> Supervisor:
        return Supervisor(spec, runs=self._runs, jitter=self._jitter)

    def _stand(self, spec: SupervisorSpec) -> Iterator[Standing]:
        machine = self._machines.get(spec.id)
        if machine is None:
            yield from (Standing(worker.id, ChildState.STOPPED, 0, False) for worker in spec.workers())
            return
        for child in machine.table:
            if child.spec.nested is None:
                yield child.standing()
            else:
                yield from self._stand(child.spec.nested)

    # Into a machine

    def _deliver(self, event: Event, out: list[Command]) -> list[tuple[str, Event]]:
        if isinstance(event, Boot | Halt):
            return [(self.spec.id, event)]
        if isinstance(event, Call):
            refusal = self._refusal(event)
            if refusal is None:
                return [(event.supervisor, event)]
            out.append(Reply(event.ref, refusal))
            return []
        if not isinstance(event, Timer):
            return [(self._owner.get(event.id, ""), event)]
        purpose, name, run = event.key
        if purpose == "shutdown":  # the budget of a nested supervisor has run out
            return [(name, Halt(kill=True))] if self._run_of.get(name) == run else []
        return [(self._owner.get(name, ""), event)]

    def _refusal(self, call: Call) -> No | None:
        """Refuse what no single machine can judge."""
        if call.supervisor not in self._machines:
            return No(Refusal.GONE)
        request = call.request
        children: tuple[ChildSpec, ...] = ()
        if isinstance(request, StartChild):
            children = (request.spec,)
        elif isinstance(request, Update):
            children = request.spec.children
        for child in (below for each in children for below in each.family()):
            if child.id == self.spec.id or self._owner.get(child.id, call.supervisor) not in _homes(call, children):
                return No(Refusal.ID_TAKEN, child.id)
        return None

    # Out of a machine

    def _route(self, name: str, command: Command, out: list[Command]) -> list[tuple[str, Event]]:
        """Keep commands between machines inside; put those for the runner into ``out``."""
        if isinstance(command, Start):
            self._owner[command.id] = name
            if command.spec is not None and command.spec.nested is not None:
                return [(command.id, self._create(command, command.spec.nested))]
        elif isinstance(command, Stop) and command.id in self._machines:
            return self._stop(command, out)
        elif isinstance(command, Up | Down) and name != self.spec.id:
            return self.to_parent(name, self._outcome(name, command))
        elif isinstance(command, Forget):
            self._owner.pop(command.id, None)
        out.append(command)
        return []

    def to_parent(self, name: str, event: Event) -> list[tuple[str, Event]]:
        """Address the news of a nested supervisor to its parent; one may subclass the tree to hold them up."""
        return [(self._owner[name], event)]

    def _create(self, command: Start, spec: SupervisorSpec) -> Boot:
        self._owner.update(_owners(spec))
        self._machines[command.id] = self._machine(spec)
        self._run_of[command.id] = command.run
        self._was_up.discard(command.id)
        return Boot()

    def _stop(self, command: Stop, out: list[Command]) -> list[tuple[str, Event]]:
        if isinstance(command.shutdown, int):
            out.append(SetTimer(("shutdown", command.id, command.run), command.shutdown / 1000))
        return [(command.id, Halt(kill=command.shutdown == "brutal_kill"))]

    def _outcome(self, name: str, command: Up | Down) -> Event:
        if isinstance(command, Up):
            self._was_up.add(name)
            return Ready(name, self._run_of[name])
        del self._machines[name]
        run = self._run_of.pop(name)
        if name not in self._was_up:
            return StartFailed(name, run, command.reason)
        # OTP: a supervisor that gives up exits with reason shutdown, which a transient child counts as clean.
        return Exited(name, run, command.reason, command.ending)

    # Giving up

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


def _homes(call: Call, children: Iterable[ChildSpec]) -> set[str]:
    """Return the supervisors that the ids of these specs may already belong to: this one, and those they bring."""
    return {call.supervisor} | {below.id for child in children for below in child.family() if below.nested is not None}


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
