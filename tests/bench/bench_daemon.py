"""The daemon as a whole: start to READY, memory when idle, and how long a killed child is away.

``away`` is the time from kill -9 to the first answer that the child's work is part of; the ratio compares it with the
time a fresh interpreter needs only to import the same modules, which the fork server saves.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

from actors.application import PRELOAD
from tests.e2e.daemon_rig import Daemon
from tests.e2e.test_faults import CONFIG, event, family, pid_of

KILLS = 8


def pss_kib(pid: int) -> int:
    """Return the proportional set size of one process, shared pages divided by their users."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(text.split("Pss:")[1].split()[0])


def away_s(one: Daemon, child: str, numbers: itertools.count) -> float:  # type: ignore[type-arg]
    """Kill the child; return the seconds until it is ready again and an event is taken."""
    old = pid_of(one, child)
    with one.client("sensor") as client:
        one.kill(child)
        began = time.perf_counter()
        while True:
            try:
                taken = client.post("/v1/progress", json=[event(f"bench-{child}", next(numbers))]).status_code == 202
            except httpx.HTTPError:
                taken = False
            if taken and pid_of(one, child) not in (None, old):
                return time.perf_counter() - began


def imports_s() -> float:
    """Return how long a fresh interpreter takes to import what the fork server has loaded."""
    code = "import " + ", ".join(PRELOAD)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print the figures as JSON."""
    one = Daemon(CONFIG)
    try:
        began = time.perf_counter()
        one.start()
        start_s = time.perf_counter() - began
        assert one.process is not None
        pids = {one.process.pid, *family(one.process.pid)}
        memory = {"processes": len(pids), "pss_mib": round(sum(map(pss_kib, pids)) / 1024, 1)}
        numbers = itertools.count()
        fresh_s = statistics.median(imports_s() for _ in range(3))
        away: dict[str, dict[str, float]] = {}
        pooled: list[float] = []
        for child in ("keeper", "control", "notifier", "forest-0", "clients", "edge"):
            taken = sorted(away_s(one, child, numbers) for _ in range(KILLS))
            pooled += taken
            away[child] = {
                "median_ms": round(statistics.median(taken) * 1000),
                "worst_ms": round(taken[-1] * 1000),
                "to_fresh_imports": round(statistics.median(taken) / fresh_s, 2),
            }
        p99_s = statistics.quantiles(pooled, n=100, method="inclusive")[98]
        away["any"] = {"median_ms": round(statistics.median(pooled) * 1000), "p99_ms": round(p99_s * 1000)}
        print(json.dumps({"start_to_ready_s": round(start_s, 2), "idle": memory, "away": away}, indent=1))
    finally:
        one.close()


if __name__ == "__main__":
    main()
