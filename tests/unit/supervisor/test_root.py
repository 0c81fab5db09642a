"""A real root: what it prints, refuses, serves and leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor import linux
from supervisor.root import EXIT_CONFLICT, EXIT_INVALID
from supervisor.runtime import Conflict, lock
from tests.unit.supervisor.harness import RootUnderTest, child, forest, short_directory

FOREIGN = ("pydantic", "uvloop", "actors", "pykka", "orjson", "starlette", "httpx", "apsw", "uvicorn")


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def test_root_with_all_children_ready_prints_the_banner_and_lists_them(directory: Path) -> None:
    children = [child("keeper"), forest(child("forest-0"), child("forest-1")), child("edge")]
    listen = [{"name": "api", "for": ["edge"]}, {"name": "control", "kind": "unix", "path": "c.sock", "for": []}]
    with RootUnderTest(directory, children, listen=listen, banner=["API {url} at {control}"]) as root:
        answer = root.ask("root", "Children")
        address = answer["sockets"]["api"]
        assert root.lines == [f"API http://{address} at {root.runtime_dir}/c.sock", "treewarden: all children ready"]
        assert [row["id"] for row in answer["children"]] == ["keeper", "forest-0", "forest-1", "edge"]
        assert {row["state"] for row in answer["children"]} == {"ready"}
        assert [row["restarts"] for row in answer["children"]] == [0, 0, 0, 0]
        assert [row["supervisor"] for row in answer["children"]] == ["root", "forest", "forest", "root"]
        assert (answer["pid"], answer["state"]) == (root.process.pid, "running")


def test_root_runtime_files_are_private(directory: Path) -> None:
    listen = [{"name": "control", "kind": "unix", "path": "c.sock", "for": ["a"]}]
    with RootUnderTest(directory, [child("a")], listen=listen) as root:
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (root.runtime_dir, root.runtime_dir / "bus")]
        assert modes == [0o700, 0o700]
        assert stat.S_IMODE((root.runtime_dir / "c.sock").stat().st_mode) == 0o600


def test_running_root_has_imported_nothing_foreign(directory: Path) -> None:
    spy = (
        "import sys; from supervisor.root import main; code = main(sys.argv[1:]);"
        "print(' '.join(sorted(sys.modules))); sys.exit(code)"
    )
    with RootUnderTest(directory, [child("a")], command=[sys.executable, "-c", spy]) as root:
        root.process.send_signal(signal.SIGTERM)
        out, _ = root.process.communicate(timeout=15)
    modules = {name.partition(".")[0] for name in out.split()}
    assert "supervisor" in modules
    assert modules.isdisjoint(FOREIGN)


def test_sigterm_stops_everything_in_under_two_seconds_and_leaves_nothing(directory: Path) -> None:
    children = [child("a"), forest(*[child(f"forest-{n}") for n in range(3)]), child("b")]
    listen = [{"name": "control", "kind": "unix", "path": "c.sock", "for": ["a"]}]
    with RootUnderTest(directory, children, listen=listen) as root:
        deaths = root.watch_all()
        code, took_s = root.end()
        assert (code, took_s < 2) == (0, True)
        assert len(deaths) == 6
        assert all(death.within(0) for death in deaths)
        assert sorted(path.name for path in root.runtime_dir.iterdir()) == ["bus", "children.json", "root.lock"]
        assert list((root.runtime_dir / "bus").iterdir()) == []


def test_stopped_children_are_continued_and_end_in_under_two_seconds(directory: Path) -> None:
    with RootUnderTest(directory, [child(name) for name in "abcd"]) as root:
        for row in root.children().values():
            os.kill(row["pid"], signal.SIGSTOP)
        code, took_s = root.end()
        assert (code, took_s < 2) == (0, True)
        assert "killed" not in root.stderr()


def test_second_sigterm_a_second_later_kills_at_once_and_quietly(directory: Path) -> None:
    children = [child("a"), child("b"), child("c", "stubborn", shutdown="infinity")]
    with RootUnderTest(directory, children) as root:
        deaths = root.watch_all()
        root.process.send_signal(signal.SIGTERM)
        later = time.monotonic() + 1.1
        root.until(lambda _rows: root.ask("root", "Children")["state"] == "stopping" and time.monotonic() > later)
        code, took_s = root.end()
        assert (code, took_s < 1) == (1, True)
        assert all(death.within(1) for death in deaths)
        assert "told to stop again" in root.stderr()
        assert "Task was destroyed" not in root.stderr()
        assert "Traceback" not in root.stderr()


def test_two_signals_within_a_second_are_one_request_to_stop(directory: Path) -> None:
    with RootUnderTest(directory, [child("a"), child("b", "stubborn", shutdown=600)]) as root:
        root.process.send_signal(signal.SIGINT)
        root.until(lambda _rows: root.ask("root", "Children")["state"] == "stopping")
        assert root.end(signal.SIGINT)[0] == 0
        assert "told to stop again" not in root.stderr()


def test_sigterm_while_the_fork_server_still_imports_stops_at_once(directory: Path) -> None:
    preload = ["tests.unit.supervisor.endless_import"]
    with RootUnderTest(directory, [child("a")], wait=False, preload=preload) as root:
        root.until(lambda rows: rows["a"]["state"] == "starting")
        deaths = root.watch_all()
        code, took_s = root.end()
        assert (code, took_s < 1) == (0, True)
        assert all(death.within(0) for death in deaths)


def test_killed_root_leaves_no_orphan_and_the_next_start_recovers(directory: Path) -> None:
    children = [child("a"), child("b", "orphaning")]
    with RootUnderTest(directory, children) as root:
        deaths = root.watch_all()
        assert root.end(signal.SIGKILL)[0] == -signal.SIGKILL
        assert all(death.within(2) for death in deaths)
    with RootUnderTest(directory, children) as root:
        assert {row["state"] for row in root.children().values()} == {"ready"}


def test_second_root_in_the_same_runtime_directory_is_refused(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")]) as root:
        again = RootUnderTest(directory, [child("a")], wait=False)
        with again:
            assert again.process.wait(15) == EXIT_CONFLICT
        sentence = f"another treewarden (pid {root.process.pid}) runs in {root.runtime_dir}; stop it, or choose another"
        assert sentence in root.stderr()
        assert root.children()["a"]["state"] == "ready"


def test_second_root_over_the_same_state_directory_is_refused(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")]) as root:
        state = str(directory / "state")
        (directory / "other").mkdir()
        with RootUnderTest(directory / "other", [child("a")], wait=False, state_dir=state) as again:
            assert again.process.wait(15) == EXIT_CONFLICT
            sentence = f"(pid {root.process.pid}) runs in {state}; stop it, or choose another state directory"
            assert sentence in again.stderr()


def test_lock_is_taken_where_nothing_can_be_written(directory: Path) -> None:
    """A full disk at the start is answered by the keeper, not by the lock."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        held = lock(directory, "treewarden", "state directory")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(Conflict, match="pid unknown"):
        lock(directory, "treewarden", "state directory")
    os.close(held)


def test_port_that_is_taken_is_refused_with_a_sentence(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        listen = [{"name": "api", "port": port, "for": ["a"]}]
        with RootUnderTest(directory, [child("a")], listen=listen, wait=False) as root:
            assert root.process.wait(15) == EXIT_CONFLICT
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in root.stderr()


def test_plan_that_is_not_valid_is_refused_with_a_sentence(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", restart="never")], wait=False) as root:
        assert root.process.wait(15) == EXIT_INVALID
        assert "a: restart is 'never'; allowed: permanent, transient, temporary" in root.stderr()


def test_plan_is_read_from_a_descriptor(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")]):
        pass
    with open(directory / "plan.json", encoding="utf-8") as plan:
        command = [sys.executable, "-m", "supervisor.root", "--plan-fd", str(plan.fileno())]
        found = subprocess.Popen(
            command, pass_fds=[plan.fileno()], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
    assert found.stdout is not None
    assert found.stdout.readline() == b"treewarden: all children ready\n"
    found.terminate()
    found.communicate()
    assert found.returncode == 0


def test_runtime_directory_that_takes_no_file_does_not_stop_supervision(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")]) as root:
        # a directory in the way fails the write for every user, as a full disk would
        (root.runtime_dir / "children.new").mkdir()
        assert root.kill("a") < 1
        assert root.end()[0] == 0
        assert f"cannot write {root.runtime_dir}/children.json: Is a directory" in root.stderr()


def test_stdout_that_nobody_reads_does_not_stop_the_start(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")], wait=False) as root:
        assert root.process.stdout is not None
        root.process.stdout.close()
        root.process.stdout = None
        root.until(lambda _rows: root.ask("root", "Children")["state"] == "running")
        assert root.end()[0] == 0


def test_leftover_of_an_earlier_root_is_killed_but_not_its_namesake(directory: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    ours, other = (subprocess.Popen(sleeper, start_new_session=True) for _ in range(2))
    try:
        rows = [
            {"id": "old", "pid": ours.pid, "start": linux.start_time(ours.pid)},
            {"id": "reused", "pid": other.pid, "start": 1},
        ]
        (directory / "run").mkdir()
        (directory / "run" / "children.json").write_text(json.dumps({"boot": linux.boot_id(), "children": rows}))
        with RootUnderTest(directory, [child("a")]) as root:
            assert ours.wait(5) == -signal.SIGKILL
            assert other.poll() is None
            assert "killed old, left over by an earlier root" in root.stderr()
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()


def test_stale_sockets_of_a_killed_root_are_replaced(directory: Path) -> None:
    listen = [{"name": "control", "kind": "unix", "path": "c.sock", "for": ["a"]}]
    with RootUnderTest(directory, [child("a")], listen=listen) as root:
        root.end(signal.SIGKILL)
        assert (root.runtime_dir / "c.sock").is_socket()
    with RootUnderTest(directory, [child("a")], listen=listen) as root, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(root.runtime_dir / "c.sock"))


def test_file_in_the_way_of_a_socket_is_kept_and_root_refuses(directory: Path) -> None:
    (directory / "run").mkdir()
    (directory / "run" / "c.sock").write_text("precious")
    listen = [{"name": "control", "kind": "unix", "path": "c.sock", "for": ["a"]}]
    with RootUnderTest(directory, [child("a")], listen=listen, wait=False) as root:
        assert root.process.wait(15) == EXIT_CONFLICT
        assert "c.sock is in the way and is no socket of user" in root.stderr()
    assert (directory / "run" / "c.sock").read_text() == "precious"


def test_essential_child_that_never_gets_ready_makes_root_give_up(directory: Path) -> None:
    plan = {"essential": ["bad"], "give_up_s": 0.5}
    with RootUnderTest(directory, [child("good"), child("bad", "crash")], wait=False, **plan) as root:
        assert root.process.wait(15) == 1
        assert "giving up: essential child bad was not ready for 0.5 s" in root.stderr()


def test_systemd_hears_ready_status_watchdog_and_stopping_and_children_do_not_speak(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(15)
        environment = {"NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "600000"}
        with RootUnderTest(directory, [child("a", "inspect")], environment=environment, essential=["a"]) as root:
            assert "STATUS=0 of 1 children ready; a starting" in hear(manager, "READY=1\nSTATUS=1 child ready")
            hear(manager, "WATCHDOG=1")
            assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & set(root.ask("a", "Inspect")["environment"])
            root.end()
            assert "STOPPING=1\nSTATUS=stopping" in hear(manager, "STOPPING=1\nSTATUS=stopping")


def test_watchdog_is_not_fed_while_an_essential_child_is_silent(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(15)
        environment = {"NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "600000"}
        with RootUnderTest(directory, [child("a")], environment=environment, essential=["a"]) as root:
            hear(manager, "WATCHDOG=1")
            os.kill(root.children()["a"]["pid"], signal.SIGSTOP)
            assert "WATCHDOG=1" not in heard_in(manager, 4.0)


def heard_in(manager: socket.socket, seconds: float) -> list[str]:
    """Everything said from the third second on: until then the last answer may still count."""
    said: list[tuple[float, str]] = []
    begin = time.monotonic()
    while (left := begin + seconds - time.monotonic()) > 0:
        manager.settimeout(left)
        with contextlib.suppress(TimeoutError):
            said.append((time.monotonic() - begin, manager.recv(4096).decode("ascii")))
    return [text for at, text in said if at > 3]


def hear(manager: socket.socket, wanted: str) -> list[str]:
    said: list[str] = []
    while wanted not in said:
        said.append(manager.recv(4096).decode("ascii"))
    return said
