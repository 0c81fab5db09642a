"""``python -m tests.conformance --seed N --count M``: our supervisors against OTP's, in figures and differences.

COUNT scenarios go through the pure core, COUNT/40 of them through real processes, COUNT/20 through actors. The last
line is ``N passed, N failed``; the exit code is 1 when something failed.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.conformance import otp
from tests.conformance.actor_world import actor_traces
from tests.conformance.compare import Ours, compare, core_traces, seeds
from tests.conformance.process_world import process_traces

_SHOWN = 5


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Compare with OTP's supervisor.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000, help="scenarios through the pure core")
    parser.add_argument("--process", type=int, default=None, help="of them through processes (default: COUNT/40)")
    parser.add_argument("--actor", type=int, default=None, help="of them through actors (default: COUNT/20)")
    arguments = parser.parse_args()
    if not otp.available():
        print(f"conformance: no erl found; install it: {otp.INSTALL}")
        return 1 if otp.required() else 0
    process = arguments.count // 40 if arguments.process is None else arguments.process
    actor = arguments.count // 20 if arguments.actor is None else arguments.actor
    plan: list[tuple[str, int, Ours]] = [
        ("core", arguments.count, core_traces),
        ("process", process, process_traces),
        ("actor", actor, actor_traces),
    ]
    passed = failed = 0
    for name, count, ours in plan:
        good, bad = _run(name, seeds(arguments.seed, count), ours)
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _run(name: str, wanted: list[int], ours: Ours) -> tuple[int, int]:
    begin = time.monotonic()
    outcome = compare(wanted, ours)
    print(*outcome.texts[:_SHOWN], sep="\n", end="\n" if outcome.texts else "")
    for seed in outcome.repeated:
        print(f"{name}: seed {seed} differed once and agreed when repeated")
    print(
        f"{name}: {len(wanted)} scenarios, {len(outcome.failed)} differ, {time.monotonic() - begin:.1f} s", flush=True
    )
    return outcome.passed, len(outcome.failed)


if __name__ == "__main__":
    sys.exit(main())
