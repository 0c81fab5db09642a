"""Real children under a real root: death, silence, restarts, sockets, logs."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.supervisor.harness import RootUnderTest, child, short_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def forkserver_of(root: RootUnderTest) -> int:
    below = Path(f"/proc/{root.process.pid}/task/{root.process.pid}/children").read_text().split()
    return next(int(pid) for pid in below if Path(f"/proc/{pid}/comm").read_text() == "forkserver\n")


def test_killed_child_serves_again_in_under_a_second_and_siblings_stay(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), child("b")]) as root:
        before = root.children()
        assert all(root.kill("a") < 1 for _ in range(3))
        after = root.children()
        assert after["a"]["restarts"] == 3
        assert after["a"]["last_exit"] == "killed by SIGKILL"
        assert after["b"] == before["b"]


def test_child_of_root_leads_its_own_session_and_gets_args_and_settings(directory: Path) -> None:
    spec = child("a", "inspect", args={"shards": 2})
    with RootUnderTest(directory, [spec], settings={"version": 1, "values": {"x": 1}}) as root:
        facts, pid = root.ask("a", "Inspect"), root.children()["a"]["pid"]
        assert (facts["args"], facts["settings"]) == ({"shards": 2}, {"x": 1})
        assert (facts["sid"], facts["ppid"]) == (pid, root.process.pid)
        assert Path(f"/proc/{pid}/comm").read_text() == "a\n"


def test_settings_rendered_later_reach_the_next_start(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "inspect")]) as root:
        root.ask("root", "SettingsRendered", {"version": 2, "values": {"x": 2}})
        root.kill("a")
        assert root.ask("a", "Inspect")["settings"] == {"x": 2}


def test_child_that_misses_its_heartbeats_is_killed_and_restarted(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "deaf", heartbeat_deadline_s=0.5)]) as root:
        root.until(lambda rows: rows["a"]["restarts"] >= 1)
        assert root.children()["a"]["last_exit"] == "heartbeat missed for 0.5 s"


def test_stopped_process_is_silent_and_killed_like_a_dead_one(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", heartbeat_deadline_s=0.5)]) as root:
        os.kill(root.children()["a"]["pid"], signal.SIGSTOP)
        root.until(lambda rows: rows["a"]["restarts"] == 1 and rows["a"]["state"] == "ready")


def test_child_that_does_not_get_ready_in_time_is_killed(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "never_ready", ready_timeout_s=0.3)], wait=False) as root:
        root.until(lambda rows: rows["a"]["restarts"] >= 1)
        assert root.children()["a"]["last_exit"] == "not ready in 0.3 s"


def test_killed_forkserver_is_replaced_and_children_can_be_restarted(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), child("b")]) as root:
        before = root.children()
        os.kill(forkserver_of(root), signal.SIGKILL)
        os.kill(before["a"]["pid"], signal.SIGKILL)
        root.until(lambda rows: rows["a"]["restarts"] >= 1 and rows["a"]["state"] == "ready")
        assert root.children()["b"] == before["b"]


def test_restart_of_the_listening_child_refuses_no_connection(directory: Path) -> None:
    with RootUnderTest(directory, [child("edge", "echo")], listen=[{"name": "api", "for": ["edge"]}]) as root:
        host, port = root.ask("root", "Children")["sockets"]["api"].split(":")
        refused: list[str] = []
        stop = threading.Event()

        def keep_asking() -> None:
            while not stop.is_set():
                try:
                    with socket.create_connection((host, int(port)), timeout=5) as client:
                        client.recv(100)
                except ConnectionRefusedError as error:
                    refused.append(str(error))
                except ConnectionResetError:
                    pass  # accepted by the process that was killed

        asker = threading.Thread(target=keep_asking)
        asker.start()
        for _ in range(3):
            root.kill("edge")
        stop.set()
        asker.join()
        assert refused == []


def test_child_that_ignores_every_request_is_killed_with_its_group_in_its_budget(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "stubborn", shutdown=600)]) as root:
        deaths = root.watch_all()
        code, took_s = root.end()
        assert (code, 0.5 < took_s < 1.5) == (0, True)
        assert len(deaths) == 3
        assert all(death.within(1) for death in deaths)


def test_killed_child_takes_its_process_group_along(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "parent")]) as root:
        [helper] = root.watch(root.ask("a", "Helper"))
        root.kill("a")
        assert helper.within(1)


def test_crash_is_reported_with_its_last_log_lines(directory: Path) -> None:
    supervisor = {"intensity": 1, "backoff": {"base_s": 0.01}}
    with RootUnderTest(directory, [child("a", "crash")], wait=False, supervisor=supervisor) as root:
        root.until(lambda rows: rows["a"]["slow"])
        answer = root.ask("root", "Reports")
        first = answer["reports"][0]
        assert (first["supervisor"], first["context"], first["offender"]) == ("root", "start_error", "a")
        assert first["reason"] == "exit 1, before it was ready"
        assert first["log"][0] == "about to fail"
        assert any("no such luck" in line for line in first["log"])
        assert answer["deaths"] == {"a": 2}
        assert "slow_retry" in [report["context"] for report in answer["reports"]]
        assert "about to fail\n" in root.stderr()


def test_transient_child_that_ends_normally_is_not_restarted(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", restart="transient"), child("b")]) as root:
        root.ask("a", "Stop")
        root.until(lambda rows: rows["a"]["state"] == "stopped")
        assert (root.children()["a"]["restarts"], root.children()["a"]["pid"]) == (0, None)


def test_process_left_behind_by_a_child_is_reaped_by_root(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "orphaning")]) as root:
        root.kill("a")
        root.until(lambda _rows: zombies(root.process.pid) == [])


def zombies(pid: int) -> list[str]:
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    stats = [Path(f"/proc/{child}/stat").read_text() for child in below]
    return [stat for stat in stats if stat.rpartition(")")[2].split()[0] == "Z"]


def test_ready_of_an_unknown_child_is_refused(directory: Path) -> None:
    from supervisor.bus.errors import RemoteError

    with RootUnderTest(directory, [child("a")]) as root, pytest.raises(RemoteError, match="unknown_child"):
        root.ask("root", "Ready", {"child": "z", "pid": 1})


def leave_free(root: RootUnderTest, count: int) -> None:
    """Let root open ``count`` descriptors more, no matter how many it has; closed ones count as well."""
    used = {int(name) for name in os.listdir(f"/proc/{root.process.pid}/fd")}
    free = [fd for fd in range(max(used) + count + 2) if fd not in used]
    limit = free[count]
    resource.prlimit(root.process.pid, resource.RLIMIT_NOFILE, (limit, 4096))


@pytest.mark.parametrize("count", range(4))
def test_root_without_descriptors_retries_and_ends_cleanly(directory: Path, count: int) -> None:
    supervisor = {"backoff": {"base_s": 0.05, "cap_s": 0.1, "slow_s": 0.1, "slow_cap_s": 0.1}}
    with RootUnderTest(directory, [child("a"), child("b"), child("c")], supervisor=supervisor) as root:
        pids = {name: row["pid"] for name, row in root.children().items()}
        resource.prlimit(root.process.pid, resource.RLIMIT_NOFILE, (3, 4096))
        [gone, *_rest] = root.watch(pids["a"])
        os.kill(pids["a"], signal.SIGKILL)
        assert gone.within(5)
        await_text(root, "too many open files", 2)
        leave_free(root, count)
        await_text(root, "too many open files", 4 + count)
        deaths = root.watch_all()
        assert len(deaths) >= 3
        code, took_s = root.end()
        assert (code, took_s < 2) == (0, True)
        assert all(death.within(1) for death in deaths)
        assert "never retrieved" not in root.stderr()


def test_root_that_has_descriptors_again_serves_again(directory: Path) -> None:
    supervisor = {"backoff": {"base_s": 0.05, "cap_s": 0.1, "slow_s": 0.1, "slow_cap_s": 0.1}}
    with RootUnderTest(directory, [child("a"), child("b")], supervisor=supervisor) as root:
        before = root.children()
        server, pid = forkserver_of(root), before["a"]["pid"]
        resource.prlimit(root.process.pid, resource.RLIMIT_NOFILE, (3, 4096))
        os.kill(pid, signal.SIGKILL)
        await_text(root, "too many open files", 3)
        os.kill(server, signal.SIGKILL)
        await_text(root, "the fork server cannot be started", 1)
        resource.prlimit(root.process.pid, resource.RLIMIT_NOFILE, (1024, 4096))
        root.until(lambda rows: rows["a"]["state"] == "ready" and rows["a"]["pid"] != pid)
        assert root.children()["b"] == before["b"]


def await_text(root: RootUnderTest, text: str, times: int) -> None:
    deadline = time.monotonic() + 15
    while root.stderr().lower().count(text.lower()) < times:
        assert time.monotonic() < deadline, f"{text!r} was not said {times} times"
        threading.Event().wait(0.02)
