"""Opening: permissions, migrations, damaged and newer files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest

from actors.store.database import FILE_NAME, StorageFault, TooNew, open_for_writing, prove_writable
from actors.store.group import run_group
from actors.store.migrations import Migration, load
from tests.unit.store.samples import commit, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / FILE_NAME


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_open_new_file_and_companions_are_for_the_owner_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = os.umask(0)
    try:
        db = open_for_writing(path)
        run_group(db, [commit(event(1))])
    finally:
        os.umask(old)
    assert {file.name: _mode(file) for file in path.parent.iterdir()} == {
        FILE_NAME: 0o600,
        FILE_NAME + "-wal": 0o600,
        FILE_NAME + "-shm": 0o600,
    }
    assert _mode(path.parent) == 0o700
    assert "was accessible" not in caplog.text


def test_open_file_others_could_read_is_closed_to_them_and_not_made_writable(path: Path) -> None:
    open_for_writing(path).close()
    path.chmod(0o644)
    open_for_writing(path).close()
    assert _mode(path) == 0o600
    path.chmod(0o444)
    if os.geteuid() != 0:
        with pytest.raises(StorageFault):
            open_for_writing(path)
    else:
        open_for_writing(path).close()
    assert _mode(path) == 0o400


def test_open_settings_are_those_the_guarantees_need(path: Path) -> None:
    db = open_for_writing(path)
    pragmas = {name: db.pragma(name) for name in ("journal_mode", "foreign_keys", "busy_timeout", "temp_store")}
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 2000, "temp_store": 2}


def test_migrations_are_packaged_and_numbered() -> None:
    assert [migration.version for migration in load()] == list(range(1, len(load()) + 1))


def test_migrate_previous_version_keeps_rows_and_runs_only_the_new_step(path: Path) -> None:
    db = open_for_writing(path)
    run_group(db, [commit(event(1))])
    db.close()
    newer = [*load(), Migration(len(load()) + 1, "next.sql", "ALTER TABLE events ADD COLUMN extra TEXT")]
    db = open_for_writing(path, newer)
    assert db.execute("SELECT seq, extra FROM events").fetchall() == [(1, None)]
    assert db.pragma("user_version") == len(newer)


def test_migrate_step_that_fails_leaves_the_previous_version(path: Path) -> None:
    open_for_writing(path).close()
    broken = [*load(), Migration(len(load()) + 1, "next.sql", "CREATE TABLE extra (a); SELECT 1; SELECT nonsense")]
    with pytest.raises(StorageFault, match="nonsense"):
        open_for_writing(path, broken)
    db = open_for_writing(path)
    assert db.pragma("user_version") == len(load())
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchall() == [(0,)]


def test_open_newer_database_is_refused_with_a_sentence_and_untouched(path: Path) -> None:
    db = open_for_writing(path)
    db.pragma("user_version", 99)
    db.close()
    before = path.read_bytes()
    with pytest.raises(TooNew, match=r"schema version 99, this treewarden knows versions up to \d+: install"):
        open_for_writing(path)
    assert path.read_bytes() == before


def test_open_file_that_is_no_database_is_set_aside_whole(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this was a shopping list" * 1000)
    for _ in range(2):
        db = open_for_writing(path, now=lambda: 0.0)
        assert db.execute("SELECT count(*) FROM events").fetchall() == [(0,)]
        db.close()
    aside = path.with_name(FILE_NAME + ".damaged-19700101T000000Z")
    assert aside.read_bytes() == b"this was a shopping list" * 1000
    assert [record.levelname for record in caplog.records if "set aside as" in record.message] == ["CRITICAL"]


def test_open_damaged_file_is_set_aside_together_with_its_log(path: Path) -> None:
    path.parent.mkdir()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(FILE_NAME + suffix).write_bytes(b"no database, no log" * 500)
    open_for_writing(path, now=lambda: 0.0).close()
    aside = FILE_NAME + ".damaged-19700101T000000Z"
    assert path.with_name(aside).read_bytes() == b"no database, no log" * 500
    assert path.with_name(aside + "-wal").read_bytes() == b"no database, no log" * 500


def test_prove_writable_needs_room_and_gives_it_back(path: Path) -> None:
    db = open_for_writing(path)
    prove_writable(db, 1.0, 0)
    pages = db.pragma("page_count")
    prove_writable(db, 2.0, 1_000_000)
    assert db.execute("SELECT at, length(room) FROM proof").fetchall() == [(2.0, 0)]
    assert db.pragma("page_count") - pages > 200
    assert db.pragma("freelist_count") > 200
    db.pragma("max_page_count", db.pragma("page_count"))
    with pytest.raises(apsw.FullError):
        prove_writable(db, 3.0, 2_000_000)
    assert not db.in_transaction


def test_open_damaged_twice_in_one_second_keeps_both(path: Path) -> None:
    path.parent.mkdir()
    for text in (b"first" * 1000, b"second" * 1000):
        path.write_bytes(text)
        open_for_writing(path, now=lambda: 0.0).close()
    kept = sorted(file.read_bytes()[:6] for file in path.parent.iterdir() if "damaged" in file.name)
    assert kept == [b"firstf", b"second"]


def test_open_inspect_finds_damage_that_a_plain_open_overlooks(path: Path) -> None:
    db = open_for_writing(path)
    run_group(db, [commit(*(event(seq, body="x" * 2000) for seq in range(200)))])
    db.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    open_for_writing(path).close()
    open_for_writing(path, inspect=True).close()
    asides = [
        file for file in path.parent.iterdir() if "damaged" in file.name and not file.name.endswith(("-wal", "-shm"))
    ]
    assert [file.stat().st_size for file in asides] == [size]


def test_open_directory_in_the_way_is_a_storage_fault(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StorageFault, match=FILE_NAME):
        open_for_writing(path)
