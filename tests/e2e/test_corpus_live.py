"""Every conversation of the corpora, posted to a running daemon, is judged as the replay judges it offline."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.daemon_rig import daemon

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("corpus")]

CORPUS = Path(__file__).parents[1] / "corpus"
FILES = ["sessions.jsonl.gz", "native.jsonl.gz", "scenarios.jsonl"]
BATCH = 900


def lines(name):
    path = CORPUS / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from map(json.loads, filter(str.strip, file))


def world(prefix, line):
    """A line of a corpus is its own world: ids get a prefix, a missing time is a second after the one before."""
    t = -1.0
    for event in line["events"]:
        event = dict(event)
        t = event.setdefault("t", t + 1.0)
        for name in ("session_id", "parent_session_id"):
            if event.get(name):
                event[name] = f"{prefix}/{event[name]}"
        yield event


def offline(name):
    done = subprocess.run(
        [sys.executable, "-m", "actors.cli", "replay", "--json", str(CORPUS / name)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return {row["conversation"]: row["transitions"] for row in map(json.loads, done.stdout.splitlines())}


def essence(prefix, transition):
    same = {key: transition[key] for key in ("t", "before", "after", "reason", "tree_verdict", "evidence")}
    return transition["conversation"].removeprefix(f"{prefix}/"), json.dumps(same, sort_keys=True)


def post(client, events):
    for start in range(0, len(events), BATCH):
        answer = client.post("/v1/progress", json=events[start : start + BATCH])
        assert answer.status_code == 202, answer.text
        assert answer.json()["accepted"] == len(events[start : start + BATCH]), answer.text


def live_transitions(client, prefix, events):
    found = []
    for tree in trees_of(client, events):
        found += client.get(f"/v1/trees/{tree}").raise_for_status().json()["transitions"]
    return sorted((essence(prefix, one) for one in found), key=str)


def trees_of(client, events):
    """Return the ids of the trees that the events are in now (late parents have moved some)."""
    parents = {}
    for event in events:
        parents.setdefault(event["session_id"], None)
        if event.get("parent_session_id"):
            parents[event["session_id"]] = event["parent_session_id"]
    roots = {top(name, parents) for name in parents}
    return sorted(roots)


def top(name, parents):
    seen = set()
    while parents.get(name) and name not in seen:
        seen.add(name)
        name = parents[name]
    return name


@pytest.mark.parametrize("name", FILES)
def test_corpus_live_gives_the_transitions_of_the_replay(name):
    expected = offline(name)
    different = []
    with daemon() as one, one.client("operator") as client, one.client("sensor") as sensor:
        for number, line in enumerate(lines(name)):
            prefix = f"{name}/{number}"
            events = list(world(prefix, line))
            post(sensor, events)
            live = live_transitions(client, prefix, events)
            want = sorted((essence(prefix, t) for t in expected[line["conversation"]]), key=str)
            if live != want:
                different.append((line["conversation"], live, want))
        assert len(expected) == number + 1
    assert not different, f"{len(different)} differ, the first: {different[0]}"
