"""Restarting children of a real root by request, and children that say how they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.bus.errors import RemoteError
from tests.unit.supervisor.harness import RootUnderTest, child, forest, short_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def pids(root: RootUnderTest) -> dict[str, Any]:
    return {name: row["pid"] for name, row in root.children().items()}


def test_restart_of_a_child_answers_with_the_new_pid_and_leaves_siblings_alone(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), child("b")]) as root:
        before = pids(root)
        answer = root.ask("root", "Restart", {"child": "a"})
        after = pids(root)
        assert answer == {"child": "a", "ready": True, "pid": after["a"]}
        assert after["a"] != before["a"]
        assert after["b"] == before["b"]
        assert root.ask("root", "Reports")["reports"] == []


def test_restart_of_a_supervisor_restarts_everything_below_it(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), forest(child("f-0"), child("f-1"))]) as root:
        before = pids(root)
        assert root.ask("root", "Restart", {"child": "forest"})["ready"]
        after = pids(root)
        assert after["a"] == before["a"]
        assert not {after["f-0"], after["f-1"]} & set(before.values())


def test_restart_of_an_unknown_child_is_refused_with_the_allowed_ones(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")]) as root, pytest.raises(RemoteError, match="'z'; allowed: a"):
        root.ask("root", "Restart", {"child": "z"})


def test_restart_that_fails_says_why_and_the_child_is_retried(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "once")]) as root:
        answer = root.ask("root", "Restart", {"child": "a"})
        assert answer == {"child": "a", "ready": False, "reason": "exit 1, before it was ready"}
        (directory / "state" / "a.started").unlink()
        root.until(lambda rows: rows["a"]["state"] == "ready")


def test_rolling_restart_takes_every_process_in_start_order(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), forest(child("f-0"), child("f-1")), child("b")]) as root:
        before = pids(root)
        answer = root.ask("root", "RestartRolling")
        assert answer == {"restarted": ["a", "f-0", "f-1", "b"], "failed": None, "left": []}
        assert not set(pids(root).values()) & set(before.values())


def test_rolling_restart_stops_at_the_first_child_that_does_not_get_ready(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), child("b", "once"), child("c")]) as root:
        before = pids(root)
        answer = root.ask("root", "RestartRolling")
        failed = {"child": "b", "ready": False, "reason": "exit 1, before it was ready"}
        assert answer == {"restarted": ["a"], "failed": failed, "left": ["c"]}
        assert pids(root)["c"] == before["c"]


def test_transient_child_that_leaves_on_purpose_stays_down_with_its_reason(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "leave", restart="transient"), child("b")]) as root:
        root.ask("a", "Stop")
        root.until(lambda rows: rows["a"]["state"] == "stopped")
        assert root.children()["a"]["last_exit"] == "all is said"
        assert root.ask("root", "Reports")["reports"] == []


def test_child_with_nothing_to_do_is_stopped_and_no_failure(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "nothing"), child("b")]) as root:
        row = root.children()["a"]
        assert (row["state"], row["restarts"], row["pid"]) == ("stopped", 0, None)
        assert root.ask("root", "Reports")["reports"] == []
