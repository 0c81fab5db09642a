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

CORPUS = Path(__file__).parents[2] / "corpus"


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
