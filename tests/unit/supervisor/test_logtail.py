from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from supervisor.logtail import LogPipe, LogSink


def in_loop(body: Callable[[], None]) -> None:
    async def run() -> None:
        body()

    asyncio.run(run())


def test_pipe_keeps_the_last_lines_and_passes_all_on_whole() -> None:
    def body() -> None:
        read, write = os.pipe()
        pipe = LogPipe(LogSink(write), keep=2)
        os.write(pipe.write_fd, b"one\ntwo\nthr")
        os.write(pipe.write_fd, b"ee\nlast without an end")
        pipe.close()
        assert pipe.tail() == ("three", "last without an end")
        assert os.read(read, 100) == b"one\ntwo\nthree\nlast without an end\n"

    in_loop(body)


def test_pipe_that_a_grandchild_holds_open_closes_without_waiting() -> None:
    def body() -> None:
        _read, write = os.pipe()
        pipe = LogPipe(LogSink(write))
        held = os.dup(pipe.write_fd)
        os.write(held, b"a\n")
        pipe.close()
        assert pipe.tail() == ("a",)

    in_loop(body)


def test_sink_whose_reader_is_slow_drops_the_oldest_lines_and_says_how_many() -> None:
    def body() -> None:
        read, write = os.pipe()
        sink = LogSink(write, limit_bytes=10_000)
        for number in range(20_000):
            sink.write(f"{number:09}\n".encode())
        first = os.read(read, 1 << 20)
        sink.flush()
        rest = os.read(read, 1 << 20)
        assert first.startswith(b"000000000\n")
        dropped = 20_000 - len(first) // 10 - (len(rest) - rest.index(b"\n") - 1) // 10
        assert rest.startswith(f"supervisor: {dropped} log lines were dropped".encode())
        assert rest.endswith(b"000019999\n")

    in_loop(body)


def test_sink_without_a_reader_throws_away_and_goes_on() -> None:
    def body() -> None:
        read, write = os.pipe()
        os.close(read)
        LogSink(write).write(b"nobody\n")

    in_loop(body)


def test_line_longer_than_the_pipe_takes_at_once_stays_whole() -> None:
    def body() -> None:
        read, write = os.pipe()
        LogSink(write).write(b"x" * 20_000 + b"\n")
        assert os.read(read, 1 << 20) == b"x" * 20_000 + b"\n"

    in_loop(body)
