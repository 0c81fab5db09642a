"""Properties of the step over any sequence of valid events."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.knobs import Progress
from actors.messages import Command, ErrorClass, Kind, Mode, ProgressEvent, Tick, Tokens, Verdict
from actors.sensors.readers.records import World
from actors.sensors.replay import replay_world
from actors.tree.judge import rank
from actors.tree.routing import Router
from actors.tree.snapshot import dump, load
from actors.tree.state import new_tree
from actors.tree.step import describe, merge, next_wakeup, step, summarise
from tests.bench.bench_step import size_of
from tests.unit.tree.streams import Driver, call

TIGHT = Progress(
    window=10,
    stall_turns=4,
    loop_turns=8,
    ceiling_turns=30,
    top_repeat=4,
    top_repeat_read_only=3,
    session_repeat=6,
    novelty_calls=8,
    novelty_targets=3,
    fail_warn=2,
    loop_fail=4,
    retire_after_s=60,
)

names = st.sampled_from(["root", "a", "b", "c", "d"])
few = st.sampled_from(["1", "2", "3", "f" * 64])


@st.composite
def anything(draw: st.DrawFn) -> ProgressEvent:
    fields: dict[str, Any] = {"session_id": draw(names), "kind": draw(st.sampled_from([Kind.TOOL] * 12 + list(Kind)))}
    optional = {
        "parent_session_id": names,
        "agent": st.sampled_from(["build", "explore"]),
        "tool": few,
        "call_id": few,
        "round": few,
        "fingerprint": few,
        "slice": few,
        "target": few,
        "exit": st.sampled_from([0, 0, 1]),
        "result": few,
        "error": st.sampled_from(ErrorClass),
        "state": few,
        "request_id": few,
        "tokens": st.integers(0, 10**6) | st.just(Tokens(prompt=5)),
        "cost_usd": st.floats(0, 2),
        "context_tokens": st.integers(0, 10**6),
    }
    for name, values in optional.items():
        if draw(st.integers(0, 3)):
            fields[name] = draw(values)
    fields["landed"] = draw(st.integers(0, 11)) == 0
    fields["injected"] = draw(st.integers(0, 11)) == 0
    return ProgressEvent(t=draw(st.floats(0, 400)), **fields)


commands = st.builds(
    Command, t=st.floats(0, 400), action=st.sampled_from(["resume", "mode"]), value=st.none() | st.sampled_from(Mode)
)
inputs = st.lists(anything() | anything() | anything() | st.builds(Tick, t=st.floats(0, 900)) | commands, max_size=60)


@settings(max_examples=300, deadline=None)
@given(inputs)
def test_step_any_sequence_raises_nothing_and_keeps_its_sums(events: list[Any]) -> None:
    tree, open_alert = new_tree("root"), False
    for one in events:
        _, effects = step(tree, one, TIGHT)
        every = list(tree.conversations.values())
        assert tree.stalling == sum(each.verdict is Verdict.STALLING for each in every)
        assert tree.looping == sum(each.verdict is Verdict.LOOPING for each in every)
        assert rank(tree.verdict) == max((rank(each.verdict) for each in every), default=0)
        assert all(each.verdict is Verdict.OK for each in every if each.retired)
        assert all(list(tree.lineage(each))[-1].id == "root" for each in every)
        for each in every:
            assert each.children == sum(other.parent == each.id for other in every)
        for effect in effects:
            if hasattr(effect, "state"):
                assert open_alert == (effect.state.value != "trigger")
                open_alert = effect.state.value != "resolve"
        assert open_alert == (tree.verdict is not Verdict.OK)
        summarise(tree, TIGHT), describe(tree, TIGHT), next_wakeup(tree, TIGHT)


@settings(deadline=None)
@given(inputs, st.integers(0, 60))
def test_step_after_load_behaves_as_without(events: list[Any], at: int) -> None:
    straight, broken = Driver(knobs=TIGHT), Driver(knobs=TIGHT)
    straight.feed(events)
    broken.feed(events[:at])
    broken.state = load(dump(broken.state))
    broken.feed(events[at:])

    assert broken.effects == straight.effects
    assert dump(broken.state) == dump(straight.state)


@settings(deadline=None)
@given(inputs)
def test_step_twice_gives_the_same(events: list[Any]) -> None:
    first, second = Driver(knobs=TIGHT).feed(events), Driver(knobs=TIGHT).feed(events)

    assert (first.effects, dump(first.state)) == (second.effects, dump(second.state))


@settings(deadline=None)
@given(st.lists(anything(), max_size=50), st.lists(st.floats(0, 900), max_size=20))
def test_step_ticks_between_events_leave_the_transitions_as_they_are(
    events: list[ProgressEvent], ticks: list[float]
) -> None:
    """Live, with ticks, and offline, without, agree. Alerts need not: a tick ends one that an event would have kept."""
    ordered = sorted(events, key=lambda one: one.t or 0.0)
    late = [Tick(t=t) for t in ticks if ordered and t <= (ordered[-1].t or 0.0)]
    both = sorted([*ordered, *late], key=lambda one: one.t or 0.0)

    offline, live = Driver(knobs=TIGHT).feed(ordered), Driver(knobs=TIGHT).feed(both)
    assert live.transitions == offline.transitions
    assert dump(live.state) == dump(offline.state)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), anything()), max_size=50))
def test_unrelated_trees_do_not_depend_on_each_others_order(tagged: list[tuple[bool, ProgressEvent]]) -> None:
    def renamed(first: bool, one: ProgressEvent) -> ProgressEvent:
        names = {"session_id": f"{first}/{one.session_id}"}
        if one.parent_session_id:
            names["parent_session_id"] = f"{first}/{one.parent_session_id}"
        return one.model_copy(update=names)

    mixed = [renamed(first, one) for first, one in tagged]
    apart = sorted(mixed, key=lambda one: one.session_id.startswith("True"))
    rows = [
        sorted(replay_world(World(None, "test", tuple(order)), TIGHT), key=lambda row: str(row["conversation"]))
        for order in (mixed, apart)
    ]

    assert rows[0] == rows[1]


@settings(deadline=None)
@given(st.lists(anything(), max_size=60))
def test_routing_and_merging_any_claims_raise_nothing(events: list[ProgressEvent]) -> None:
    router, trees = Router(), {}
    for one in events:
        routed = router.resolve(one)
        tree = trees.setdefault(routed.tree, new_tree(routed.tree))
        if routed.merge and routed.merge.old in trees:
            merge(tree, trees.pop(routed.merge.old), TIGHT, routed.merge.parent)
            router.merged(routed.merge.old, routed.tree)
        step(tree, one, TIGHT)
        assert load(dump(tree)) is not None

    for tree in trees.values():
        assert all(list(tree.lineage(each))[-1].id == tree.id for each in tree.conversations.values())
        assert tree.stalling == sum(each.verdict is Verdict.STALLING for each in tree.conversations.values())


def test_memory_of_a_conversation_is_bounded() -> None:
    def sizes(calls: int) -> int:
        distinct = [call(index, exit=index % 2, request_id=f"q{index}") for index in range(calls)]
        return len(dump(Driver().feed(distinct).state))

    assert sizes(4000) < 1.1 * sizes(400) < 40_000


def test_memory_of_the_worst_conversation_stays_below_64_kib() -> None:
    """Every call twice, by seven tools, every other one fails, and nothing ever lands: all counters are full."""
    events = [
        call(n // 2, tool=f"t{n % 7}", target=f"src/some/dir/file{n // 2}.py", exit=n % 2, request_id=f"q{n}")
        for n in range(3000)
    ]

    assert size_of(Driver(knobs=Progress()).feed(events).of()) <= 64 * 1024
