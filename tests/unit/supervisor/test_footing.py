"""A real root whose runtime directory, or a part of it, is taken away while it runs."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.supervisor.harness import RootUnderTest, child, short_directory

LISTEN = [{"name": "api", "for": ["a"]}, {"name": "control", "kind": "unix", "path": "c.sock", "for": ["a"]}]
LOSSES: dict[str, Callable[[Path], None]] = {
    "everything": shutil.rmtree,
    "bus": lambda runtime: shutil.rmtree(runtime / "bus"),
    "root.sock": lambda runtime: (runtime / "bus" / "root.sock").unlink(),
    "c.sock": lambda runtime: (runtime / "c.sock").unlink(),
}


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def plan(**more: Any) -> dict[str, Any]:
    return {"listen": LISTEN, "settings": {"version": 1, "values": {"x": 1}}, **more}


@pytest.mark.parametrize("loss", LOSSES)
def test_root_whose_files_are_removed_starts_over_and_is_whole_again(directory: Path, loss: str) -> None:
    with RootUnderTest(directory, [child("a", "echo"), child("b", "inspect")], **plan()) as root:
        host, port = root.ask("root", "Children")["sockets"]["api"].split(":")
        root.ask("root", "SettingsRendered", {"version": 2, "values": {"x": 2}})
        deaths = root.watch_all()
        LOSSES[loss](root.runtime_dir)
        root.await_ready()
        assert all(death.within(0) for death in deaths)
        assert root.process.poll() is None
        assert "under the running daemon, which starts over" in root.stderr()
        [report] = root.ask("root", "Reports")["reports"]
        assert (report["context"], report["offender"]) == ("started_over", "root")
        assert report["reason"].endswith("was removed")
        assert root.ask("root", "Children")["sockets"]["api"] == f"{host}:{port}"
        assert root.ask("b", "Inspect")["settings"] == {"x": 2}
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(root.runtime_dir / "c.sock"))
        root.kill("b")
        code, took_s = root.end()
        assert (code, took_s < 2) == (0, True)
        assert "systemd" not in root.stderr()
        assert "Traceback" not in root.stderr()


def test_client_that_connects_while_root_starts_over_waits_in_the_backlog(directory: Path) -> None:
    with RootUnderTest(directory, [child("a", "echo")], **plan()) as root:
        host, port = root.ask("root", "Children")["sockets"]["api"].split(":")
        [gone] = root.watch(root.children()["a"]["pid"])
        (root.runtime_dir / "c.sock").unlink()
        assert gone.within(10)
        with socket.create_connection((host, int(port)), timeout=10) as client:
            assert int(client.recv(100)) > 0


def test_root_told_to_stop_while_it_starts_over_stops(directory: Path) -> None:
    children = [child("a"), child("b", "stubborn", shutdown=1500)]
    with RootUnderTest(directory, children, listen=[{**one, "for": ["a"]} for one in LISTEN]) as root:
        (root.runtime_dir / "c.sock").unlink()
        root.until(lambda _rows: root.ask("root", "Children")["state"] == "stopping")
        assert root.end()[0] == 0


def test_systemd_hears_of_the_new_start_and_no_stop(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(15)
        environment = {"NOTIFY_SOCKET": str(directory / "notify"), "WATCHDOG_USEC": "6000000"}
        with RootUnderTest(directory, [child("a")], environment=environment, listen=[]) as root:
            heard = hear_until(manager, "READY=1\nSTATUS=1 child ready")
            shutil.rmtree(root.runtime_dir)
            heard = hear_until(manager, "READY=1\nSTATUS=1 child ready")
            assert f"STATUS=starting over: {root.runtime_dir} was removed" in heard
            assert not [said for said in heard if said.startswith("STOPPING")]
            hear_until(manager, "WATCHDOG=1")


def hear_until(manager: socket.socket, wanted: str) -> list[str]:
    said: list[str] = []
    while wanted not in said:
        said.append(manager.recv(4096).decode("ascii"))
    return said


def test_root_that_loses_its_files_again_and_again_gives_up(directory: Path) -> None:
    with RootUnderTest(directory, [child("a")], listen=[]) as root:
        for _ in range(3):
            shutil.rmtree(root.runtime_dir)
            root.await_ready()
        shutil.rmtree(root.runtime_dir)
        assert root.process.wait(15) == 1
        assert f"giving up: {root.runtime_dir} was removed, more than 3 times in 10 minutes" in root.stderr()
