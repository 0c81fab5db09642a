"""Reload as systemd sees it: RELOADING, then READY whatever came of it, and a status line that says something."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.bus.errors import RemoteError
from supervisor.headline import status_line
from supervisor.strategy import ChildState, Standing
from tests.unit.supervisor.harness import REPOSITORY, RootUnderTest, child, short_directory


class Manager:
    """The receiving end of sd_notify."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        self._socket.settimeout(15)

    def until(self, holds: Callable[[str], bool]) -> list[str]:
        said: list[str] = []
        while not said or not holds(said[-1]):
            said.append(self._socket.recv(4096).decode("ascii"))
        return said

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def running() -> Iterator[tuple[RootUnderTest, Manager]]:
    with short_directory() as directory, contextlib.closing(Manager(directory)) as manager:
        environment = {"NOTIFY_SOCKET": str(directory / "notify")}
        with RootUnderTest(directory, [child("a", "reloads")], environment=environment, reloads="a") as root:
            manager.until(lambda text: text == "STATUS=1 child ready; 12 trees, 1 stalling")
            yield root, manager


def test_hangup_reloads_and_says_so_in_one_datagram_before_ready() -> None:
    with running() as (root, manager):
        before = time.monotonic_ns() // 1000
        root.process.send_signal(signal.SIGHUP)
        said = manager.until(lambda text: text.startswith("READY=1"))
        (reloading,) = [text for text in said if "RELOADING" in text]
        word, stamp = reloading.split("\n")
        assert word == "RELOADING=1"
        assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
        assert said[-1] == "READY=1\nSTATUS=1 child ready; 12 trees, 1 stalling"
        assert "settings reloaded: version 1" in root.stderr()


def test_hangup_with_bad_settings_is_ready_again_with_the_reason_until_one_succeeds() -> None:
    with running() as (root, manager):
        broken = root.directory / "state" / "broken"
        broken.touch()
        root.process.send_signal(signal.SIGHUP)
        failed = manager.until(lambda text: text.startswith("READY=1"))[-1]
        assert failed.endswith("reload failed, settings as before: progress.mode = 5 must be caf?; second")
        assert "reload failed, settings as before" in root.stderr()
        broken.unlink()
        root.process.send_signal(signal.SIGHUP)
        assert "failed" not in manager.until(lambda text: text.startswith("READY=1"))[-1]


def test_reload_over_the_bus_answers_what_the_child_answered_or_refused() -> None:
    with running() as (root, manager):
        asked = {"uid": 7, "note": "me"}
        assert root.ask("root", "Reload", asked) == {"version": 1, "asked": asked}
        manager.until(lambda text: text.startswith("READY=1"))
        (root.directory / "state" / "broken").touch()
        with pytest.raises(RemoteError) as refusal:
            root.ask("root", "Reload", asked)
        assert (refusal.value.code, refusal.value.detail[1]) == ("invalid", "second")


def test_reload_with_its_child_gone_fails_and_root_serves_on() -> None:
    with running() as (root, manager):
        os.kill(root.children()["a"]["pid"], signal.SIGKILL)
        root.process.send_signal(signal.SIGHUP)
        manager.until(lambda text: text.startswith("READY=1"))
        root.until(lambda rows: rows["a"]["restarts"] == 1 and rows["a"]["state"] == "ready")


def test_reload_while_a_child_never_gets_ready_is_answered_all_the_same() -> None:
    with short_directory() as directory:
        children = [child("a", "reloads"), child("b", "crash")]
        with RootUnderTest(directory, children, reloads="a", wait=False) as root:
            root.until(lambda rows: rows["a"]["state"] == "ready" and rows["b"]["restarts"] >= 1)
            assert root.ask("root", "Reload", {"uid": 7, "note": "me"})["version"] == 1
            assert root.end()[0] == 0


def test_hangup_without_a_child_that_reloads_stops_root() -> None:
    with short_directory() as directory, RootUnderTest(directory, [child("a")]) as root:
        assert root.end(signal.SIGHUP)[0] == 0


def test_hangup_from_a_terminal_that_is_gone_stops_root() -> None:
    with short_directory() as directory:
        own_terminal = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        start = f"{own_terminal} os.execv(sys.executable, sys.argv[1:])"
        command = [sys.executable, "-m", "supervisor.root", "--plan", str(directory / "plan.json")]
        with RootUnderTest(directory, [child("a", "reloads")], reloads="a", wait=False) as plan:
            plan.process.kill()
            plan.process.wait()
        master, slave = pty.openpty()
        root = subprocess.Popen(
            [sys.executable, "-c", start, *command],
            cwd=REPOSITORY,
            stdin=slave,
            stdout=slave,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            os.close(slave)
            said = b""
            while b"all children ready" not in said:
                said += os.read(master, 4096)
            os.close(master)
            assert root.wait(15) == 0
        finally:
            root.kill()
            root.wait()


def test_status_line_names_those_that_are_away_then_the_headline_then_the_problem() -> None:
    standings = [Standing("a", ChildState.READY, 1, False), Standing("b", ChildState.BACKOFF, 2, False)]
    assert status_line(standings, 2, "3 trees", "bad") == "1 of 2 children ready; b backoff; 3 trees; bad"


def test_headline_that_is_no_headline_is_refused() -> None:
    with running() as (root, _manager), pytest.raises(RemoteError, match="invalid"):
        root.ask("root", "Headline", {"text": "who says so?"})
