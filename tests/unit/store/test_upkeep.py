"""Pruning and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from actors.store.database import FILE_NAME, open_for_writing
from actors.store.group import Refusal, run_group
from actors.store.requests import Write
from actors.store.upkeep import Upkeep, prune
from tests.unit.store.samples import EVERY_OP, OUTBOX, TREE, commit, event

DAY_S = 86_400.0


@dataclass(frozen=True)
class Limits:
    events_per_tree: int = 1000
    retain_days: int = 14


@pytest.fixture
def db(tmp_path: Path) -> apsw.Connection:
    return open_for_writing(tmp_path / FILE_NAME)


def _tree(db: apsw.Connection, tree: str, events: int, **columns: object) -> None:
    row = TREE | {"id": tree, "seq": events, "snapshot": "{}"} | columns
    writes = [event(seq, tree=tree, conversation=tree) for seq in range(1, events + 1)]
    outcome = run_group(db, [commit(Write(op="tree.create", row=row), *writes)])[0]
    assert not isinstance(outcome, Refusal)


def _span(db: apsw.Connection, tree: str) -> tuple[int, int]:
    return next(db.execute("SELECT min(seq), max(seq) FROM events WHERE tree = ?", (tree,)))


def _run(db: apsw.Connection, now: float = 1.0) -> int:
    return sum(1 for _ in prune(db, Limits(), now))


def test_prune_keeps_the_newest_events_of_each_tree(db: apsw.Connection) -> None:
    _tree(db, "big", 3000, snapshot_seq=2900)
    _tree(db, "small", 900, snapshot_seq=900)
    _run(db)
    assert _span(db, "big") == (2001, 3000)
    assert _span(db, "small") == (1, 900)


def test_prune_never_touches_events_that_the_snapshot_does_not_cover(db: apsw.Connection) -> None:
    _tree(db, "late", 3000, snapshot_seq=700)
    _tree(db, "never", 3000, snapshot_seq=0, snapshot=None)
    _run(db)
    assert _span(db, "late") == (701, 3000)
    assert _span(db, "never") == (1, 3000)


def test_prune_pieces_are_bounded_and_survive_being_dropped(db: apsw.Connection) -> None:
    _tree(db, "big", 3000, snapshot_seq=3000)
    pieces = prune(db, Limits(), 1.0)
    next(pieces)
    assert _span(db, "big") == (501, 3000)
    assert not db.in_transaction
    del pieces
    _run(db)
    assert _span(db, "big") == (2001, 3000)


def test_prune_expired_tree_goes_with_all_its_rows(db: apsw.Connection) -> None:
    _tree(db, "t1", 0)
    for op, row in EVERY_OP[1:6]:
        run_group(db, [commit(Write(op=op, row=row))])
    run_group(db, [commit(Write(op="outbox.add", row=OUTBOX | {"state": "done"}))])
    _run(db, now=1.0 + 13 * DAY_S)
    assert db.execute("SELECT count(*) FROM trees").fetchall() == [(1,)]
    _run(db, now=2.0 + 14 * DAY_S)
    for table in ("trees", "events", "transitions", "conversations", "quarantine", "outbox"):
        assert db.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], table


@pytest.mark.parametrize("held", ["stage", "effect"])
def test_prune_expired_tree_that_is_stopped_or_has_open_effects_stays(db: apsw.Connection, held: str) -> None:
    _tree(db, "t1", 10, stage="hard_stop" if held == "stage" else "none")
    if held == "effect":
        run_group(db, [commit(Write(op="outbox.add", row=OUTBOX))])
    _run(db, now=100 * DAY_S)
    assert _span(db, "t1") == (1, 10)


def test_prune_old_alerts_go_when_resolved_and_delivered(db: apsw.Connection) -> None:
    samples = dict(EVERY_OP)
    for key, state in (("open", "trigger"), ("over", "resolve")):
        run_group(db, [commit(Write(op="alert.save", row=samples["alert.save"] | {"key": key, "state": state}))])
    for effect, state in ((1, "delivered"), (2, "pending")):
        log = Write(op="alert_log.add", row=samples["alert_log.add"] | {"effect_id": effect})
        delivery = Write(op="delivery.add", row=samples["delivery.add"] | {"state": state})
        run_group(db, [commit(log, delivery)])
    _run(db, now=100 * DAY_S)
    assert db.execute("SELECT key FROM alerts").fetchall() == [("open",)]
    assert db.execute("SELECT effect_id FROM alert_log").fetchall() == [(2,)]


def test_piece_runs_a_pass_only_when_its_time_has_come(db: apsw.Connection, tmp_path: Path) -> None:
    time_s = [0.0]
    upkeep = Upkeep(tmp_path / FILE_NAME, Limits, clock=lambda: time_s[0], now=lambda: 1.0)
    _tree(db, "big", 3000, snapshot_seq=3000)
    assert not upkeep.piece(db)
    time_s[0] = 61.0
    while upkeep.piece(db):
        pass
    assert _span(db, "big") == (2001, 3000)
    _tree(db, "second", 3000, snapshot_seq=3000)
    assert not upkeep.piece(db)
    assert _span(db, "second") == (1, 3000)


def test_idle_folds_the_log_into_the_file_and_truncates_a_large_one(db: apsw.Connection, tmp_path: Path) -> None:
    upkeep = Upkeep(tmp_path / FILE_NAME, Limits, clock=lambda: 0.0, now=lambda: 1.0)
    log = tmp_path / (FILE_NAME + "-wal")
    run_group(db, [commit(*(event(seq, body="x" * 9000) for seq in range(8000)))])
    upkeep.wrote(db, 1)
    assert log.stat().st_size > 64 * 1024 * 1024
    upkeep.idle(db)
    assert log.stat().st_size == 0
    assert (tmp_path / FILE_NAME).stat().st_size > 64 * 1024 * 1024
