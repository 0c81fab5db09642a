"""The corpora with noise: unrelated calls do not hide a loop, and a few repeats do not make one."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.messages import ProgressEvent
from actors.sensors.readers.records import World
from actors.sensors.replay import replay_world
from tests.unit.tree.streams import KNOBS, digest

CORPUS = Path(__file__).parents[2] / "corpus"
Mutation = Callable[[list[dict[str, Any]], random.Random], Iterable[dict[str, Any]]]


def lines(name: str, label: str) -> list[dict[str, Any]]:
    path = CORPUS / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = [json.loads(row) for row in text.splitlines()]
    return [row for row in rows if row["label"] == label and row.get("tier", "core") == "core"]


def with_unrelated(events: list[dict[str, Any]], chance: random.Random) -> Iterator[dict[str, Any]]:
    """Put a successful call of something new before 12% of the events."""
    for index, one in enumerate(events):
        if chance.random() < 0.12:
            yield _kept(one, "session_id", "t") | {
                "tool": "read",
                "fingerprint": digest("unrelated", index),
                "target": f"unrelated{index}.py",
                "result": digest("found", index),
                "exit": 0,
            }
        yield one


def with_repeats(events: list[dict[str, Any]], chance: random.Random) -> Iterator[dict[str, Any]]:
    """Repeat one of the last thirty calls after 4% of the events; the repeat lands nothing."""
    said: list[dict[str, Any]] = []
    for one in events:
        said.append(one)
        yield one
        calls = [past for past in said[-30:] if past.get("kind", "tool") == "tool"]
        if calls and chance.random() < 0.04:
            yield chance.choice(calls) | _kept(one, "t") | {"landed": False}


def _kept(one: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: one[name] for name in names if name in one}


def flagged(name: str, label: str, mutation: Mutation, seed: int) -> tuple[int, int, int]:
    """Return how many conversations there are, how many are flagged and how many loop."""
    chance, count, hits, loops = random.Random(seed), 0, 0, 0
    for line in lines(name, label):
        events = tuple(ProgressEvent.model_validate(one) for one in mutation(line["events"], chance))
        row = next(iter(replay_world(World(line["conversation"], "test", events), KNOBS)))
        count, hits, loops = count + 1, hits + (row["first_flag"] is not None), loops + (row["worst"] == "looping")
    return count, hits, loops


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["sessions.jsonl.gz", "scenarios.jsonl"])
def test_stuck_session_with_unrelated_calls_is_still_caught(name: str, seed: int) -> None:
    _, without, _ = flagged(name, "stuck", lambda events, _: events, seed)
    _, hits, _ = flagged(name, "stuck", with_unrelated, seed)

    assert hits >= 0.95 * without


@pytest.mark.parametrize("name", ["sessions.jsonl.gz", "native.jsonl.gz", "scenarios.jsonl"])
def test_working_session_with_a_few_repeats_is_left_alone(name: str) -> None:
    count, hits, loops = flagged(name, "ok", with_repeats, seed=1)

    assert hits <= 0.01 * count
    assert loops == 0
