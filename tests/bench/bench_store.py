"""Commits a second through a real keeper: many senders at once (grouped) against one after the other.

Run: ``python -m tests.bench.bench_store``. The ratio of the two, taken in one run on one machine, is what counts.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from tests.unit.store.keeper_process import Bench, bench
from tests.unit.store.samples import event

__all__ = ["main"]

SENDERS = 64
GROUPED = 6000
ALONE = 600
ROUNDS = 3


async def _grouped(made: Bench, first: int, commits: int, *, durable: bool) -> float:
    numbers = iter(range(first, first + commits))

    async def sender() -> None:
        for number in numbers:
            await made.commit(event(number), durable=durable)

    started = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(SENDERS)))
    return commits / (time.perf_counter() - started)


async def _alone(made: Bench, first: int, commits: int, *, durable: bool) -> tuple[float, float]:
    times_s = []
    for number in range(first, first + commits):
        started = time.perf_counter()
        await made.commit(event(number), durable=durable)
        times_s.append(time.perf_counter() - started)
    return commits / sum(times_s), statistics.quantiles(times_s, n=100)[98] * 1000


async def _measure(directory: Path) -> None:
    async with bench(directory) as made:
        await made.start()
        base = 0
        for durable in (False, True):
            grouped, alone, worst_ms = [], [], []
            for _ in range(ROUNDS):
                rate, p99_ms = await _alone(made, base, ALONE, durable=durable)
                alone.append(rate)
                worst_ms.append(p99_ms)
                grouped.append(await _grouped(made, base + ALONE, GROUPED, durable=durable))
                base += ALONE + GROUPED
            ratio = statistics.median(grouped) / statistics.median(alone)
            print(
                f"durable={durable!s:5}  grouped {statistics.median(grouped):7.0f}/s  one by one"
                f" {statistics.median(alone):6.0f}/s (p99 {statistics.median(worst_ms):.1f} ms)  ratio {ratio:.1f}"
            )
        await made.end()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tw-") as directory:
        asyncio.run(_measure(Path(directory)))


if __name__ == "__main__":
    main()
