"""The rolling window and its counters (P032, P035, T41)."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from actors.tree.keys import UNKNOWN, key_of, pair_key
from actors.tree.tally import Tally
from actors.tree.window import Window


def window_of(calls: list[tuple[int, int]], limit: int = 10, span: int = 10) -> Window:
    window = Window(limit, span)
    for what, outcome in calls:
        window.push(what, outcome, UNKNOWN, what, f"t{what}")
    return window


def test_dup_share_known_list_gives_known_share() -> None:
    assert window_of([(1, 7), (1, 7), (2, 7), (3, 7)]).dup_share == 0.25


def test_dup_share_changed_outcome_is_no_duplicate() -> None:
    assert window_of([(1, outcome) for outcome in range(1, 9)]).dup_share == 0.0


def test_dup_share_outcomes_taking_turns_are_duplicates() -> None:
    assert window_of([(1, 1 + index % 2) for index in range(8)]).dup_share == 0.75


def test_dup_share_unknown_outcomes_count_as_equal() -> None:
    assert window_of([(1, UNKNOWN)] * 4).dup_share == 0.75


def test_top_repeat_polling_does_not_count() -> None:
    window = window_of([(1, outcome) for outcome in range(1, 9)])

    assert window.slices.top == 1


def test_top_repeat_reworded_calls_of_one_slice_count_whatever_they_print() -> None:
    window = Window(10, 10)
    for wording in range(1, 7):
        window.push(wording, 100 + wording, 5, 5, "a")

    assert window.slices.top == 6


def test_top_repeat_without_slice_falls_back_to_the_fingerprint() -> None:
    assert window_of([(4, 9)] * 3).slices.top == 3


def test_window_slides_oldest_call_leaves_every_counter() -> None:
    window = window_of([(1, 1), (1, 1), (2, 2)], limit=2, span=2)

    assert (window.since, window.dup_share, window.slices.top, len(window.places)) == (2, 0.0, 1, 2)


def test_reset_counts_from_there_on_and_keeps_the_calls() -> None:
    window = window_of([(1, 1)] * 5)
    window.reset()
    window.push(1, 1, UNKNOWN, 1, "t1")

    assert (window.since, window.dup_share, len(window.calls)) == (1, 0.0, 6)


def test_window_slides_calls_from_before_a_reset_take_nothing_away() -> None:
    window = window_of([(1, 1)], limit=2, span=2)
    window.reset()
    for _ in range(2):
        window.push(2, 2, UNKNOWN, 2, "t2")

    assert (window.since, window.dup_share, window.slices.top) == (2, 0.5, 2)


def test_top_target_names_the_most_frequent() -> None:
    assert window_of([(1, 1), (2, 1), (2, 1), (3, 1)]).top_target() == "t2"
    assert Window(10, 10).top_target() is None


steps = st.lists(
    st.one_of(
        st.just("reset"),
        st.tuples(st.integers(1, 30), st.integers(1, 30)).map(lambda pair: (max(pair), min(pair))),
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)),
    ),
    max_size=120,
)


@given(steps)
def test_counters_any_sequence_equal_a_recount(sequence: list[object]) -> None:
    window = Window(5, 3)
    for one in sequence:
        if one == "reset":
            window.reset()
        elif len(one) == 2:  # type: ignore[arg-type]
            window.resize(*one)  # type: ignore[misc]
        else:
            window.push(*one, "t")  # type: ignore[misc]
        counted = list(window.calls)[len(window.calls) - window.since :]
        known = [each for each in counted if each.fingerprint]
        slices = Counter(each.slice for each in counted if each.slice and not each.polled)
        spanned = counted[max(0, len(counted) - window.span) :]
        assert len(window.calls) <= window.limit
        assert window.slices.counts == dict(slices)
        assert window.slices.top == max(slices.values(), default=0)
        assert window.places.counts == dict(Counter(each.place for each in spanned))
        repeated = len(known) - len({each.exact for each in known})
        assert window.dup_share == (repeated / len(counted) if counted else 0.0)


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "add", "remove", "drop"]), st.integers(0, 6))))
def test_tally_any_sequence_top_is_the_largest_count(sequence: list[tuple[str, int]]) -> None:
    tally, recent = Tally(limit=4), deque[int]()
    for action, key in sequence:
        if action == "remove" and key not in tally:
            continue
        getattr(tally, action)(key)
        if action == "add":
            recent.append(key)
        assert tally.top == max(tally.counts.values(), default=0)
        assert len(tally) <= 4


def test_tally_over_its_limit_forgets_what_was_added_to_least_recently() -> None:
    tally = Tally(limit=2)
    for key in (1, 2, 1, 3):
        tally.add(key)

    assert tally.counts == {1: 2, 3: 1}


def test_key_of_padded_and_short_digests_stay_apart() -> None:
    texts = [*(f"{index:064x}" for index in range(300)), "a", "0a", "00a", "read:a.py", "read:b.py", "z" * 128]

    assert len({key_of(text) for text in texts}) == len(texts)
    assert key_of(None) == key_of("") == UNKNOWN


def test_pair_key_order_and_unknown_matter() -> None:
    assert len({pair_key(1, 2), pair_key(2, 1), pair_key(1, UNKNOWN), pair_key(2, UNKNOWN)}) == 4
