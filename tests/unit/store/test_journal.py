"""The table of statements against the real schema."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from actors.store.database import FILE_NAME, open_for_writing
from actors.store.group import Refusal, run_group
from actors.store.journal import WRITES, InvalidWrite, check
from actors.store.requests import RefusalCode, Write
from tests.unit.store.samples import EVENT, EVERY_OP, TREE, commit, event


@pytest.fixture
def db(tmp_path: Path) -> apsw.Connection:
    return open_for_writing(tmp_path / FILE_NAME)


def test_every_op_in_order_executes(db: apsw.Connection) -> None:
    for op, row in EVERY_OP:
        (outcome,) = run_group(db, [commit(Write(op=op, row=row))])
        assert not isinstance(outcome, Refusal), (op, outcome)
    assert [op for op, _ in EVERY_OP] == list(WRITES)


def test_every_op_binds_exactly_its_columns() -> None:
    for op, statement in WRITES.items():
        assert set(re.findall(r":([a-z_]+)", statement.sql)) == set(statement.columns), op
        assert statement.optional <= statement.columns, op


@pytest.mark.parametrize("op", [op for op, statement in WRITES.items() if statement.guard])
def test_guard_without_its_row_conflicts(db: apsw.Connection, op: str) -> None:
    row = dict(EVERY_OP)[op] | {"id": 999, "version": 999}
    fitting = {name: value for name, value in row.items() if name in WRITES[op].columns}
    (outcome,) = run_group(db, [commit(Write(op=op, row=fitting))])
    assert isinstance(outcome, Refusal)
    assert outcome.code is RefusalCode.CONFLICT


def test_check_unknown_op_names_the_allowed_ones() -> None:
    with pytest.raises(InvalidWrite, match=r"'nonsense' is unknown; allowed are [a-z_.]+, .*event.add, "):
        check(Write(op="nonsense", row={}))


def test_check_missing_and_unknown_columns_are_named() -> None:
    row = {name: value for name, value in EVENT.items() if name != "t"} | {"colour": 1}
    with pytest.raises(InvalidWrite, match=r"missing \['t'\], unknown \['colour'\]"):
        check(Write(op="event.add", row=row))


def test_check_optional_column_left_out_is_null() -> None:
    _, row = check(Write(op="event.add", row={k: v for k, v in EVENT.items() if k != "event_id"}))
    assert row["event_id"] is None


@pytest.mark.parametrize("value", [[1], {"a": 1}, 2**63, -(2**64)])
def test_check_value_no_column_holds_is_refused(value: object) -> None:
    with pytest.raises(InvalidWrite, match=r"event\.add\.body"):
        check(Write(op="event.add", row=EVENT | {"body": value}))


def test_tree_save_without_snapshot_keeps_the_old_one(db: apsw.Connection) -> None:
    create = Write(op="tree.create", row=TREE | {"snapshot": "old", "snapshot_seq": 7})
    row = {k: v for k, v in TREE.items() if k not in {"created_at", "snapshot", "snapshot_seq"}}
    save = Write(op="tree.save", row=row | {"base_rev": 1, "rev": 2})
    run_group(db, [commit(create), commit(save)])
    assert db.execute("SELECT rev, snapshot, snapshot_seq FROM trees").fetchall() == [(2, "old", 7)]


def test_event_move_continues_the_numbers_of_the_other_tree(db: apsw.Connection) -> None:
    theirs = [event(seq, tree="late", conversation="late") for seq in range(1, 6)]
    ours = [event(seq) for seq in range(1, 4)]
    move = Write(op="event.move", row={"into": "t1", "other": "late", "offset": 3})
    assert not isinstance(run_group(db, [commit(*theirs, *ours, move)])[0], Refusal)
    assert db.execute("SELECT seq FROM events WHERE tree = 't1' ORDER BY seq").fetchall() == [
        (seq,) for seq in range(1, 9)
    ]


def test_delivery_add_without_log_id_takes_the_row_of_the_same_commit(db: apsw.Connection) -> None:
    samples = dict(EVERY_OP)
    log = [Write(op="alert_log.add", row=samples["alert_log.add"] | {"effect_id": n}) for n in (1, 2)]
    (rows,) = run_group(db, [commit(*log, Write(op="delivery.add", row=samples["delivery.add"]))])
    assert not isinstance(rows, Refusal)
    assert db.execute("SELECT alert_log_id FROM deliveries").fetchall() == [(rows[1],)]


def test_settings_add_only_the_next_version(db: apsw.Connection) -> None:
    row = dict(EVERY_OP)["settings.add"]
    versions = [Write(op="settings.add", row=row | {"version": version}) for version in (1, 1, 3, 2)]
    outcomes = run_group(db, [commit(version) for version in versions])
    assert [isinstance(outcome, Refusal) for outcome in outcomes] == [False, True, True, False]
