"""Which tree an event goes to, and when two trees turn out to be one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.tree.routing import Merge, Routed, Router
from tests.unit.tree.streams import event


def test_conversation_without_parent_is_its_own_tree() -> None:
    assert Router().resolve(event("a")) == Routed("a")


def test_child_goes_to_its_parents_tree_known_or_not() -> None:
    router = Router()

    assert router.resolve(event("kid", parent_session_id="a")) == Routed("a")
    assert router.resolve(event("grandkid", parent_session_id="kid")) == Routed("a")
    assert router.resolve(event("a")) == Routed("a")
    assert router.resolve(event("kid")) == Routed("a")


def test_late_parent_asks_for_a_merge_until_it_is_confirmed() -> None:
    router = Router()
    router.resolve(event("kid"))
    late = event("kid", parent_session_id="a")

    assert router.resolve(late) == router.resolve(late) == Routed("a", Merge("kid", "a"))
    assert router.resolve(event("kid")) == Routed("kid")
    router.merged("kid", "a")
    assert router.resolve(late) == router.resolve(event("kid")) == Routed("a")


def test_chains_of_merges_lead_to_the_last_root() -> None:
    router = Router()
    for name in "abcd":
        router.resolve(event(name))
    for old, into in (("a", "b"), ("b", "c"), ("c", "d")):
        router.merged(old, into)

    assert [router.tree_of(name) for name in "abcd"] == ["d"] * 4
    router.merged("d", "a")
    assert router.tree_of("a") == "d"


def test_conversation_below_a_root_does_not_change_trees() -> None:
    router = Router()
    router.resolve(event("kid", parent_session_id="a"))

    assert router.resolve(event("kid", parent_session_id="b")) == Routed("a")


def test_root_that_names_its_own_child_stays_where_it_is() -> None:
    router = Router()
    router.resolve(event("kid", parent_session_id="a"))

    assert router.resolve(event("a", parent_session_id="kid")) == Routed("a")
    assert router.resolve(event("a", parent_session_id="a")) == Routed("a")


def test_router_knows_what_the_store_knew() -> None:
    router = Router({"kid": "a"})
    router.learn("other", "b")

    assert router.resolve(event("grandkid", parent_session_id="kid")) == Routed("a")
    assert (router.tree_of("other"), router.tree_of("never")) == ("b", None)


names = st.sampled_from("abcdef")


@given(st.lists(st.tuples(names, st.none() | names), max_size=40))
def test_any_claims_confirmed_at_once_end_in_roots(claims: list[tuple[str, str | None]]) -> None:
    router = Router()
    for own, parent in claims:
        routed = router.resolve(event(own, parent_session_id=parent))
        if routed.merge:
            assert routed.merge.old != routed.tree
            router.merged(routed.merge.old, routed.tree)
        assert router.tree_of(own) == routed.tree
        assert router.tree_of(routed.tree) == routed.tree
