"""The fork server: ``python -m supervisor.forkserver FD ROOT_PID MODULE...`` starts children in a few milliseconds.

Root starts it, it imports the modules once and stays single-threaded, so that forking is safe and cheap. Per request it
forks twice; the intermediate process ends at once, the grandchild is adopted by root (a subreaper), waits until it is,
ties its life to root's (parent-death signal), leads its own session, says its pid, and runs the child.
Blocking: requests are served one after another. Crash guarantees: it dies with root; when it dies its children live on,
root starts another one. A request that fails is answered with a sentence.

Wire, over a SOCK_SEQPACKET pair: request ``{"request": n}`` with descriptors [memfd holding the launch as JSON,
log pipe, listening sockets...]; answer ``{"request": n, "pid": p}`` from the grandchild itself, or
``{"request": n, "error": "..."}``; once after the imports ``{"hello": pid}``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from supervisor import linux

__all__ = ["MAX_FDS", "main"]

MAX_FDS = 250
"""The kernel passes at most 253 descriptors in one message."""

_ADOPTION_S = 10.0


def main(argv: list[str]) -> int:
    """Serve until root closes its end."""
    channel = socket.socket(fileno=int(argv[0]))
    root = int(argv[1])
    linux.die_with_parent(root)
    linux.name_process("forkserver")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _preload(argv[2:])
    gc.collect()
    gc.freeze()  # the modules' objects stay shared between all children: no collector touches their pages
    _answer(channel, {"hello": os.getpid()})
    while _serve(channel, root):
        pass
    return 0


def _preload(modules: list[str]) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # noqa: BLE001 - the child that needs it fails with its own traceback
            sys.stderr.write(f"forkserver: cannot preload {module}\n{traceback.format_exc()}")
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate()[1:])
        sys.stderr.write(f"forkserver: preloading started threads, forks are unsafe: {names}\n")


def _serve(channel: socket.socket, root: int) -> bool:
    data, fds, _flags, _peer = socket.recv_fds(channel, 65536, MAX_FDS)
    if not data:
        return False
    number = json.loads(data)["request"]
    try:
        middle = os.fork()
    except OSError as error:
        _answer(channel, {"request": number, "error": f"fork failed: {error}"})
    else:
        if middle == 0:
            _fork_again(channel, root, number, fds)
        os.waitpid(middle, 0)
    for fd in fds:
        os.close(fd)
    return True


def _fork_again(channel: socket.socket, root: int, number: int, fds: list[int]) -> NoReturn:
    try:
        if os.fork() == 0:
            _be_child(channel, root, number, fds)
    except OSError as error:
        _answer(channel, {"request": number, "error": f"fork failed: {error}"})
    os._exit(0)


def _be_child(channel: socket.socket, root: int, number: int, fds: list[int]) -> NoReturn:
    code = 1
    try:
        code = _run(channel, root, number, fds)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:  # noqa: BLE001 - nothing may unwind into the fork server's own frames
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(channel: socket.socket, root: int, number: int, fds: list[int]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    _await_adoption(root)
    launch = _read_launch(fds[0])
    _wire_output(fds[1])
    linux.name_process(launch["name"])
    _answer(channel, {"request": number, "pid": os.getpid()})
    channel.close()  # or root would never see that the fork server has died
    sockets = {name: socket.socket(fileno=fd) for name, fd in zip(launch["sockets"], fds[2:], strict=True)}
    return _enter(launch, sockets)


def _await_adoption(root: int) -> None:
    """Wait until the intermediate process is gone: a parent-death signal set before would fire with its end."""
    deadline = time.monotonic() + _ADOPTION_S
    while os.getppid() != root:
        if time.monotonic() > deadline:
            os._exit(1)
        os.sched_yield()  # the intermediate process is already exiting: nothing to wait on, and a sleep would be longer
    linux.die_with_parent(root)


def _read_launch(fd: int) -> dict[str, Any]:
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, encoding="utf-8") as file:
        launch: dict[str, Any] = json.load(file)
    return launch


def _wire_output(fd: int) -> None:
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    if isinstance(sys.stdout, object) and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def _enter(launch: dict[str, Any], sockets: dict[str, socket.socket]) -> int:
    from supervisor.child import run_child

    return run_child(
        launch["name"],
        launch["start"],
        args=launch["args"],
        runtime_dir=Path(launch["runtime_dir"]),
        state_dir=Path(launch["state_dir"]),
        sockets=sockets,
        settings=launch["settings"],
    )


def _answer(channel: socket.socket, body: dict[str, Any]) -> None:
    channel.send(json.dumps(body).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
