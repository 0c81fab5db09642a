"""The keeper as a process: order, refusals, kill -9, faults of the storage, and back to ok by itself."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from actors.store.database import FILE_NAME, open_for_writing
from actors.store.group import run_group
from actors.store.reader import Reader
from actors.store.requests import Write
from supervisor.bus.errors import BusError, RemoteError
from tests.unit.store.keeper_process import DEADLINE_S, Bench, bench, keeper_command
from tests.unit.store.samples import EVERY_OP, TREE, commit, event

BIG = "x" * 200_000


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Path]:
    """A directory with a path short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="tw-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def _with_bench(directory: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(6 * DEADLINE_S), bench(directory) as made:
            await scenario(made)

    asyncio.run(run())


def _stored(path: Path) -> list[int]:
    reader = Reader(path)
    return [row.seq for row in reader.events_after("t1", -1)]


async def _refusal(asked: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(RemoteError) as caught:
        await asked
    return caught.value.code, caught.value.detail


async def _first_refusal(bench: Bench) -> str:
    """Send large events until the keeper refuses one; return the code."""
    for seq in count(1000):
        try:
            await bench.commit(event(seq, body=BIG))
        except RemoteError as error:
            return error.code
    raise AssertionError


def test_commits_of_one_sender_run_in_the_order_sent(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start()
        await bench.commit(Write(op="tree.create", row=TREE))
        row = {name: value for name, value in TREE.items() if name != "created_at"}
        saves = [Write(op="tree.save", row=row | {"base_rev": rev, "rev": rev + 1}) for rev in range(1, 801)]
        await asyncio.gather(*(bench.commit(save) for save in saves))
        tree = Reader(bench.path).tree("t1")
        assert tree is not None
        assert tree.rev == 801

    _with_bench(short, scenario)


def test_refusals_carry_code_write_and_reason(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start()
        await bench.commit(event(1))
        code, detail = await _refusal(bench.commit(event(2), event(1)))
        assert (code, detail[:20]) == ("conflict", "write 1 (event.add):")
        code, detail = await _refusal(bench.commit(Write(op="event.add", row={"tree": "t"})))
        assert code == "invalid"
        assert "missing" in detail
        assert _stored(bench.path) == [1]
        assert (await bench.health()).state == "ok"

    _with_bench(short, scenario)


def test_two_settings_on_one_version_only_one_wins(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start()
        row = dict(EVERY_OP)["settings.add"]
        asks = [bench.commit(Write(op="settings.add", row=row | {"note": n}), durable=True) for n in "ab"]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert [getattr(answer, "code", "made") for answer in answers] == ["made", "conflict"]

    _with_bench(short, scenario)


def test_stop_executes_what_waits_and_leaves_no_log_behind(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start()
        asks = [asyncio.create_task(bench.commit(event(seq))) for seq in range(300)]
        await asks[0]
        assert await bench.end() == 0
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert [file.name for file in bench.state.iterdir()] == [FILE_NAME]
        made = [seq for seq, answer in enumerate(answers) if not isinstance(answer, BaseException)]
        assert set(made) <= set(_stored(bench.path))

    _with_bench(short, scenario)


def test_kill_at_random_points_keeps_every_answered_commit_once_and_whole(short: Path) -> None:
    chance = random.Random(7)
    answered: dict[int, int] = {}
    sent: dict[int, int] = {}
    numbers = count()

    async def sender(bench: Bench, enough: asyncio.Event, until: int) -> None:
        while not enough.is_set():
            n, size = next(numbers), chance.randint(1, 4)
            sent[n] = size
            try:
                await bench.commit(*(event(10 * n + i) for i in range(size)), durable=n % 5 == 0)
            except BusError:
                return
            answered[n] = size
            if len(answered) >= until:
                enough.set()

    async def scenario(bench: Bench) -> None:
        for _ in range(8):
            await bench.start()
            enough = asyncio.Event()
            until = len(answered) + chance.randint(1, 400)
            senders = [asyncio.create_task(sender(bench, enough, until)) for _ in range(16)]
            await enough.wait()
            await bench.end(signal.SIGKILL)
            await asyncio.gather(*senders)
        await bench.start()
        stored = _stored(bench.path)
        whole = {n: [10 * n + i for i in range(size)] for n, size in sent.items()}
        assert len(stored) == len(set(stored))
        assert {seq for n in answered for seq in whole[n]} <= set(stored)
        assert all(set(seqs) <= set(stored) or not set(seqs) & set(stored) for seqs in whole.values())
        assert len(answered) > 100

    _with_bench(short, scenario)


def test_file_limit_refuses_with_storage_and_is_ok_again_when_lifted(short: Path) -> None:
    """The portable disk-full: the kernel refuses to let any file of the keeper grow."""

    async def scenario(bench: Bench) -> None:
        await bench.start()
        await bench.commit(event(1))
        _, hard = resource.prlimit(bench.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(bench.pid, resource.RLIMIT_FSIZE, (1_000_000, hard))
        assert await _first_refusal(bench) == "storage"
        resource.prlimit(bench.pid, resource.RLIMIT_FSIZE, (4096, hard))
        code, detail = await _refusal(bench.commit(event(2)))
        assert (code, FILE_NAME in detail) == ("storage", True)
        health = await bench.health()
        assert health.state == "degraded"
        assert FILE_NAME in health.detail
        before = _stored(bench.path)
        assert 2 not in before
        resource.prlimit(bench.pid, resource.RLIMIT_FSIZE, (hard, hard))
        await bench.until_ok()
        await bench.commit(event(2), durable=True)
        assert sorted(_stored(bench.path)) == sorted([*before, 2])
        assert await bench.end() == 0

    _with_bench(short, scenario)


def test_newer_database_keeper_is_ready_and_refuses_with_the_sentence(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        db = open_for_writing(bench.path)
        db.pragma("user_version", 99)
        db.close()
        await bench.start()
        code, detail = await _refusal(bench.commit(event(1)))
        assert code == "storage"
        assert "this treewarden knows versions up to" in detail
        assert (await bench.health()).state == "degraded"
        await bench.endpoint.ask("keeper", "Ping")

    _with_bench(short, scenario)


def test_state_directory_that_appears_later_makes_it_ok(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.state.write_text("a file is in the way of the directory")
        await bench.start()
        assert (await _refusal(bench.commit(event(1))))[0] == "storage"
        bench.state.unlink()
        await bench.until_ok()
        await bench.commit(event(1))
        assert _stored(bench.path) == [1]

    _with_bench(short, scenario)


def test_lock_of_another_program_delays_and_then_commits(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start()
        other = sqlite3.connect(bench.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.create_task(bench.commit(event(1)))
        assert (await bench.health()).state == "ok"
        other.execute("ROLLBACK")
        await asked

    _with_bench(short, scenario)


# real mounts

needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and util-linux: a tmpfs in a private mount namespace (unshare -m)",
)


def _mounted(bench: Bench, options: str, then: str = "") -> list[str]:
    """Return a command that runs the keeper with its state directory on a tmpfs that only it sees."""
    script = f'mount -t tmpfs -o {options} none "$0" && {then} exec "$@"'
    bench.state.mkdir()
    return ["unshare", "-m", "sh", "-c", script, str(bench.state), *keeper_command(bench.runtime, bench.state)]


def _seen_by(bench: Bench) -> Path:
    """Return the state directory as the keeper's mount namespace has it."""
    return Path(f"/proc/{bench.pid}/root{bench.state}")


def _stored_inside(bench: Bench) -> list[int]:
    """Return what a reader in the keeper's mount namespace finds (SQLite resolves /proc/PID/root away)."""
    script = (
        "import sys, pathlib; from actors.store.reader import Reader;"
        "print(*(row.seq for row in Reader(pathlib.Path(sys.argv[1])).events_after('t1', -1)))"
    )
    words = ["nsenter", "-t", str(bench.pid), "-m", sys.executable, "-c", script, str(bench.path)]
    done = subprocess.run(words, check=True, capture_output=True, cwd=Path(__file__).parents[3])
    return [int(word) for word in done.stdout.split()]


@needs_mounts
def test_full_disk_refuses_with_storage_and_is_ok_again_when_there_is_room(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start(_mounted(bench, "size=24m"))
        state = _seen_by(bench)
        await bench.commit(event(1))
        filler = state / "filler"
        filler.write_bytes(b"x" * 16_000_000)
        assert await _first_refusal(bench) == "storage"
        assert (await bench.health()).state == "degraded"
        before = _stored_inside(bench)
        filler.unlink()
        await bench.until_ok()
        await bench.commit(event(2), durable=True)
        assert sorted(_stored_inside(bench)) == sorted([*before, 2])

    _with_bench(short, scenario)


@needs_mounts
def test_read_only_file_system_keeper_is_ready_degraded_and_ok_after_remount(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start(_mounted(bench, "size=6m", 'mount -o remount,ro "$0" &&'))
        code, detail = await _refusal(bench.commit(event(1)))
        assert (code, "Read-only file system" in detail) == ("storage", True)
        remount = ["nsenter", "-t", str(bench.pid), "-m", "mount", "-o", "remount,rw", str(bench.state)]
        subprocess.run(remount, check=True)
        await bench.until_ok()
        await bench.commit(event(1))
        assert _stored_inside(bench) == [1]

    _with_bench(short, scenario)


@needs_mounts
def test_read_only_database_serves_readers_and_refuses_writers(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        source = bench.runtime / "source.db"
        db = open_for_writing(source)
        run_group(db, [commit(event(1))])
        db.close()
        await bench.start(_mounted(bench, "size=6m", f'cp {source} "$0/{FILE_NAME}" && mount -o remount,ro "$0" &&'))
        assert (await _refusal(bench.commit(event(2))))[0] == "storage"
        assert (await bench.health()).state == "degraded"
        await bench.endpoint.ask("keeper", "Ping")
        assert _stored_inside(bench) == [1]

    _with_bench(short, scenario)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the mount tests cover it")
def test_read_only_directory_refuses_with_storage_until_it_is_writable(short: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.state.mkdir(mode=0o500)
        await bench.start()
        assert (await _refusal(bench.commit(event(1))))[0] == "storage"
        bench.state.chmod(0o700)
        await bench.until_ok()
        await bench.commit(event(1))

    _with_bench(short, scenario)
