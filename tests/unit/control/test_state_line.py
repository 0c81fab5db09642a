"""The line that a person at the terminal reads now and then."""

import pytest

from actors.state_line import state_line

TREES = {"total": 3, "by_verdict": {"ok": 2, "stalling": 1, "looping": 0}}
NOTHING = {"servers": [], "stores": [], "plugins": []}


def test_line_tells_mode_trees_and_what_is_seen():
    seen = {
        "servers": [{"url": "http://127.0.0.1:4096", "ok": True}, {"url": "http://127.0.0.1:9", "ok": False}],
        "stores": [{"kind": "sqlite"}],
        "plugins": [{"source": "opencode-plugin", "version": "0.0.9", "stale": True}],
    }
    assert state_line("warn", TREES, seen) == (
        "mode warn; trees 3 (2 ok, 1 stalling, 0 looping); opencode servers: http://127.0.0.1:4096; stores: sqlite; "
        "plugin: opencode-plugin 0.0.9 (stale)"
    )


@pytest.mark.parametrize(
    ("trees", "seen", "words"),
    [
        (TREES, NOTHING, "plugin: none has reported (treewarden install-plugin opencode)"),
        (TREES, {"error": "no answer"}, "clients does not answer: no answer"),
        ({"total": None, "by_verdict": {}, "error": "disk"}, NOTHING, "trees unknown (disk)"),
    ],
)
def test_line_says_what_is_missing(trees, seen, words):
    assert words in state_line("warn", trees, seen)
