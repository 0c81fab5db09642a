"""The writer's thread: bounded queue, stall, health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from actors.knobs import Store
from actors.store.database import FILE_NAME
from actors.store.group import Refusal
from actors.store.keeper import Desk
from actors.store.requests import Commit, Health, RefusalCode
from actors.store.writer import MAX_WAITING, Writer
from tests.unit.store.samples import commit, event


class Clock:
    """A clock that tests move; the writer's thread reads it."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def __call__(self) -> float:
        return self.time_s


def _with_writer(path: Path, scenario: Callable[[Writer, Clock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = Clock()
        writer = Writer(path, Store, clock=clock)
        async with asyncio.timeout(30):
            await writer.start()
            await scenario(writer, clock)
            await writer.stop()

    asyncio.run(run())


def _lock(path: Path) -> apsw.Connection:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    return other


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_full_queue_answers_busy_and_keeps_what_it_took(tmp_path: Path) -> None:
    async def scenario(writer: Writer, _clock: Clock) -> None:
        other = _lock(tmp_path / FILE_NAME)
        first = writer.submit(commit(event(-1)))
        await _until(lambda: writer._working_since is not None)
        answers = [writer.submit(commit(event(seq))) for seq in range(MAX_WAITING + 1)]
        refused = answers[-1].result()
        assert isinstance(refused, Refusal)
        assert refused.code is RefusalCode.BUSY
        other.execute("ROLLBACK")
        kept = await asyncio.gather(first, *answers[:MAX_WAITING])
        assert kept == [[0]] * (MAX_WAITING + 1)

    _with_writer(tmp_path / FILE_NAME, scenario)


def test_stall_is_reported_from_5_s_and_fails_the_probe_only_after_60_s(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(writer: Writer, clock: Clock) -> None:
        desk = Desk(writer)
        other = _lock(tmp_path / FILE_NAME)
        asked = asyncio.ensure_future(desk.commit(Commit(writes=[event(1)])))
        await _until(lambda: writer._working_since is not None)
        await desk.probe()
        assert writer.health().state == "ok"
        assert not caplog.records
        clock.time_s += 59
        await desk.probe()
        assert "the disk is slow" in caplog.text
        assert writer.health().state == "degraded"
        assert "59 s" in writer.health().detail
        clock.time_s += 2
        with pytest.raises(RuntimeError, match="stuck for 61 s"):
            await desk.probe()
        other.execute("ROLLBACK")
        await asked
        await _until(lambda: writer._working_since is None)
        await desk.probe()
        assert writer.health().state == "ok"

    _with_writer(tmp_path / FILE_NAME, scenario)


def test_health_reports_the_change_once_each_way(tmp_path: Path) -> None:
    path = tmp_path / "state" / FILE_NAME
    (tmp_path / "state").write_text("in the way")
    seen: list[Health] = []
    recovered = asyncio.Event()

    def note(health: Health) -> None:
        seen.append(health)
        if health.state == "ok":
            recovered.set()

    async def run() -> None:
        writer = Writer(path, Store, on_health=note)
        await writer.start()
        outcomes = [await writer.submit(commit(event(seq))) for seq in range(3)]
        assert all(isinstance(outcome, Refusal) and outcome.code is RefusalCode.STORAGE for outcome in outcomes)
        (tmp_path / "state").unlink()
        async with asyncio.timeout(10):
            await recovered.wait()
        assert await writer.submit(commit(event(1))) == [0]
        await writer.stop()

    asyncio.run(run())
    assert [health.state for health in seen] == ["degraded", "ok"]
    assert str(path.parent) in seen[0].detail


def test_file_removed_or_replaced_while_open_is_not_written_to(tmp_path: Path) -> None:
    """What went into a file without a name would be acknowledged, seen by no reader, and gone with the process."""
    path = tmp_path / FILE_NAME

    async def scenario(writer: Writer, _clock: Clock) -> None:
        assert await writer.submit(commit(event(1))) == [0]
        for companion in ("-wal", "-shm", ""):
            (tmp_path / (FILE_NAME + companion)).unlink(missing_ok=True)
        assert await writer.submit(commit(event(2))) == [0]
        assert stored(path) == [2]
        path.rename(tmp_path / "elsewhere")
        for companion in ("-wal", "-shm"):
            (tmp_path / (FILE_NAME + companion)).rename(tmp_path / ("elsewhere" + companion))
        assert await writer.submit(commit(event(3))) == [0]
        assert stored(path) == [3]
        assert stored(tmp_path / "elsewhere") == [2]

    _with_writer(path, scenario)


def test_file_that_a_reader_found_damaged_is_set_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    """Nobody could load a tree, so nobody wrote, and the keeper never met the damage: 503 for ever."""
    path = tmp_path / FILE_NAME

    async def scenario(writer: Writer, clock: Clock) -> None:
        await asyncio.gather(*(writer.submit(commit(event(seq))) for seq in range(500)))
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (path.stat().st_size - 4096))
        (tmp_path / (FILE_NAME + "-wal")).write_bytes(b"")
        writer.suspect()
        await _until(lambda: any("damaged" in file.name for file in tmp_path.iterdir()))
        assert await writer.submit(commit(event(7))) == [0]
        assert stored(path) == [7]
        writer.suspect()  # a second time within the minute: nothing is opened anew
        assert await writer.submit(commit(event(8))) == [0]
        assert writer.health().state == "ok"

    _with_writer(path, scenario)


def stored(path: Path) -> list[int]:
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [seq for (seq,) in reader.execute("SELECT seq FROM events ORDER BY seq")]
    finally:
        reader.close()


def test_bug_in_the_thread_fails_the_process_and_the_probe(tmp_path: Path) -> None:
    async def run() -> None:
        writer = Writer(tmp_path / FILE_NAME, Store)
        await writer.start()
        writer.submit("no commit at all")  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            with pytest.raises(AttributeError):
                await writer.failed
        with pytest.raises(RuntimeError, match="has ended"):
            await Desk(writer).probe()

    asyncio.run(run())


def test_submit_after_stop_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        writer = Writer(tmp_path / FILE_NAME, Store)
        await writer.start()
        await writer.stop()
        outcome = await writer.submit(commit(event(1)))
        assert isinstance(outcome, Refusal)
        assert outcome.code is RefusalCode.STORAGE

    asyncio.run(run())
