"""A model of a runner for the tests of the core: performs commands faithfully, checks what must hold at every one."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from hypothesis import strategies as st

from supervisor.events import (
    Call,
    Command,
    Down,
    Ending,
    Event,
    Exited,
    Forget,
    Ignored,
    Ready,
    Reply,
    Report,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
)
from supervisor.requests import (
    Cycle,
    DeleteChild,
    Request,
    RestartChild,
    StartChild,
    StartDynamic,
    TerminateChild,
    Update,
)
from supervisor.spec import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    ChildType,
    OnExcess,
    Restart,
    Strategy,
    SupervisorSpec,
)
from supervisor.tree import Tree

__all__ = ["PERIOD_S", "Model", "specs"]

PERIOD_S = 10.0
BUDGETS: list[Any] = [100, 100, "brutal_kill", "infinity"]


@st.composite
def specs(
    draw: st.DrawFn, name: str = "root", depth: int = 2, eager: bool | None = None, plain: bool = False
) -> SupervisorSpec:
    """Any tree: every strategy, restart type and budget; with extensions unless ``plain``."""
    eager = not plain and draw(st.booleans()) if eager is None else eager
    strategy = draw(st.sampled_from(Strategy))
    auto = draw(st.sampled_from(AutoShutdown))
    children = []
    for number in range(1 if strategy is Strategy.DYNAMIC else draw(st.integers(0, 4))):
        child = f"{name}-c{number}"
        restart = draw(st.sampled_from(Restart))
        significant = restart is not Restart.PERMANENT and auto is not AutoShutdown.NEVER and draw(st.booleans())
        common: dict[str, Any] = {"restart": restart, "significant": significant}
        if depth > 1 and draw(st.booleans()):
            nested = draw(specs(child, depth - 1, eager, plain))
            budget = draw(st.sampled_from(["infinity", "brutal_kill", 100]))
            children.append(ChildSpec(child, shutdown=budget, type=ChildType.SUPERVISOR, nested=nested, **common))
        else:
            children.append(ChildSpec(child, "m:f", shutdown=draw(st.sampled_from(BUDGETS)), **common))
    return SupervisorSpec(
        id=name,
        strategy=strategy,
        intensity=draw(st.integers(0, 3)),
        period_s=PERIOD_S,
        children=tuple(children),
        auto_shutdown=auto,
        eager=eager,
        on_excess=OnExcess.ESCALATE if plain else draw(st.sampled_from(OnExcess)),
        backoff=None if plain else draw(st.sampled_from([None, Backoff()])),
    )


class Model:
    """Lets a tree live: ``step`` makes one of the things happen that can happen now."""

    def __init__(self, spec: SupervisorSpec, seed: int, *, calls: bool = True) -> None:
        self.dice = random.Random(seed)
        self.tree = Tree(spec, jitter=self.dice.random)
        self.calls = calls
        self.now = 0.0
        self.alive: dict[str, int] = {}
        self.ready: set[str] = set()
        self.stopping: list[str] = []
        self.timers: list[tuple[float, Any]] = []
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.stops: list[tuple[str, int]] = []
        self.launches: list[tuple[float, str, int]] = []
        """When it was decided on (siblings may have had to be stopped first), id, run."""
        self._began: float | None = None
        self.failed: set[int] = set()
        self.slow: set[tuple[str, float]] = set()
        self.asked: set[int] = set()
        self.forgotten: set[str] = set()
        self.halted = False
        self.down: str | None = None

    def feed(self, event: Event) -> None:
        for command in self.tree.handle(event, self.now):
            self.perform(command)

    def perform(self, command: Command) -> None:
        assert self.down is None or isinstance(command, Reply), "no command after Down"
        if isinstance(command, Start):
            assert command.id not in self.alive, "never two live instances of one id"
            assert command.id not in self.forgotten or command.spec is not None
            told = self.halted and self.tree.spec.eager and self.tree.supervisor_of(command.id) == self.tree.spec.id
            assert not told, "nothing is started after Halt; one nested may, until its own turn has come"
            self.alive[command.id] = command.run
            self.starts[command.id].append(self.now)
            self.launches.append((self.now if self._began is None else self._began, command.id, command.run))
            self._began = None
        elif isinstance(command, Stop):
            assert self.alive.get(command.id) == command.run, "no command for a child that is gone"
            self.stopping.append(command.id)
            self._began = self.now if self._began is None else self._began
            self.stops.append((command.id, command.run))
        elif isinstance(command, SetTimer):
            self.timers.append((self.now + command.after_s, command.key))
        elif isinstance(command, Report) and command.context == "slow_retry":
            self.slow.add((command.offender, self.now))
        elif isinstance(command, Reply):
            self.asked.remove(command.ref)
        elif isinstance(command, Forget):
            assert command.id not in self.alive, "no child is forgotten while it lives"
            self.forgotten.add(command.id)
        elif isinstance(command, Down):
            assert not self.alive, "down means that nothing is left"
            self.down = command.reason

    # What can happen

    def serve(self, child: str) -> None:
        self.ready.add(child)
        self.feed(Ready(child, self.alive[child]))

    def finish(self, child: str, ending: Ending) -> None:
        run = self.alive.pop(child)
        self.stopping = [name for name in self.stopping if name != child]
        if child in self.ready:
            self.ready.remove(child)
            self.feed(Exited(child, run, "ended", ending))
        elif self.dice.random() < 0.2:
            self.feed(Ignored(child, run))
        else:
            self.failed.add(run)
            self.feed(StartFailed(child, run, "ended"))

    def starting(self) -> list[str]:
        return sorted(set(self.alive) - self.ready - set(self.stopping))

    def step(self) -> None:
        self.now += self.dice.choice([0.0, 0.1, 1.0, 4.0])
        due = [timer for timer in self.timers if timer[0] <= self.now]
        roll = self.dice.random()
        if due:
            self.timers.remove(due[0])
            self.feed(Timer(due[0][1]))
        elif self.calls and roll < 0.2:
            self.ask()
        elif self.starting() and roll < 0.7:
            self.serve(self.starting()[0])
        elif self.alive:
            self.finish(self.dice.choice(sorted(self.alive)), self.dice.choice(list(Ending)))

    def ask(self) -> None:
        supervisor = self.dice.choice(sorted(self.tree.supervisors()))
        number = len(self.asked) + self.dice.randrange(1, 10**9)
        self.asked.add(number)
        self.feed(Call(number, supervisor, self._request(supervisor)))

    def _request(self, supervisor: str) -> Request:
        child = self.dice.choice([f"{supervisor}-c{number}" for number in range(5)])
        by_id = self.dice.choice([TerminateChild, RestartChild, DeleteChild, Cycle])
        fresh = ChildSpec(child, "m:f", restart=self.dice.choice(list(Restart)), shutdown=100)
        others = [StartChild(fresh), StartDynamic(), Update(self._spec_of(supervisor))]
        return self.dice.choice([by_id(child), by_id(child), *others])

    def _spec_of(self, supervisor: str) -> SupervisorSpec:
        below = [c.nested for c in self.tree.spec.walk() if c.nested is not None and c.id == supervisor]
        return below[0] if below else self.tree.spec

    def drain(self) -> None:
        """Let everything that is under way come to its end; in plain OTP starts under way come before the halt."""
        for _ in range(2000):
            if self.down is not None:
                return
            if self.stopping:
                self.finish(self.stopping[0], Ending.SHUTDOWN)
            elif self.starting():
                self.serve(self.starting()[0])
            elif self.timers:
                self.feed(Timer(self.timers.pop(0)[1]))
