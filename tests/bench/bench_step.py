"""Events per second through the pure step on one core, and bytes per conversation, at 1x, 10x and 100x the length.

usage: python -m tests.bench.bench_step [CALLS]   (CALLS of the shortest conversation, default 200)

Half of the longer conversations are flagged most of the time, which costs more than a quiet one. Processor time is
counted, not the clock's: other work on the machine still shows, by way of the caches. The best of many short rounds is
shown. Last come the real sessions of the corpora: events a second, and bytes of a conversation at its end.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import sys
import time
from collections import deque
from pathlib import Path

from actors.knobs import Knobs
from actors.messages import ProgressEvent
from actors.tree.snapshot import dump
from actors.tree.state import TreeState, new_tree
from actors.tree.step import step

SCALES = (1, 10, 100)
KNOBS = Knobs().progress
CORPUS = Path(__file__).parents[1] / "corpus"


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def conversation(calls: int, seed: int) -> list[ProgressEvent]:
    """Mixed work: mostly new reads, some repeats and failures, now and then a landing."""
    chance = random.Random(seed)
    return [
        ProgressEvent(
            t=float(index),
            session_id="root",
            tool="read",
            fingerprint=digest("call", what := int(chance.expovariate(1 / 40))),
            slice=digest("slice", what),
            target=f"src/file{what % 50}.py",
            result=digest("result", what, chance.randrange(3)),
            exit=int(chance.random() < 0.1),
            landed=chance.random() < 0.004,
            cost_usd=0.001,
        )
        for index in range(calls)
    ]


def size_of(thing: object) -> int:
    """Bytes of an object and all it reaches, counted once; classes and modules left out."""
    seen: set[int] = set()
    todo, total = deque([thing]), 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, dict):
            todo.extend(one.keys())
            todo.extend(one.values())
        elif isinstance(one, (list, tuple, deque, set)):
            todo.extend(one)
        elif hasattr(type(one), "__slots__") and not isinstance(one, str):
            todo.extend(getattr(one, name) for name in type(one).__slots__ if hasattr(one, name))
    return total


def run(events: list[ProgressEvent], root: str = "root") -> tuple[float, TreeState]:
    """Return events per second and the state at the end."""
    knobs, tree = KNOBS, new_tree(root)
    start = time.process_time()
    for event in events:
        step(tree, event, knobs)
    return len(events) / (time.process_time() - start), tree


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for scale in SCALES:
        events = conversation(calls * scale, seed=scale)
        rate, tree = max((run(events) for _ in range(max(3, 300 // scale))), key=lambda one: one[0])
        print(
            f"{scale:4}x {len(events):7} events  {rate:9,.0f} events/s  {size_of(tree.conversations['root']):7,} bytes "
            f"in memory  {len(dump(tree)):7,} in a snapshot"
        )
    _corpora()


def _corpora() -> None:
    worlds = [
        [ProgressEvent.model_validate(one) for one in json.loads(line)["events"]]
        for name in ("sessions.jsonl.gz", "native.jsonl.gz")
        for line in gzip.decompress((CORPUS / name).read_bytes()).splitlines()
    ]
    count = sum(map(len, worlds))
    rates, trees = [], []
    for _ in range(10):
        done = [run(world, world[0].session_id) for world in worlds]
        trees = [tree for _, tree in done]
        rates.append(count / sum(len(world) / rate for world, (rate, _) in zip(worlds, done, strict=True)))
    sizes = sorted(size_of(one) for tree in trees for one in tree.conversations.values())
    print(
        f"corpora {count:6} events  {max(rates):9,.0f} events/s  bytes in memory: half of the conversations below "
        f"{sizes[len(sizes) // 2]:,}, nine tenths below {sizes[len(sizes) * 9 // 10]:,}, all below {sizes[-1]:,}"
    )


if __name__ == "__main__":
    main()
