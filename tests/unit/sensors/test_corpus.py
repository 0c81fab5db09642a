"""The corpora as a floor: what the present rules catch, and that they leave working sessions alone.

The numbers are floors and ceilings, not goals: wider rules move them, and a change that makes one worse fails here.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.knobs import Knobs
from actors.sensors.readers.formats import read_file
from actors.sensors.readers.records import World
from actors.sensors.replay import replay_world
from tests.corpus import cross_validation

CORPUS = cross_validation.HERE


def labels(path: Path) -> dict[str, dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = map(json.loads, text.splitlines())
    return {row["conversation"]: row for row in rows if row.get("tier", "core") == "core"}


def scores(name: str) -> Counter[str]:
    """Count conversations by label, those flagged, and those that reach looping."""
    wanted, found = labels(CORPUS / name), Counter[str]()
    for world in read_file(CORPUS / name):
        assert isinstance(world, World), world
        for row in replay_world(world, Knobs().progress):
            label = wanted.get(row["conversation"])
            if label is None:
                continue
            at_end = label.get("judge") == "end"
            flagged = row["verdict"] != "ok" if at_end else row["first_flag"] is not None
            found[label["label"]] += 1
            found[f"{label['label']} flagged"] += flagged
            found[f"{label['label']} looping"] += row["worst"] == "looping"
    return found


@pytest.mark.parametrize(
    ("name", "stuck", "caught", "looping", "ok", "false"),
    [
        ("sessions.jsonl.gz", 35, 35, 30, 488, 1),
        ("native.jsonl.gz", 0, 0, 0, 162, 0),
        ("scenarios.jsonl", 70, 69, 44, 60, 0),
    ],
)
def test_corpus_catches_no_less_and_no_working_session_loops(
    name: str, stuck: int, caught: int, looping: int, ok: int, false: int
) -> None:
    found = scores(name)

    assert (found["stuck"], found["ok"]) == (stuck, ok)
    assert found["stuck flagged"] >= caught
    assert found["stuck looping"] >= looping
    assert found["ok flagged"] <= false
    assert found["ok looping"] == 0


@pytest.fixture(scope="module")
def cases() -> list[cross_validation.Case]:
    return cross_validation.cases()


@pytest.mark.parametrize("by", ["source", "kind"])
def test_corpus_judged_with_thresholds_chosen_on_other_sources_and_kinds(
    cases: list[cross_validation.Case], by: str
) -> None:
    found = Counter[str]()
    for _, held, rest in cross_validation.folds(cases, by):
        thresholds = cross_validation.chosen(rest)
        for case in held:
            label = "stuck" if case.stuck else "false"
            found[f"{case.corpus} {label}"] += cross_validation.flagged(case, thresholds)

    assert found["sessions.jsonl.gz stuck"] == 35
    assert found["scenarios.jsonl stuck"] >= 67
    assert found["sessions.jsonl.gz false"] <= 1
    assert found["native.jsonl.gz false"] + found["scenarios.jsonl false"] == 0


def test_corpus_shipped_thresholds_lie_above_what_working_sessions_reach(cases: list[cross_validation.Case]) -> None:
    """With room: only one working conversation of all comes within a quarter of any threshold."""
    near = {
        case.name
        for case in cases
        for knob, threshold in cross_validation.shipped().items()
        if not case.stuck and case.peaks[knob] > 0.75 * threshold
    }

    assert len(near) <= 5, near
