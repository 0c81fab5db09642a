from __future__ import annotations

from supervisor.intensity import Window


def test_window_over_intensity_trips() -> None:
    window = Window(2, 5)
    assert [window.add(t) for t in (0, 1, 2)] == [False, False, True]


def test_window_at_exactly_the_period_still_counts() -> None:
    window = Window(1, 5)
    assert [window.add(0), window.add(5)] == [False, True]


def test_window_past_the_period_forgets() -> None:
    window = Window(1, 5)
    assert [window.add(0), window.add(5.001)] == [False, False]


def test_window_of_intensity_zero_trips_at_once() -> None:
    assert Window(0, 5).add(0)


def test_restarts_outlive_bounds_that_are_narrow_for_a_while() -> None:
    window = Window(2, 10)
    window.add(0)
    window.add(0)
    wide = window.resized(0, 10).resized(2, 10)
    assert wide.add(1) is True
