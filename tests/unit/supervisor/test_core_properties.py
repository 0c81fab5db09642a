"""Properties of the core that hold for every tree and every course of events, against a model of the runner."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.events import (
    Boot,
    Command,
    Down,
    Ending,
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
)
from supervisor.spec import Backoff, ChildSpec, ChildType, OnExcess, Restart, SupervisorSpec
from supervisor.tree import Tree

PERIOD_S = 10.0
flags = {
    "intensity": st.integers(0, 3),
    "period_s": st.just(PERIOD_S),
    "on_excess": st.sampled_from(OnExcess),
    "backoff": st.sampled_from([None, Backoff()]),
}


@st.composite
def specs(draw: st.DrawFn, name: str = "root", depth: int = 2, eager: bool | None = None) -> SupervisorSpec:
    children = []
    eager = draw(st.booleans()) if eager is None else eager
    for number in range(draw(st.integers(1, 3))):
        child = f"{name}-{number}"
        restart = draw(st.sampled_from(Restart))
        if depth > 1 and draw(st.booleans()):
            nested = draw(specs(child, depth - 1, eager))
            children.append(
                ChildSpec(child, restart=restart, shutdown="infinity", type=ChildType.SUPERVISOR, nested=nested)
            )
        else:
            children.append(ChildSpec(child, "m:f", restart=restart, shutdown=100))
    return SupervisorSpec(
        id=name, children=tuple(children), eager=eager, **{key: draw(value) for key, value in flags.items()}
    )


class Runner:
    """A model of the process runner: performs commands faithfully and checks what must hold at every one."""

    def __init__(self, spec: SupervisorSpec, dice: random.Random) -> None:
        self.tree = Tree(spec, jitter=dice.random)
        self.order = [child.id for child in spec.workers()]
        self.dice = dice
        self.now = 0.0
        self.alive: dict[str, int] = {}
        self.ready: set[str] = set()
        self.stopping: dict[str, int] = {}
        self.timers: list[tuple[float, Any]] = []
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.slow: set[tuple[str, float]] = set()
        self.stops: list[str] = []
        self.halted = False
        self.down: str | None = None

    def feed(self, event: Event) -> None:
        for command in self.tree.handle(event, self.now):
            self.perform(command)

    def perform(self, command: Command) -> None:
        assert self.down is None, "no command after Down"
        if isinstance(command, Start):
            assert command.id not in self.alive, "never two live instances of one id"
            assert not (self.halted and self.tree.spec.eager), "nothing is started after Halt"
            self.alive[command.id] = command.run
            self.starts[command.id].append(self.now)
        elif isinstance(command, Stop):
            assert self.alive.get(command.id) == command.run, "no command for a child that is gone"
            self.stopping[command.id] = command.run
            self.stops.append(command.id)
        elif isinstance(command, SetTimer):
            self.timers.append((self.now + command.after_s, command.key))
        elif isinstance(command, Report) and command.context == "slow_retry":
            self.slow.add((command.offender, self.now))
        elif isinstance(command, Down):
            assert not self.alive, "down means that nothing is left"
            self.down = command.reason

    def serve(self, child: str) -> None:
        self.ready.add(child)
        self.feed(Ready(child, self.alive[child]))

    def drain(self) -> None:
        """Let everything that is under way come to its end; in plain OTP starts under way come before the halt."""
        for _ in range(1000):
            starting = sorted(set(self.alive) - self.ready - set(self.stopping))
            if starting:
                self.serve(starting[0])
            elif self.stopping:
                self.finish(next(iter(self.stopping)), normal=True)
            elif self.timers and self.down is None:
                self.feed(Timer(self.timers.pop(0)[1]))

    def finish(self, child: str, *, normal: bool) -> None:
        run = self.alive.pop(child)
        self.stopping.pop(child, None)
        if child in self.ready:
            self.ready.remove(child)
            self.feed(Exited(child, run, "ended", Ending.NORMAL if normal else Ending.ABNORMAL))
        else:
            self.feed(StartFailed(child, run, "ended"))

    def step(self) -> None:
        """Let one of the things happen that can happen now."""
        self.now += self.dice.choice([0.0, 0.1, 1.0, 4.0])
        due = [timer for timer in self.timers if timer[0] <= self.now]
        starting = sorted(set(self.alive) - self.ready - set(self.stopping))
        roll = self.dice.random()
        if due:
            self.timers.remove(due[0])
            self.feed(Timer(due[0][1]))
        elif starting and roll < 0.6:
            self.serve(starting[0])
        elif self.alive:
            self.finish(self.dice.choice(sorted(self.alive)), normal=roll < 0.8)


@given(spec=specs(), seed=st.integers(0, 2**32), steps=st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_any_course_keeps_one_instance_commands_only_the_living_and_ends_down(
    spec: SupervisorSpec, seed: int, steps: int
) -> None:
    runner = Runner(spec, random.Random(seed))
    runner.feed(Boot())
    for _ in range(steps):
        if runner.down is None:
            runner.step()
    runner.halted = True
    if runner.down is None:
        runner.feed(Halt())
    runner.drain()
    assert runner.down is not None
    assert not runner.alive


@given(spec=specs(), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_start_is_in_order_and_stop_is_its_reverse(spec: SupervisorSpec, seed: int) -> None:
    runner = Runner(spec, random.Random(seed))
    runner.feed(Boot())
    started = []
    while waiting := sorted(set(runner.alive) - runner.ready):
        assert len(waiting) == 1, "the next one only after the elder is ready"
        started.append(waiting[0])
        runner.ready.add(waiting[0])
        runner.feed(Ready(waiting[0], runner.alive[waiting[0]]))
    runner.feed(Halt())
    while runner.stopping:
        assert len(runner.stopping) == 1, "the next one only after the younger is gone"
        runner.finish(next(iter(runner.stopping)), normal=True)
    assert started == runner.order
    assert runner.stops == runner.order[::-1]


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 120), intensity=st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_restarts_never_exceed_the_intensity_in_a_period_without_escalation(
    seed: int, steps: int, intensity: int
) -> None:
    children = tuple(ChildSpec(f"c{n}", "m:f", shutdown=100) for n in range(3))
    spec = SupervisorSpec(children=children, intensity=intensity, period_s=PERIOD_S)
    runner = Runner(spec, random.Random(seed))
    runner.feed(Boot())
    for _ in range(steps):
        if runner.down is None:
            runner.step()
    restarts = sorted(at for starts in runner.starts.values() for at in starts[1:])
    assert most_in_a_period(restarts) <= intensity


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 150), intensity=st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_restarts_of_one_child_beyond_its_intensity_are_slow_and_the_tree_lives(
    seed: int, steps: int, intensity: int
) -> None:
    backoff = Backoff(jitter=0.25)
    children = tuple(ChildSpec(f"c{n}", "m:f", shutdown=100) for n in range(3))
    spec = SupervisorSpec(
        children=children,
        intensity=intensity,
        period_s=PERIOD_S,
        eager=True,
        backoff=backoff,
        on_excess=OnExcess.SLOW_RETRY,
    )
    runner = Runner(spec, random.Random(seed))
    runner.feed(Boot())
    for _ in range(steps):
        runner.step()
    assert runner.down is None
    for child, starts in runner.starts.items():
        for at in (moment for name, moment in runner.slow if name == child):
            gap = [start for start in starts if at < start < at + backoff.slow_s * (1 - backoff.jitter)]
            assert gap == [], "a slow retry waits"


def most_in_a_period(moments: list[float]) -> int:
    window: deque[float] = deque()
    most = 0
    for moment in moments:
        window.append(moment)
        while moment - window[0] > PERIOD_S:
            window.popleft()
        most = max(most, len(window))
    return most
