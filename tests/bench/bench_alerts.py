"""What an alert storm costs: 1,000 trees at once with one channel that hangs, and admission beside it.

    python -m tests.bench.bench_alerts

A whole daemon with real channels against services on loopback. Read the ratio of admission's latency in the storm to
that in the quiet: the sender of the storm takes its share of the processors too. Prints one JSON object.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from tests.e2e.alert_storm import TREES, run_storm

__all__ = ["main"]


def main() -> None:
    figures = run_storm()
    quiet, storm = figures.quiet_ms[0], figures.storm_ms[0]
    ratios = {"admission_p50_ratio": round(storm / quiet, 2), "alerts_per_s": round(TREES / figures.raised_s)}
    print(json.dumps({key: _short(value) for key, value in asdict(figures).items()} | ratios, indent=2))


def _short(value: object) -> object:
    return round(value, 2) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
