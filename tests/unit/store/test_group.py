"""One transaction for many commits: atomic each, isolated from each other, gone together when the storage fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.store.database import FILE_NAME, open_for_writing
from actors.store.group import GroupFailed, Refusal, run_group
from actors.store.requests import RefusalCode, Write
from tests.unit.store.samples import OUTBOX, TREE, commit, event


@pytest.fixture
def db(tmp_path: Path) -> apsw.Connection:
    return open_for_writing(tmp_path / FILE_NAME)


def _events(db: apsw.Connection) -> list[int]:
    return [seq for (seq,) in db.execute("SELECT seq FROM events ORDER BY seq")]


def test_conflict_in_one_commit_leaves_the_others_whole(db: apsw.Connection) -> None:
    outcomes = run_group(db, [commit(event(1)), commit(event(2), event(1)), commit(event(2)), commit(event(3))])
    assert [type(outcome) for outcome in outcomes] == [list, Refusal, list, list]
    assert outcomes[1] == Refusal(
        RefusalCode.CONFLICT,
        (1, "event.add"),
        "ConstraintError: UNIQUE constraint failed: events.conversation, events.event_id",
    )
    assert _events(db) == [1, 2, 3]


def test_null_in_a_required_column_is_invalid_not_conflict(db: apsw.Connection) -> None:
    (outcome,) = run_group(db, [commit(event(1, body=None))])
    assert isinstance(outcome, Refusal)
    assert outcome.code is RefusalCode.INVALID


def test_text_that_is_no_unicode_is_invalid_and_isolated(db: apsw.Connection) -> None:
    outcomes = run_group(db, [commit(event(1, body="\ud800")), commit(event(2))])
    assert isinstance(outcomes[0], Refusal)
    assert _events(db) == [2]


def test_rows_hold_the_made_keys_and_zero_elsewhere(db: apsw.Connection) -> None:
    add = Write(op="outbox.add", row=OUTBOX)
    assert run_group(db, [commit(add, event(1), add)]) == [[1, 0, 2]]


def test_storage_fault_in_the_middle_fails_and_undoes_the_whole_group(db: apsw.Connection) -> None:
    run_group(db, [commit(event(1))])
    db.pragma("max_page_count", db.pragma("page_count") + 4)
    with pytest.raises(GroupFailed, match="FullError"):
        run_group(db, [commit(event(2)), commit(event(3, body="x" * 100_000))])
    assert not db.in_transaction
    assert _events(db) == [1]


def test_fault_that_leaves_the_transaction_open_is_rolled_back(db: apsw.Connection) -> None:
    db.authorizer = lambda action, table, *_: (
        apsw.SQLITE_DENY if action == apsw.SQLITE_INSERT and table == "outbox" else apsw.SQLITE_OK
    )
    with pytest.raises(GroupFailed, match="AuthError"):
        run_group(db, [commit(event(1)), commit(Write(op="outbox.add", row=OUTBOX))])
    db.authorizer = None
    assert not db.in_transaction
    assert run_group(db, [commit(event(2))]) == [[0]]
    assert _events(db) == [2]


def test_failed_commit_statement_is_rolled_back_before_it_is_reported(db: apsw.Connection) -> None:
    db.set_commit_hook(lambda: True)  # SQLite turns the COMMIT into a rollback and raises
    with pytest.raises(GroupFailed):
        run_group(db, [commit(event(1))])
    db.set_commit_hook(None)
    assert not db.in_transaction
    assert _events(db) == []


def test_write_lock_of_another_process_fails_the_group(db: apsw.Connection) -> None:
    other = apsw.Connection(db.filename)
    other.execute("BEGIN IMMEDIATE")
    db.set_busy_timeout(0)
    with pytest.raises(GroupFailed, match="locked"):
        run_group(db, [commit(event(1))])
    other.execute("ROLLBACK")
    assert run_group(db, [commit(event(1))]) == [[0]]


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_one_durable_commit_makes_the_group_durable(db: apsw.Connection, durable: bool, level: int) -> None:
    run_group(db, [commit(event(1)), commit(event(2), durable=durable), commit(event(3))])
    assert db.pragma("synchronous") == level


class _Model:
    """What the database must hold, as dicts: outbox states and the revisions of trees."""

    def __init__(self) -> None:
        self.trees: dict[str, tuple[int, str]] = {}
        self.events: dict[tuple[str, int], str] = {}

    def copy(self) -> _Model:
        twin = _Model()
        twin.trees, twin.events = dict(self.trees), dict(self.events)
        return twin

    def apply(self, write: Write) -> bool:
        row = write.row
        if write.op == "tree.create":
            fresh = row["id"] not in self.trees
            self.trees.setdefault(row["id"], (row["rev"], row["summary"]))
            return fresh
        if write.op == "tree.save":
            fits = self.trees.get(row["id"], (None,))[0] == row["base_rev"]
            if fits:
                self.trees[row["id"]] = (row["rev"], row["summary"])
            return fits
        key = (row["tree"], row["seq"])
        if key in self.events or row["event_id"] in self.events.values():
            return False
        self.events[key] = row["event_id"]
        return True


def _save(tree: str, base: int, rev: int, summary: str) -> Write:
    row = {k: v for k, v in TREE.items() if k != "created_at"}
    return Write(op="tree.save", row=row | {"id": tree, "base_rev": base, "rev": rev, "summary": summary})


def _create(tree: str, rev: int, summary: str) -> Write:
    return Write(op="tree.create", row=TREE | {"id": tree, "rev": rev, "summary": summary})


def _add(tree: str, seq: int, number: int) -> Write:
    return event(seq, tree=tree, event_id=f"e{number}")


_tree = st.sampled_from(["a", "b", "c"])
_small = st.integers(0, 4)
_writes = st.one_of(
    st.builds(_create, _tree, _small, st.text(st.characters(codec="utf-8"), max_size=5)),
    st.builds(_save, _tree, _small, _small, st.text(st.characters(codec="utf-8"), max_size=5)),
    st.builds(_add, _tree, _small, st.integers(0, 9)),
)
_groups = st.lists(st.lists(st.lists(_writes, max_size=4), min_size=1, max_size=4), max_size=8)


@settings(max_examples=150, deadline=None)
@given(groups=_groups)
def test_random_groups_match_a_model_of_dicts(tmp_path_factory: Any, groups: list[list[list[Write]]]) -> None:
    db = open_for_writing(tmp_path_factory.mktemp("model") / FILE_NAME)
    model = _Model()
    for group in groups:
        accepted = []
        for writes in group:
            attempt = model.copy()
            accepted.append(all(attempt.apply(write) for write in writes))
            model = attempt if accepted[-1] else model
        outcomes = run_group(db, [commit(*writes) for writes in group])
        assert [not isinstance(outcome, Refusal) for outcome in outcomes] == accepted
    assert {row[0]: row[1:] for row in db.execute("SELECT id, rev, summary FROM trees")} == model.trees
    assert {row[:2]: row[2] for row in db.execute("SELECT tree, seq, event_id FROM events")} == model.events
    db.close()
