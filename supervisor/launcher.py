"""Root's side of the fork server: keeps one running, asks it for processes, starts another one when it dies.

Runs on root's event loop; starting the interpreter of the fork server blocks for about a millisecond (vfork), nothing
else does. A launch that is under way when the fork server dies either was answered already, or fails with
``LaunchError``: a process of it that has not said its pid yet finds its channel shut and ends by itself.
"""

from __future__ import annotations

import array
import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from supervisor import linux

__all__ = ["LaunchError", "Launcher"]

_log = logging.getLogger(__name__)

_ANSWER_S = 15.0
_READY_S = 60.0
_RESTART_S = 1.0


class LaunchError(Exception):
    """The process could not be started; says why."""


class Launcher:
    """``launch`` starts a process. One fork server at a time; a dead one is replaced, a silent one killed."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._preload = tuple(preload)
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[int]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._pidfd = -1
        self._ready = asyncio.Event()
        self._started_at = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The fork server's pid while it lives."""
        return self._process.pid if self._process is not None else None

    @property
    def busy(self) -> bool:
        """True while a launch is under way: then a process may exist whose pid is not known yet."""
        return bool(self._pending)

    def start(self) -> None:
        """Start the fork server; it imports its modules meanwhile. Raises OSError, and then has started nothing."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._run(theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._channel = ours
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        loop.add_reader(self._pidfd, self._died)
        loop.add_reader(ours.fileno(), self._readable)

    def _run(self, channel: socket.socket) -> None:
        command = [sys.executable, "-m", "supervisor.forkserver", str(channel.fileno()), str(os.getpid())]
        # A session of its own: Ctrl-C at the terminal is root's business alone.
        process = subprocess.Popen(
            [*command, *self._preload],
            pass_fds=[channel.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:
            process.kill()
            process.wait()
            raise
        self._process = process

    async def available(self) -> None:
        """Wait until the fork server has imported its modules. Raises LaunchError after a minute."""
        try:
            await asyncio.wait_for(self._ready.wait(), _READY_S)
        except TimeoutError:
            self._kill()
            raise LaunchError(f"the fork server was not ready in {_READY_S:g} s") from None

    async def launch(self, body: dict[str, Any], fds: Sequence[int]) -> int:
        """Start a process for ``body`` with descriptors ``fds``; return its pid, a child of this process."""
        await self.available()
        number = next(self._numbers)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self._send(number, body, fds)
            return await asyncio.wait_for(answer, _ANSWER_S)
        except OSError as error:
            raise LaunchError(f"the fork server takes no request: {error}") from error
        except TimeoutError:
            self._kill()
            raise LaunchError(f"the fork server did not answer in {_ANSWER_S:g} s") from None
        finally:
            self._pending.pop(number, None)

    def close(self) -> None:
        """End the fork server for good."""
        self._closed = True
        self._kill()
        if self._process is not None:
            self._process.wait()
            self._forget()

    def _send(self, number: int, body: dict[str, Any], fds: Sequence[int]) -> None:
        assert self._channel is not None
        memory = os.memfd_create("launch")
        try:
            with open(memory, "w", encoding="utf-8", closefd=False) as file:
                json.dump(body, file)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory, *fds]))
            self._channel.sendmsg([json.dumps({"request": number}).encode()], [rights])
        finally:
            os.close(memory)

    def _readable(self) -> None:
        assert self._channel is not None
        try:
            data = self._channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            return
        self._take(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        if "hello" in message:
            self._ready.set()
            return
        answer = self._pending.get(message["request"])
        if answer is None or answer.done():
            if "pid" in message:
                linux.kill_group(message["pid"])  # given up on before it answered: nobody would ever stop it
            return
        if "pid" in message:
            answer.set_result(message["pid"])
        else:
            answer.set_exception(LaunchError(message["error"]))

    def _kill(self) -> None:
        if self._process is not None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _died(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        if self._channel is not None:
            self._channel.shutdown(socket.SHUT_RD)
        self._drain()
        self._forget()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(LaunchError(f"the fork server died ({code})"))
        if not self._closed:
            loop = asyncio.get_running_loop()
            _log.error("the fork server died (%s), starting another one", code)
            # The first one comes back at once; one that cannot live must not make root spin.
            loop.call_later(0 if loop.time() - self._started_at > _RESTART_S else _RESTART_S, self._revive)

    def _revive(self) -> None:
        if self._closed or self._process is not None:
            return
        try:
            self.start()
        except OSError as error:
            _log.error("the fork server cannot be started: %s", error)
            asyncio.get_running_loop().call_later(_RESTART_S, self._revive)

    def _drain(self) -> None:
        """Read what was answered before the death: those processes are alive and well."""
        while self._channel is not None:
            try:
                data = self._channel.recv(65536)
            except OSError:
                return
            if not data:
                return
            self._take(json.loads(data))

    def _forget(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._channel is not None:
            loop.remove_reader(self._channel.fileno())
            self._channel.close()
        self._process = self._channel = None
        self._ready.clear()
