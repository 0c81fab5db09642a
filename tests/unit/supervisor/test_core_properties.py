"""Properties of the core that hold for every tree and every course of events, against a model of the runner."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.events import Boot, Halt
from supervisor.spec import Backoff, ChildSpec, OnExcess, Restart, Strategy, SupervisorSpec
from tests.unit.supervisor.runner_model import PERIOD_S, Model, specs

SEEDS = st.integers(0, 2**32)


@given(spec=specs(), seed=SEEDS, steps=st.integers(1, 80))
@settings(max_examples=500, deadline=None)
def test_any_course_keeps_one_instance_commands_only_the_living_and_ends_down(
    spec: SupervisorSpec, seed: int, steps: int
) -> None:
    model = Model(spec, seed)
    model.feed(Boot())
    for _ in range(steps):
        if model.down is None:
            model.step()
    model.halted = True
    if model.down is None:
        model.feed(Halt())
    model.drain()
    assert model.down is not None
    assert not model.alive
    assert not model.asked, "every request is answered"


@given(spec=specs(), seed=SEEDS)
@settings(max_examples=300, deadline=None)
def test_start_is_in_order_and_stop_is_its_reverse(spec: SupervisorSpec, seed: int) -> None:
    model = Model(spec, seed)
    model.feed(Boot())
    order = []
    while waiting := model.starting():
        assert len(waiting) == 1, "the next one only after the elder is ready"
        order.append(waiting[0])
        model.serve(waiting[0])
    assert order == [child.id for child in spec.workers()]
    model.feed(Halt())
    model.drain()
    assert model.down is not None
    if not killed_by_force(spec):
        assert [name for name, _run in model.stops] == order[::-1]
    assert {name for name, _run in model.stops} == set(order)


def killed_by_force(spec: SupervisorSpec) -> bool:
    """Say whether a nested supervisor is killed rather than told to stop: everything below it goes at once then."""
    return any(child.nested is not None and child.shutdown == "brutal_kill" for child in spec.walk())


@given(spec=specs(depth=1, plain=True), seed=SEEDS, steps=st.integers(1, 150))
@settings(max_examples=500, deadline=None)
def test_restarts_never_exceed_the_intensity_in_a_period_without_escalation(
    spec: SupervisorSpec, seed: int, steps: int
) -> None:
    spec = replace(spec, children=tuple(staying(child) for child in spec.children))
    model = Model(spec, seed, calls=False)
    model.feed(Boot())
    while model.starting():
        model.serve(model.starting()[0])
    booted = len(model.launches)
    for _ in range(steps):
        model.step()
    assert most_in_a_period(attempts(model, spec, booted)) <= spec.intensity


def staying(child: ChildSpec) -> ChildSpec:
    """Return the child as one that is never dropped: then one attempt is easily told from the next."""
    temporary = child.restart is Restart.TEMPORARY
    return replace(child, restart=Restart.TRANSIENT if temporary else child.restart)


def attempts(model: Model, spec: SupervisorSpec, booted: int) -> list[float]:
    """Return when a restart was attempted: a start that does not go on where the one before it got to."""
    order = [child.id for child in spec.children]
    together = spec.strategy in (Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE)
    moments, last = [], (len(order), 0)
    for at, name, run in model.launches[booted:]:
        index = order.index(name) if together else 0
        if not (together and index == last[0] + 1 and last[1] not in model.failed):
            moments.append(at)
        last = (index, run)
    return moments


@given(
    strategy=st.sampled_from([s for s in Strategy if s is not Strategy.DYNAMIC]),
    seed=SEEDS,
    steps=st.integers(1, 150),
    intensity=st.integers(0, 4),
)
@settings(max_examples=300, deadline=None)
def test_restarts_of_one_child_beyond_its_intensity_are_slow_and_the_tree_lives(
    strategy: Strategy, seed: int, steps: int, intensity: int
) -> None:
    backoff = Backoff(jitter=0.25)
    children = tuple(ChildSpec(f"c{n}", "m:f", restart=Restart.PERMANENT, shutdown=100) for n in range(3))
    spec = SupervisorSpec(
        strategy=strategy,
        children=children,
        intensity=intensity,
        period_s=PERIOD_S,
        eager=True,
        backoff=backoff,
        on_excess=OnExcess.SLOW_RETRY,
    )
    model = Model(spec, seed, calls=False)
    model.feed(Boot())
    for _ in range(steps):
        model.step()
    assert model.down is None
    if strategy is not Strategy.ONE_FOR_ONE:
        return  # a sibling's restart takes a waiting child along
    for child, starts in model.starts.items():
        for at in (moment for name, moment in model.slow if name == child):
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
