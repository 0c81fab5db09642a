"""The words of the application in `systemctl status`."""

import pytest

from actors.state_line import headline


@pytest.mark.parametrize(
    ("total", "by_verdict", "words"),
    [
        (0, {"ok": 0, "stalling": 0, "looping": 0}, "0 trees"),
        (1, {"ok": 1, "stalling": 0, "looping": 0}, "1 tree"),
        (12, {"ok": 9, "stalling": 1, "looping": 2}, "12 trees, 1 stalling, 2 looping"),
        (None, {}, "trees unknown"),
    ],
)
def test_headline_counts_trees_and_those_that_are_flagged(total, by_verdict, words):
    assert headline({"total": total, "by_verdict": by_verdict}) == words
