"""Transcripts that the clients themselves wrote (tests/corpus/make_transcripts.py), read without conversion."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.knobs import Knobs
from actors.messages import Kind, ProgressEvent
from actors.sensors.readers.formats import FORMATS, read_file
from actors.sensors.readers.records import Problem, World
from actors.sensors.replay import replay_world

TRANSCRIPTS = Path(__file__).parents[2] / "corpus" / "transcripts"
FILES = sorted(path for path in TRANSCRIPTS.rglob("*") if path.is_file() and path.parent.name != "subagents")
NAMES = [f"{path.parent.name}/{path.suffix}" for path in FILES]
CANARY = "CANARY"

# tool, target, exit, error, landed of every call of the scripted session
READ = ("read", "calc.py", 0, None, False)
RED = ("bash", "unittest", 1, None, False)
EDIT = ("edit", "calc.py", 0, None, True)
GREEN = ("bash", "unittest", 0, None, True)
MISMATCH = ("edit", "calc.py", 1, "edit_mismatch", False)
NOT_THERE = ("read", "nope.py", 1, "notfound", False)
CAT = ("bash", "cat missing.txt", 1, None, False)
COMMIT = ("bash", "git commit", 0, None, True)
SLEEP = ("bash", "sleep h:1", 0, None, False)
DAY = [READ, RED, EDIT, GREEN, MISMATCH, NOT_THERE, CAT, CAT, COMMIT, SLEEP]
MINI = [
    ("bash", "cat calc.py", 0, None, False),
    RED,
    ("bash", "sed calc.py", 0, None, True),
    GREEN,
    CAT,
    CAT,
    COMMIT,
]
PATCH = ("apply_patch", "calc.py", 0, None, True)
CODEX = [
    ("bash", "sed calc.py", 0, None, False),
    RED,
    PATCH,
    GREEN,
    ("apply_patch", "calc.py", 1, "edit_mismatch", False),
    ("bash", "sed nope.py", 2, None, False),
    CAT,
    CAT,
    COMMIT,
    SLEEP,
]
WRITE = ("write", "calc.py", 0, None, True)
OPENCODE = [*DAY, ("write", "new.py", 0, None, True), ("task", "task explore", 0, None, False)]
EXPECTED: dict[str, tuple[str, list[Any]]] = {
    "claude_code": ("claude-code", [("task", "task", 0, None, False), *DAY]),
    "codex": ("codex", CODEX),
    "gemini": ("gemini", DAY),
    "mini_swe_agent": ("mini-swe-agent", [*MINI, ("bash", "echo h:1", -1, None, False)]),
    "mini_swe_agent_text": ("mini-swe-agent", MINI),
    "opencode": ("opencode", OPENCODE),
    "openhands": (
        "openhands",
        [READ, RED, WRITE, GREEN, NOT_THERE, CAT, CAT, ("bash", "git", 0, None, True)],
    ),
    "pi": ("pi", [READ, RED, WRITE, GREEN, *DAY[4:]]),
    "swe_agent": (
        "swe-agent",
        [
            READ,
            ("bash", "unittest", None, None, False),
            EDIT,
            ("edit", "calc.py", 1, None, False),
            ("bash", "cat missing.txt", None, None, False),
            ("bash", "cat missing.txt", None, None, False),
        ],
    ),
}


def found_in(path: Path, name: str = "auto") -> tuple[list[World], list[Problem]]:
    found = list(read_file(path, name))
    return [one for one in found if isinstance(one, World)], [one for one in found if isinstance(one, Problem)]


def the_world(path: Path) -> World:
    worlds, problems = found_in(path)
    assert problems == []
    assert len(worlds) == 1
    return worlds[0]


def calls(events: tuple[ProgressEvent, ...], session: str | None = None) -> list[Any]:
    def shown(event: ProgressEvent) -> Any:
        target = (event.target or "").removeprefix("/home/user/project/")
        return event.tool, target, event.exit, event.error, event.landed

    return [shown(one) for one in events if one.kind is Kind.TOOL and session in (None, one.session_id)]


def state_of(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_transcript_becomes_the_events_of_its_session(path: Path) -> None:
    source, expected = EXPECTED[path.parent.name]
    world = the_world(path)
    root = next(one.session_id for one in world.events if one.parent_session_id is None)

    assert world.source == source
    assert calls(world.events, root) == expected
    kinds = [event.kind for event in world.events]
    assert Kind.DONE in kinds
    assert kinds.count(Kind.USER) == 1


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_transcript_nothing_of_its_content_gets_into_events_or_rows(path: Path) -> None:
    world = the_world(path)
    text = path.read_bytes()
    rows = list(replay_world(world, Knobs().progress))

    assert text.count(CANARY.encode()) >= 5
    assert [one for one in world.events if CANARY in one.model_dump_json()] == []
    assert CANARY not in json.dumps(rows)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_transcript_turns_carry_usage_once_per_reply(path: Path) -> None:
    turns = [one for one in the_world(path).events if one.kind is Kind.TURN]
    rounds = [one.round for one in turns]

    assert len(turns) >= 7
    assert len(set(rounds)) == len(rounds)
    if path.parent.name not in ("openhands", "swe_agent"):  # these do not tell
        assert {one.context_tokens for one in turns} <= {1000, 1200}
        assert all((one.cost_usd or 0) > 0 for one in turns)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_transcript_replayed_twice_gives_the_same_rows(path: Path) -> None:
    first, second = (list(replay_world(the_world(path), Knobs().progress)) for _ in range(2))
    assert first == second


def test_sub_agent_of_claude_code_is_a_child_with_its_kind() -> None:
    world = the_world(next(path for path in FILES if path.parent.name == "claude_code"))
    child = [one for one in world.events if one.parent_session_id]

    assert {one.agent for one in child} == {"explore"}
    assert calls(tuple(child)) == [READ]
    assert next(one.kind for one in child) is Kind.INJECTED
    assert [one.t for one in world.events] == sorted(one.t or 0 for one in world.events)


def test_opencode_store_and_export_tell_the_same() -> None:
    store, export = (the_world(TRANSCRIPTS / "opencode" / name) for name in ("opencode.db", "export.json"))
    assert store.events == export.events
    assert {one.agent for one in store.events if one.parent_session_id} == {"explore"}
    assert Kind.COMPACTION in {one.kind for one in store.events}


def test_reading_leaves_bytes_and_times_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    shutil.copytree(TRANSCRIPTS, folder)
    before = state_of(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            list(read_file(path))

    assert state_of(folder) == before


WRITER = """
import sys, apsw
database = apsw.Connection(sys.argv[1])
database.execute("PRAGMA journal_mode = wal").fetchall()
database.execute("UPDATE session SET agent = 'only-in-the-log', parent_id = NULL")
database.execute("UPDATE message SET data = json_remove(data, '$.agent', '$.mode')")
print("written", flush=True)
sys.stdin.read()
"""


def test_store_beside_a_writer_is_read_with_its_log_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(TRANSCRIPTS / "opencode" / "opencode.db", path)
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        before = state_of(tmp_path)
        worlds, problems = found_in(path)

        assert sorted(before) == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]
        assert state_of(tmp_path) == before
        assert problems == []
        assert b"only-in-the-log" not in path.read_bytes()
        assert {one.agent for world in worlds for one in world.events} == {"only-in-the-log"}
        writer.communicate()


def test_store_after_a_kill_is_read_with_its_log(tmp_path: Path) -> None:
    path, killed = tmp_path / "opencode.db", tmp_path / "killed"
    killed.mkdir()
    shutil.copy(TRANSCRIPTS / "opencode" / "opencode.db", path)
    with contextlib.closing(apsw.Connection(str(path))) as writer:
        writer.execute("PRAGMA journal_mode = wal").fetchall()
        writer.execute("DELETE FROM session WHERE parent_id IS NOT NULL")
        for name in ("opencode.db", "opencode.db-wal", "opencode.db-shm"):
            shutil.copy(tmp_path / name, killed / name)
    before = state_of(killed)
    worlds, problems = found_in(killed / "opencode.db")

    assert problems == []
    assert {one.session_id for world in worlds for one in world.events if one.parent_session_id} == set()
    assert state_of(killed) == before

    (killed / "opencode.db-shm").unlink()
    worlds, problems = found_in(killed / "opencode.db")
    assert ["log has no index" in one.what for one in problems] == [True]
    assert len(worlds) == 1
    assert sorted(os.listdir(killed)) == ["opencode.db", "opencode.db-wal"]


def test_store_that_is_broken_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    whole = (TRANSCRIPTS / "opencode" / "opencode.db").read_bytes()
    path.write_bytes(whole[:5000])
    assert len(found_in(path)[1]) == 1

    path.write_bytes(b"SQLite format 3\0" + b"x" * 100)
    assert [one.what.split(" (")[0] for one in found_in(path)[1]] == ["the store cannot be read"]


def test_store_with_an_index_left_behind_is_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(TRANSCRIPTS / "opencode" / "opencode.db", path)
    with contextlib.closing(apsw.Connection(str(path))) as writer:
        writer.execute("PRAGMA journal_mode = wal").fetchall()
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (tmp_path / "opencode.db-shm").write_bytes(b"")

    assert the_world(path).events == the_world(TRANSCRIPTS / "opencode" / "opencode.db").events
    assert sorted(os.listdir(tmp_path)) == ["opencode.db", "opencode.db-shm"]


def test_store_rows_that_are_no_text_cost_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(TRANSCRIPTS / "opencode" / "opencode.db", path)
    with contextlib.closing(apsw.Connection(str(path))) as writer:
        writer.execute("UPDATE part SET data = CAST(x'fffe7b' AS TEXT) WHERE rowid = 1")
        writer.execute("UPDATE message SET data = '[' WHERE rowid = 2")
    worlds, problems = found_in(path)

    assert len(worlds) == 1
    assert [one.what for one in problems] == ["2 records are not JSON objects"]


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix != ".db"], ids=lambda path: path.parent.name)
def test_gzipped_transcript_is_the_same(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert (
        calls(the_world(packed).events) == calls(found_in(path)[0][0].events)[-len(calls(the_world(packed).events)) :]
    )


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".jsonl"], ids=lambda path: path.parent.name)
def test_torn_last_line_is_one_problem_and_the_rest_is_read(path: Path, tmp_path: Path) -> None:
    torn = tmp_path / path.name
    torn.write_bytes(path.read_bytes()[:-40])
    worlds, problems = found_in(torn)

    assert len(worlds) == 1
    assert ["not a whole JSON line" in one.what for one in problems] == [True]


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".jsonl"], ids=lambda path: path.parent.name)
def test_unknown_records_are_one_line_however_many(path: Path, tmp_path: Path) -> None:
    more = tmp_path / path.name
    more.write_text(path.read_text() + json.dumps({"type": "dance", "sessionId": "x"}) + "\n" + '{"type": "dance"}\n')
    worlds, problems = found_in(more)

    assert len(worlds) == 1
    assert [one.what for one in problems] == ["2 records of the unknown type 'dance' were left out"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXTS = {path: path.read_text() for path in FILES if path.suffix != ".db"}


def shown(path: Path, name: str = "auto") -> list[dict[str, Any]]:
    """The rows that replay would print; that it comes to them at all is the point."""
    return [row for world in found_in(path, name)[0] for row in replay_world(world, Knobs().progress)]


def is_head_only(path: Path) -> bool:
    """Cut between two lines before anything happened: nothing is torn and nothing is there."""
    return path.read_bytes().endswith(b"\n") or path.read_bytes().strip() == b""


SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@SLOW
@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 60_000), st.binary(max_size=8))
def test_transcript_torn_anywhere_never_stops_the_run(tmp_path: Path, path: Path, cut: int, dirt: bytes) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(TEXTS[path].encode()[: cut % len(TEXTS[path])] + dirt)
    assert shown(torn) or found_in(torn)[1] or torn.stat().st_size == 0 or is_head_only(torn)


def changed(value: Any, draw: Any, chance: int) -> Any:
    if draw(st.integers(0, chance)) == 0:
        return draw(JSON)
    if isinstance(value, list):
        return [changed(item, draw, chance) for item in value[:6]]
    if isinstance(value, dict):
        return {key: changed(item, draw, chance) for key, item in value.items()}
    return value


def records(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        lines = text.splitlines()
        return [json.loads(line) for line in lines] if len(lines[0]) > 2 else []


@SLOW
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_transcript_with_foreign_values_never_stops_the_run(tmp_path: Path, path: Path, data: Any) -> None:
    listed = records(TEXTS[path])
    broken = [changed(one, data.draw, 12) for one in listed[-6:]]
    spoiled = tmp_path / "spoiled"
    spoiled.write_text("\n".join(json.dumps(one) for one in broken))
    for name in ("auto", *FORMATS):
        assert all(row["events"] > 0 or row["worst"] == "ok" for row in shown(spoiled, name))


@SLOW
@given(JSON, st.sampled_from(sorted(FORMATS)))
def test_any_json_is_read_or_is_a_problem(tmp_path: Path, value: Any, name: str) -> None:
    path = tmp_path / "any"
    path.write_text(json.dumps(value) + "\n" + json.dumps({"type": "message", "payload": value, "message": value}))
    worlds, problems = found_in(path, name)

    assert len(worlds) <= 3
    assert all(one.where.startswith(str(path)) for one in problems)
