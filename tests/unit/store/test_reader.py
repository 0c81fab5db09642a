"""Typed reads beside a writing connection."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from actors.store.database import FILE_NAME, open_for_writing
from actors.store.group import Refusal, run_group
from actors.store.journal import WRITES
from actors.store.reader import Reader, Unreadable
from actors.store.requests import Write
from tests.unit.store.samples import EVERY_OP, OUTBOX, TREE, commit, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def db(path: Path) -> apsw.Connection:
    return open_for_writing(path)


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    reader = Reader(path)
    yield reader
    reader.close()


def _write(db: apsw.Connection, *writes: Write) -> None:
    (outcome,) = run_group(db, [commit(*writes)])
    assert not isinstance(outcome, Refusal), outcome


def _tree(tree: str, **columns: object) -> Write:
    return Write(op="tree.create", row=TREE | {"id": tree} | columns)


def _everything(reader: Reader) -> list[object]:
    return [
        reader.tree("t1"), reader.trees(), reader.trees(verdict="ok"), reader.newest_trees(),
        reader.tree_counts_by_verdict(), reader.live_trees(lambda _: True, due_by=9e9), reader.conversations("t1"),
        reader.conversation("t1"), reader.conversation_tree("t1"), reader.all_conversations(10),
        reader.events_after("t1", 0), reader.seen_ids("t1", ["e1"]), reader.event_count(), reader.event_count("t1"),
        reader.accepted_count(), reader.transitions("t1"), reader.quarantined("t1"), reader.outbox_pending(),
        reader.outbox_pending(targets=["notifier"], trees=["t1"]), reader.outbox_depth(), reader.alert("t1"),
        reader.alerts(), reader.alerts(resolved=True), reader.alert_log(), reader.alert_log("t1"),
        reader.alert_log_of_effect(1), reader.deliveries_pending(), reader.deliveries(1), reader.settings_latest(),
        reader.settings_versions(), reader.audit(), reader.sensors(),
    ]  # fmt: skip


def test_missing_database_is_empty_and_is_not_created(path: Path, reader: Reader) -> None:
    assert not any(_everything(reader))
    assert not path.exists()


def test_database_without_tables_yet_is_empty(path: Path, reader: Reader) -> None:
    path.touch()
    assert not any(_everything(reader))


def test_every_query_finds_what_the_journal_wrote(db: apsw.Connection, reader: Reader) -> None:
    skipped = {"outbox.claim", "outbox.done", "delivery.update", "tree.save", "tree.merged"}
    for op, row in EVERY_OP:
        if op not in skipped and not op.endswith(".move"):
            columns = {"next_wakeup": 5.0, "seq": 1} if op == "tree.create" else {}
            _write(db, Write(op=op, row=row | columns))
    missing = [index for index, found in enumerate(_everything(reader)) if not found]
    assert missing == []
    assert WRITES


def test_reads_see_every_commit_while_the_writer_is_in_a_transaction(db: apsw.Connection, reader: Reader) -> None:
    _write(db, event(1))
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM events")
    assert reader.event_count() == 1
    db.execute("COMMIT")
    assert reader.event_count() == 0


def test_trees_pages_by_id_without_merged_ones(db: apsw.Connection, reader: Reader) -> None:
    for tree in "dbace":
        _write(db, _tree(tree, verdict="looping" if tree in "ad" else "ok", merged_into="a" if tree == "b" else None))
    first = reader.trees(limit=2)
    assert [tree.id for tree in first] == ["a", "c"]
    assert [tree.id for tree in reader.trees(after=first[-1].id, limit=2)] == ["d", "e"]
    assert [tree.id for tree in reader.trees(verdict="looping")] == ["a", "d"]
    assert reader.tree_counts_by_verdict() == {"looping": 2, "ok": 2}
    merged = reader.tree("b")
    assert merged is not None
    assert merged.merged_into == "a"


def test_live_trees_are_the_due_ones_of_the_shard_soonest_first(db: apsw.Connection, reader: Reader) -> None:
    for n in range(20):
        _write(db, _tree(f"t{n}", next_wakeup=float(20 - n) if n % 2 else None))
    mine = [f"t{n}" for n in range(19, 0, -2) if zlib.crc32(f"t{n}".encode()) % 2 == 0 and 20 - n <= 11]
    found = reader.live_trees(lambda tree: zlib.crc32(tree.encode()) % 2 == 0, due_by=11.0)
    assert [tree for tree, _ in found] == mine
    assert reader.live_trees(lambda _: True, due_by=11.0, limit=1) == [("t19", 1.0)]


def test_seen_ids_are_those_of_the_conversation_quarantine_included(db: apsw.Connection, reader: Reader) -> None:
    _write(db, event(1), event(2, conversation="other", event_id="x"))
    _write(db, Write(op="quarantine.add", row=dict(EVERY_OP)["quarantine.add"]))
    assert reader.seen_ids("t1", ["e1", "x", "q", "new"]) == {"e1", "q"}
    assert reader.seen_ids("t1", []) == set()


def test_seen_ids_uses_the_index(db: apsw.Connection) -> None:
    plan = db.execute(
        "EXPLAIN QUERY PLAN SELECT event_id FROM events WHERE conversation = ?"
        " AND event_id IN (SELECT value FROM json_each(?))",
        ("c", "[]"),
    ).fetchall()
    assert "events_by_id (conversation=? AND event_id=?)" in plan[0][3]


def test_transitions_limit_takes_the_newest_in_order(db: apsw.Connection, reader: Reader) -> None:
    row = dict(EVERY_OP)["transition.add"]
    _write(db, *(Write(op="transition.add", row=row | {"n": n}) for n in range(1, 6)))
    assert [transition.n for transition in reader.transitions("t1", limit=2)] == [4, 5]


def test_outbox_pending_holds_claimed_ones_until_done(db: apsw.Connection, reader: Reader) -> None:
    _write(db, *(Write(op="outbox.add", row=OUTBOX | {"target": target}) for target in ("clients", "notifier", "edge")))
    _write(db, Write(op="outbox.claim", row={"id": 1}), Write(op="outbox.done", row={"id": 3}))
    assert [(effect.id, effect.state) for effect in reader.outbox_pending()] == [(1, "claimed"), (2, "pending")]
    assert [effect.id for effect in reader.outbox_pending(targets=["notifier", "edge"])] == [2]
    assert reader.outbox_pending(trees=["t2"]) == []


def test_reader_follows_a_file_that_was_put_in_its_place(path: Path, db: apsw.Connection, reader: Reader) -> None:
    _write(db, event(1))
    assert reader.event_count() == 1
    db.close()
    path.rename(path.with_name("aside"))
    _write(open_for_writing(path), event(5), event(6))
    assert reader.event_count() == 2
    path.rename(path.with_name("aside too"))
    assert reader.event_count() == 0


def test_unreadable_file_is_a_typed_error_and_is_read_again_later(path: Path, reader: Reader) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unreadable, match=FILE_NAME):
        reader.trees()
    path.unlink()
    _write(open_for_writing(path), _tree("t1"))
    assert [tree.id for tree in reader.trees()] == ["t1"]


def test_reader_cannot_write(db: apsw.Connection, reader: Reader) -> None:
    reader.trees()
    assert reader._connection is not None
    with pytest.raises(apsw.ReadOnlyError):
        reader._connection.execute("DELETE FROM trees")


def test_crash_reports_newest_first_and_the_same_twice_is_once(tmp_path: Path) -> None:
    db = open_for_writing(tmp_path / FILE_NAME)
    row = dict(EVERY_OP)["crash.add"]
    told = [row, row | {"n": 2, "context": "slow_retry"}, row | {"n": 3, "offender": "keeper"}, row]
    for one in told:
        (outcome,) = run_group(db, [commit(Write(op="crash.add", row=one))])
        assert not isinstance(outcome, Refusal)
    reader = Reader(tmp_path / FILE_NAME)
    assert [(crash.n, crash.offender) for crash in reader.crashes()] == [(3, "keeper"), (2, "edge"), (1, "edge")]
    assert [crash.n for crash in reader.crashes(offender="edge", limit=1)] == [2]
    assert reader.death_tally() == {"edge": 1, "keeper": 1}
