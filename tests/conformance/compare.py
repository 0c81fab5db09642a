"""Compares traces, and what both the command line and the tests do with a run of scenarios.

A scenario whose traces differ is run once more on both sides: a machine that stands still for 40 ms lets a budget run
out that should not have. A real difference is there again, since a seed says everything.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.conformance import otp, words
from tests.conformance.core_world import CoreWorld
from tests.conformance.generate import Scenario, scenario
from tests.conformance.rig import Rig

__all__ = ["Ours", "Outcome", "compare", "core_traces", "seeds"]

Ours = Callable[[list[int]], dict[int, list[str]]]
"""Runs the scenarios of these seeds in one of our worlds."""


_theirs: dict[int, list[str]] = {}
"""OTP's traces by seed: the same for all of our worlds."""


@dataclass
class Outcome:
    """How a comparison went."""

    passed: int = 0
    failed: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def seeds(seed: int, count: int) -> list[int]:
    """Return the seeds of the scenarios of a run: no two runs share one."""
    return [seed * 1_000_000 + number for number in range(count)]


def core_traces(wanted: list[int]) -> dict[int, list[str]]:
    """Run scenarios through the pure core, on all cores."""
    workers = len(os.sched_getaffinity(0))
    if len(wanted) < 500 or workers < 2:
        return {seed: _core_trace(seed) for seed in wanted}
    with ProcessPoolExecutor(workers) as pool:
        return dict(zip(wanted, pool.map(_core_trace, wanted, chunksize=100), strict=True))


def _core_trace(seed: int) -> list[str]:
    try:
        return asyncio.run(Rig(scenario(seed), CoreWorld).run())
    except Exception:  # noqa: BLE001 - a crash of the core is a difference like any other
        return traceback.format_exc().splitlines()


def compare(wanted: list[int], ours: Ours, *, again: bool = True) -> Outcome:
    """Run the scenarios on both sides and compare; ``again``: run those that differ once more."""
    outcome = Outcome()
    differing = _differing(wanted, ours, outcome)
    outcome.passed = len(wanted) - len(differing)
    outcome.failed = differing
    if differing and again:
        outcome.texts.clear()
        for seed in differing:
            del _theirs[seed]
        outcome.failed = _differing(differing, ours, outcome)
        outcome.repeated = sorted(set(differing) - set(outcome.failed))
        outcome.passed += len(outcome.repeated)
    return outcome


def _differing(wanted: list[int], ours: Ours, outcome: Outcome) -> list[int]:
    cases = {seed: scenario(seed) for seed in wanted}
    unknown = [case for seed, case in cases.items() if seed not in _theirs]
    _theirs.update(otp.traces(unknown) if unknown else {})
    theirs, mine = _theirs, ours(wanted)
    found = []
    for seed, case in cases.items():
        left, right = _normal(case, theirs[seed]), _normal(case, mine[seed])
        if left != right:
            found.append(seed)
            diff = difflib.unified_diff(left, right, f"OTP, seed {seed}", f"ours, seed {seed}", n=8, lineterm="")
            outcome.texts.append("\n".join(diff))
    return found


def _normal(case: Scenario, trace: list[str]) -> list[str]:
    """A dynamic supervisor stops its children all at once: those ends have no order."""
    dynamic = {sup.id for sup in words.supervisors_of(case) if sup.strategy == "simple_one_for_one"}
    lines: list[str] = []
    together: list[str] = []
    for line in trace:
        group, _, text = line.partition("\t")
        name = re.sub(r"[.].*", "", group.rpartition("/")[2])
        if name in dynamic and text.startswith(("end ", "report shutdown_error ")):
            together.append(line)
        else:
            lines += [*sorted(together), line]
            together = []
    return lines + sorted(together)
