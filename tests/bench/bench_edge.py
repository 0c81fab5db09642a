"""What the edge costs: events a second in batches, latency of one event and of a batch, latency of admission.

    python -m tests.bench.bench_edge [--asyncio]

A daemon of real edge, real keeper and forest doubles runs in a process of its own; this one is the sensor. The figures
are those of the HTTP side and the bus, not of the judge or the disk. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from actors.edge.auth import Scope
from tests.unit.edge import world as doubles

__all__ = ["main"]

EVENT = {
    "session_id": "s", "kind": "tool", "tool": "read", "fingerprint": "0" * 64, "target": "src/app.py", "exit": 0,
    "result": "1" * 16, "landed": False, "agent": "build", "source": "plugin",
}  # fmt: skip
BATCH = 200


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--asyncio", action="store_true", help="run the daemon on the plain loop")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.asyncio:
        doubles.LOOP = asyncio.new_event_loop
    if chosen.serve:
        doubles.run(_serve, within_s=None)
    else:
        print(json.dumps(_measure(sys.argv[1:]), indent=2))


async def _serve() -> None:
    async with doubles.world() as made:
        print(json.dumps({"url": made.url, "token": made.token(Scope.OPERATOR)}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _measure(arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.bench_edge", "--serve", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        where = json.loads(daemon.stdout.readline())
        headers = {"authorization": f"Bearer {where['token']}"}
        with httpx.Client(base_url=where["url"], headers=headers) as client:
            figures = _figures(client)
        daemon.stdin.close()
    return figures


def _figures(client: httpx.Client) -> dict[str, Any]:
    batches = [[EVENT | {"session_id": f"s{n % 20}"} for n in range(BATCH)] for _ in range(2)]
    single = _timed(300, lambda: _post(client, "/v1/progress", EVENT))
    batch = _timed(50, lambda: _post(client, "/v1/progress", batches[0]))
    admission = _timed(300, lambda: _post(client, "/v1/admission", {"conversation": "s1"}))
    return {
        "events_per_s_in_batches": round(BATCH / statistics.median(batch)),
        "single_ms": _spread(single),
        f"batch_of_{BATCH}_ms": _spread(batch),
        "admission_ms": _spread(admission),
        "batch_to_single_ratio": round(statistics.median(batch) / statistics.median(single), 1),
    }


def _post(client: httpx.Client, path: str, body: Any) -> None:
    client.post(path, json=body).raise_for_status()


def _timed(rounds: int, work: Callable[[], None]) -> list[float]:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return taken


def _spread(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {
        "p50": round(1000 * statistics.median(ordered), 2),
        "p99": round(1000 * ordered[int(len(ordered) * 0.99)], 2),
    }


if __name__ == "__main__":
    main()
