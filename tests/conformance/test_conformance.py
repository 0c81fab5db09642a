"""Our supervisors do what OTP's does: a fixed seed and one of the day; ``make conformance`` runs as many as wanted."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.conformance import otp
from tests.conformance.actor_world import actor_traces
from tests.conformance.compare import Ours, compare, core_traces, seeds
from tests.conformance.mutants import MUTANTS, Mutant, broken_copy, differing
from tests.conformance.process_world import process_traces

FIXED = 1
SOME_MUTANTS = MUTANTS[3::6]
WORLDS = {"core": (300, core_traces), "actor": (60, actor_traces), "process": (20, process_traces)}


@pytest.fixture(autouse=True)
def _erlang() -> None:
    if not otp.available():
        message = f"no erl found; install it: {otp.INSTALL}"
        if otp.required():
            pytest.fail(message)
        pytest.skip(message)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed seed", "random seed"])
@pytest.mark.xdist_group("conformance")
def test_random_scenarios_leave_the_same_trace_as_otp(world: str, fixed: bool) -> None:
    count, ours = WORLDS[world]
    seed = FIXED if fixed else secrets.randbelow(1_000_000)
    print(f"seed {seed}: make conformance SEED={seed}")
    assert _failures(seeds(seed, count), ours) == ""


def _failures(wanted: list[int], ours: Ours) -> str:
    return "\n".join(compare(wanted, ours).texts[:3])


def test_difference_is_found_reported_and_found_again() -> None:
    wanted = seeds(FIXED, 3)

    def wrong(these: list[int]) -> dict[int, list[str]]:
        traces = core_traces(these)
        if wanted[1] in traces:
            traces[wanted[1]].append("root\tone more")
        return traces

    outcome = compare(wanted, wrong)
    assert (outcome.passed, outcome.failed, outcome.repeated) == (2, [wanted[1]], [])
    assert f"+++ ours, seed {wanted[1]}" in outcome.texts[0]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.wrong)
def test_mutant_still_fits_the_core(mutant: Mutant, tmp_path: Path) -> None:
    broken_copy(mutant, tmp_path)


@pytest.mark.parametrize("mutant", SOME_MUTANTS, ids=lambda mutant: mutant.wrong)
@pytest.mark.xdist_group("conformance")
def test_core_with_a_mistake_is_found_out(mutant: Mutant) -> None:
    """All of them: python -m tests.conformance.mutants."""
    assert differing(mutant, seeds(FIXED, WORLDS["core"][0])) > 0
