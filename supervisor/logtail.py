"""What children say: read from a pipe per child, written line by line to root's stderr, the last lines kept.

Never blocks root: a stderr that takes nothing (a stopped terminal, a full pipe) is buffered up to ``limit_bytes``, then
the oldest lines are dropped and their number is said once it flows again.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque

__all__ = ["LogPipe", "LogSink", "LogStream"]

_CHUNK = 4096  # poll promises room for PIPE_BUF bytes, no more
_MAX_LINE = 65536
_RETRY_S = 0.05


class LogSink:
    """Writes whole lines to a descriptor without ever waiting for it."""

    def __init__(self, fd: int = 2, limit_bytes: int = 1 << 20) -> None:
        self._fd = fd
        self._limit = limit_bytes
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._retry: asyncio.TimerHandle | None = None

    def write(self, line: bytes) -> None:
        """Write one line, which ends with a newline, now or as soon as the descriptor takes it."""
        self._lines.append(line)
        self._size += len(line)
        while self._size > self._limit and len(self._lines) > 1:
            self._size -= len(self._lines.popleft())
            self._dropped += 1
        self.flush()

    def flush(self) -> None:
        """Write what the descriptor takes; try again later for the rest."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        while self._lines and self._writable():
            if self._dropped:
                self._say_dropped()
            line = self._lines.popleft()
            self._size -= len(line)
            rest = line[self._put(line[:_CHUNK]) :]
            if rest:
                self._lines.appendleft(rest)
                self._size += len(rest)
        if self._lines:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self.flush)

    def _say_dropped(self) -> None:
        note = f"supervisor: {self._dropped} log lines were dropped, nobody read them\n".encode()
        self._lines.appendleft(note)
        self._size += len(note)
        self._dropped = 0

    def _writable(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return bool(poll.poll(0))

    def _put(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            # Nobody will ever read it (closed pipe, full disk): logging must not stop the supervisor.
            return len(data)


class LogStream:
    """A text stream over a sink, for the logging of root itself."""

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def write(self, text: str) -> None:
        """Write a whole line."""
        self._sink.write(text.encode(errors="replace"))

    def flush(self) -> None:
        """Do nothing: the sink flushes as soon as it can."""


class LogPipe:
    """The read end of one child's stdout and stderr; ``write_fd`` goes to the child."""

    def __init__(self, sink: LogSink, keep: int = 50) -> None:
        self._sink = sink
        self._fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._fd, False)
        self._partial = b""
        self._tail: deque[bytes] = deque(maxlen=keep)
        asyncio.get_running_loop().add_reader(self._fd, self._readable)

    def handed_over(self) -> None:
        """Close this process's copy of the write end."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def tail(self) -> tuple[str, ...]:
        """Return the last lines."""
        return tuple(line.decode(errors="replace").rstrip("\n") for line in self._tail)

    def close(self) -> None:
        """Read what is left, without waiting for more, and close."""
        while self._fd >= 0 and self._readable():
            pass
        self.handed_over()
        if self._fd >= 0:
            self._end()

    def _readable(self) -> bool:
        try:
            data = os.read(self._fd, _MAX_LINE)
        except BlockingIOError:
            return False
        if not data:
            self._end()
            return False
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._partial) > _MAX_LINE:
            self._take(self._partial)
            self._partial = b""
        return True

    def _take(self, line: bytes) -> None:
        self._tail.append(line[:_MAX_LINE])
        self._sink.write(line + b"\n")

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self._partial:
            self._take(self._partial)
            self._partial = b""
