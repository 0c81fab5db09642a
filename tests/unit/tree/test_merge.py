"""Merging a tree into the one that its root belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.messages import AlertState, Command, Mode, ProgressEvent, Reason, Verdict
from actors.tree.lineage import MAX_DEPTH
from actors.tree.state import new_tree
from actors.tree.step import merge
from tests.unit.tree.streams import SPECIFICATION as KNOBS
from tests.unit.tree.streams import Driver, call, digest


def merged(into: Driver, other: Driver, parent: str | None = None) -> Driver:
    into.state, effects = merge(into.state, other.state, KNOBS, parent)
    into.effects += effects
    return into


def test_merge_other_root_becomes_a_conversation_below_its_parent() -> None:
    into = Driver().feed([call(0), call(1, "mid", parent_session_id="root")])
    other = Driver("kid").feed([call(2, "kid"), call(3, "grandkid", parent_session_id="kid")])
    merged(into, other, "mid")

    assert {name: one.parent for name, one in into.state.conversations.items()} == {
        "root": None,
        "mid": "root",
        "kid": "mid",
        "grandkid": "kid",
    }
    assert [into.of(name).turns_since for name in ("root", "mid", "kid", "grandkid")] == [4, 3, 2, 1]
    assert (into.state.seq, into.of("kid").children, into.of("mid").children) == (4, 1, 1)


def test_merge_alert_of_the_other_tree_resolves_into_that_of_the_whole() -> None:
    other = Driver("kid").feed(call("same", "kid") for _ in range(12))
    into = merged(Driver().feed([call(0)]), other, "root")

    assert [(one.key, one.state) for one in into.alerts] == [
        ("kid", AlertState.RESOLVE),
        ("root", AlertState.TRIGGER),
    ]
    assert into.state.verdict is Verdict.STALLING


def test_merge_worst_verdict_shows_and_an_open_alert_is_not_raised_again() -> None:
    other = Driver("kid").feed([call(1, "kid")])
    into = merged(Driver().feed(call("same") for _ in range(12)), other, "root")

    assert (into.state.verdict, len(into.alerts)) == (Verdict.STALLING, 1)


def test_merge_counters_that_add_up_move_the_parent_at_once() -> None:
    repeats = [call(index % 10, cost_usd=0.05) for index in range(15)]
    other = Driver("kid").feed([call("big", "kid", cost_usd=2.5)])
    into = Driver().feed(repeats)
    assert into.of().verdict is Verdict.OK

    assert merged(into, other).moves == [("root", Verdict.STALLING, Reason.DUPLICATES)]


def test_merge_unknown_parent_becomes_a_placeholder() -> None:
    into = merged(Driver().feed([call(0)]), Driver("kid").feed([call(1, "kid")]), "mid")

    assert (into.of("kid").parent, into.of("mid").parent, into.of("mid").placeholder) == ("mid", "root", True)


def test_merge_into_an_empty_tree_makes_its_root() -> None:
    into = merged(Driver(), Driver("kid").feed([call(1, "kid")]), "root")

    assert (into.of().placeholder, into.of().turns_since, into.of("kid").parent) == (True, 1, "root")


def test_merge_of_an_empty_tree_changes_nothing() -> None:
    into = Driver().feed([call(0)])
    into.state, effects = merge(into.state, new_tree("kid"), KNOBS)

    assert (list(into.state.conversations), effects) == (["root"], [])


def test_merge_parent_inside_the_joining_tree_makes_no_cycle() -> None:
    other = Driver("kid").feed([call(1, "kid"), call(2, "grandkid", parent_session_id="kid")])
    into = merged(Driver().feed([call(0)]), other, "grandkid")

    assert (into.of("kid").parent, into.of("grandkid").parent) == ("root", "kid")


def test_merge_two_accounts_of_one_conversation_add_up() -> None:
    into = Driver().feed([call(0), call(1, "kid", parent_session_id="root")])
    other = Driver("kid").feed(call(index, "kid", t=50.0 + index) for index in range(12))
    merged(into, other)

    assert (into.of("kid").events, into.of("kid").turns_since, into.of("kid").parent) == (13, 13, "root")


def test_merge_keeps_the_mode_and_the_landed_states() -> None:
    edit = call("edit", "kid", landed=True, state=digest("a"))
    other = Driver("kid").feed([edit, Command(t=1, action="mode", value=Mode.AUTO_COMPACT)])
    into = merged(Driver().feed([call(0)]), other, "root")
    into.feed([call("edit", landed=True, state=digest("a"))])

    assert (into.state.mode, into.of().turns_since) == (Mode.AUTO_COMPACT, 1)


def test_merge_chains_stay_bounded() -> None:
    names = [f"n{index}" for index in range(MAX_DEPTH)]
    into = Driver().feed([call(0)])
    into.feed(call(1, kid, parent_session_id=up) for up, kid in zip(["root", *names], names, strict=False))
    merged(into, Driver("kid").feed([call(2, "kid")]), names[-1])

    assert into.of("kid").parent == "root"


def plain_call(session: str, what: int, failed: bool) -> ProgressEvent:
    return call(what, session, exit=int(failed), cost_usd=0.25)


streams = st.lists(
    st.builds(plain_call, st.sampled_from(["kid", "root"]), st.integers(0, 6), st.booleans()), max_size=60
)


@given(streams)
def test_merge_without_resets_equals_having_known_the_parent_from_the_start(events: list[ProgressEvent]) -> None:
    timed = [one.model_copy(update={"t": float(index)}) for index, one in enumerate(events)]
    known = Driver().feed(
        one.model_copy(update={"parent_session_id": "root"}) if one.session_id == "kid" else one for one in timed
    )
    late = merged(
        Driver().feed(one for one in timed if one.session_id == "root"),
        Driver("kid").feed(one for one in timed if one.session_id == "kid"),
        "root",
    )

    assert late.state.seq == known.state.seq
    for name in known.state.conversations:
        ours, theirs = late.of(name), known.of(name)
        figures = ("parent", "events", "turns", "usd", "turns_since", "usd_since", "calls_since", "alive_at")
        assert [getattr(ours, one) for one in figures] == [getattr(theirs, one) for one in figures]
        assert ours.window.dup_share == theirs.window.dup_share
        assert ours.failures.top == theirs.failures.top
