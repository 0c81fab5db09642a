"""The children of one supervisor: how each stands, in start order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from supervisor.events import Ending, Exited, Ignored, StartFailed
from supervisor.intensity import Window
from supervisor.spec import ChildSpec, Restart, Strategy, SupervisorSpec

__all__ = ["Child", "ChildState", "Standing", "Table"]


class ChildState(StrEnum):
    """Where a child is in its life. restarting: a restart has failed, the next one is due; backoff: it waits first."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    BACKOFF = "backoff"
    STOPPING = "stopping"

    @property
    def live(self) -> bool:
        """True while a process may exist."""
        return self in (ChildState.STARTING, ChildState.READY, ChildState.STOPPING)

    @property
    def restarting(self) -> bool:
        """True in between: what OTP shows as `restarting`."""
        return self in (ChildState.RESTARTING, ChildState.BACKOFF)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one child stands."""

    id: str
    state: ChildState
    run: int
    slow: bool


@dataclass(slots=True, eq=False)
class Child:
    """One child.

    ``served`` is the last run that was ready, ``end`` a death that is not dealt with yet, ``waiter`` who waits for it.
    """

    spec: ChildSpec
    window: Window
    state: ChildState = ChildState.STOPPED
    run: int = 0
    served: int = 0
    ready_at: float | None = None
    failures: int = 0
    excesses: int = 0
    end: Exited | StartFailed | Ignored | None = None
    waiter: Any = None

    @property
    def id(self) -> str:
        """The id of its spec."""
        return self.spec.id

    @property
    def alive(self) -> bool:
        """True while something of it runs as far as is known."""
        return self.state.live and self.end is None

    @property
    def stopped(self) -> bool:
        """True when it has no process and none is due: OTP's `undefined`."""
        return self.state is ChildState.STOPPED

    def as_asked(self, ending: Ending) -> bool:
        """Say whether this end, after it was told to stop, was what it was told."""
        asked = Ending.KILLED if self.spec.shutdown == "brutal_kill" else Ending.SHUTDOWN
        return ending is asked or (ending.clean and self.spec.restart is not Restart.PERMANENT)

    def standing(self) -> Standing:
        """Return how it stands."""
        return Standing(self.id, self.state, self.run, self.excesses > 0)


class Table:
    """The children by id, in start order. ``template`` is the only spec of a dynamic supervisor."""

    def __init__(self, spec: SupervisorSpec) -> None:
        self._spec = spec
        dynamic = spec.strategy is Strategy.DYNAMIC
        self.template = spec.children[0] if dynamic else None
        self._children = {c.id: self.new(c) for c in spec.children if not dynamic}

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._children.values()))

    def __len__(self) -> int:
        return len(self._children)

    def get(self, name: str) -> Child | None:
        """Find a child."""
        return self._children.get(name)

    def running(self, name: str, run: int) -> Child | None:
        """Find a child in this very incarnation."""
        child = self._children.get(name)
        return child if child is not None and child.run == run else None

    def new(self, spec: ChildSpec) -> Child:
        """Make a child that is not in the table yet."""
        return Child(spec, Window(self._spec.intensity, self._spec.period_s))

    def add(self, child: Child) -> None:
        """Put a child behind all others."""
        self._children[child.id] = child

    def remove(self, child: Child) -> None:
        """Take a child out."""
        del self._children[child.id]

    def since(self, child: Child) -> list[Child]:
        """Return a child and everything that is started after it."""
        children = list(self._children.values())
        return children[children.index(child) :]

    def replace(self, spec: SupervisorSpec) -> None:
        """Take new specs: those that have one keep their state, the new ones come first, the others stay behind."""
        old, self._spec = self._children, spec
        if self.template is not None:
            self.template = spec.children[0]
            specs = [_renewed(child.spec, self.template) for child in old.values()]
        else:
            specs = list(spec.children)
        fresh = {each.id: old[each.id] if each.id in old else self.new(each) for each in specs}
        for each in specs:
            fresh[each.id].spec = each
        self._children = fresh | {name: child for name, child in old.items() if name not in fresh}
        for child in self:
            child.window = child.window.resized(spec.intensity, spec.period_s)


def _renewed(spec: ChildSpec, template: ChildSpec) -> ChildSpec:
    return replace(template, id=spec.id, args=spec.args, nested=spec.nested)
