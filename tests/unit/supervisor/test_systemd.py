from __future__ import annotations

import os
import socket
import sys

import pytest

from supervisor.listeners import bind_all
from supervisor.plan import Listen
from supervisor.systemd import Adopted, Systemd
from tests.unit.supervisor.harness import RootUnderTest, child, short_directory


def test_everything_of_systemd_is_taken_out_of_the_environment() -> None:
    environment = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1", "LISTEN_PID": "1", "HOME": "/"}
    Systemd(environment)
    assert environment == {"HOME": "/"}


def test_watchdog_of_another_process_or_none_is_no_watchdog() -> None:
    assert Systemd({}).watchdog_s is None
    assert Systemd({"WATCHDOG_USEC": "0"}).watchdog_s is None
    assert Systemd({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}).watchdog_s is None
    assert Systemd({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 30


def test_sockets_for_another_process_are_not_adopted() -> None:
    assert Systemd({"LISTEN_FDS": "1", "LISTEN_PID": "1"}).adopt() == []


def test_socket_that_is_not_there_never_raises() -> None:
    Systemd({"NOTIFY_SOCKET": "/nowhere/at/all"}).ready("fine")


def test_status_is_one_ascii_line_and_not_repeated() -> None:
    with short_directory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "n"))
        manager.settimeout(5)
        systemd = Systemd({"NOTIFY_SOCKET": str(directory / "n")})
        systemd.status("caf\u00e9\nclosed")
        systemd.status("caf\u00e9\nclosed")
        systemd.stopping("bye")
        assert [manager.recv(100), manager.recv(100)] == [b"STATUS=caf? closed", b"STOPPING=1\nSTATUS=bye"]


def test_status_of_any_length_does_not_lose_the_word_ready() -> None:
    with short_directory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "n"))
        manager.settimeout(5)
        Systemd({"NOTIFY_SOCKET": str(directory / "n")}).ready("no knob; " * 100_000)
        said = manager.recv(10_000)
        assert said.startswith(b"READY=1\nSTATUS=no knob")
        assert said.endswith(b" ...")


def adopted(name: str, found: socket.socket) -> Adopted:
    found.listen()
    return Adopted(name, found)


def test_sockets_of_one_unit_share_a_name_and_are_told_apart_by_address() -> None:
    with short_directory() as directory:
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(directory / "control.sock"))
        tcp = socket.create_server(("127.0.0.1", 0))
        given = [adopted("treewarden.socket", unix), adopted("treewarden.socket", tcp)]
        port = tcp.getsockname()[1]
        listens = [Listen("http", port=port), Listen("control", kind="unix", path="control.sock")]
        bound = bind_all(listens, directory, given)
        assert (bound["http"].socket, bound["control"].socket) == (tcp, unix)
        for listener in bound.values():
            assert not listener.ours
            listener.close()
        assert (directory / "control.sock").exists()


def test_port_of_the_socket_unit_beats_that_of_the_plan_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with short_directory() as directory:
        tcp = socket.create_server(("127.0.0.1", 0))
        bound = bind_all([Listen("http", port=1)], directory, [adopted("treewarden.socket", tcp)])
        assert bound["http"].socket is tcp
        assert (
            f"socket http: systemd listens on ('127.0.0.1', {tcp.getsockname()[1]}), not ('127.0.0.1', 1)"
            in caplog.text
        )
        bound["http"].close()


def test_socket_that_nobody_listens_on_is_closed_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with short_directory() as directory:
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(directory / "other.sock"))
        control = Listen("control", kind="unix", path="control.sock")
        bound = bind_all([control], directory, [adopted("treewarden.socket", unix)])
        assert bound["control"].ours
        assert unix.fileno() == -1
        assert "other.sock, which is no socket of the plan" in caplog.text
        bound["control"].close()


def test_socket_that_systemd_bound_is_handed_to_the_child() -> None:
    activate = (
        "import os, socket, sys; found = socket.create_server(('127.0.0.1', 0));"
        "os.dup2(found.fileno(), 3); os.set_inheritable(3, True);"
        "os.environ |= {'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid()), 'LISTEN_FDNAMES': 'api'};"
        "os.execv(sys.executable, [sys.executable, '-m', 'supervisor.root', *sys.argv[1:]])"
    )
    listen = [{"name": "api", "port": 1, "for": ["edge"]}]  # port 1: root itself would bind just that
    command = [sys.executable, "-c", activate]
    with (
        short_directory() as directory,
        RootUnderTest(directory, [child("edge", "echo")], listen=listen, command=command) as root,
    ):
        host, port = root.ask("root", "Children")["sockets"]["api"].split(":")
        assert port != "1"
        with socket.create_connection((host, int(port)), timeout=5) as client:
            assert client.recv(100) == f"{root.children()['edge']['pid']}\n".encode()
