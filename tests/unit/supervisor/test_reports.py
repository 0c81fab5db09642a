"""Crash reports in root: numbered, bounded, and waited for."""

import asyncio
from dataclasses import replace

from supervisor.reports import CrashReport, Reports

DEATH = CrashReport(1.0, "root", "child_terminated", "signal 9", "edge", 7, ("last words",))


def test_reports_are_numbered_and_the_oldest_dropped():
    reports = Reports(limit=2)
    for reason in ("a", "b", "c"):
        reports.add(replace(DEATH, reason=reason))
    told = reports.as_json()
    assert [(one["n"], one["reason"]) for one in told["reports"]] == [(2, "b"), (3, "c")]
    assert (told["last"], told["deaths"]) == (3, {"edge": 3})
    assert [one["n"] for one in reports.as_json(after=2)["reports"]] == [3]


def test_slow_retry_is_no_death():
    reports = Reports()
    reports.add(replace(DEATH, context="slow_retry"))
    assert reports.as_json()["deaths"].get("edge", 0) == 0


def test_newer_waits_for_the_next_report():
    async def case():
        reports = Reports()
        reports.add(DEATH)
        await reports.newer(0, 60)
        waiting = asyncio.create_task(reports.newer(1, 60))
        await asyncio.sleep(0)
        assert not waiting.done()
        reports.add(DEATH)
        await waiting
        await reports.newer(2, 0)
        await reports.newer(2, 0.01)

    asyncio.run(asyncio.wait_for(case(), 5))
