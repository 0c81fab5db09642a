"""Crash reports as OTP words them (supervisor, context, reason, offender), with the last lines the child said.

Kept in memory, the newest ``limit`` of them; nothing blocks. Root owns nothing it could lose: they are served over the
bus to whoever stores them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CrashReport", "Reports"]


@dataclass(frozen=True, slots=True)
class CrashReport:
    """One thing that went wrong with one child. ``at`` is epoch seconds."""

    at: float
    supervisor: str
    context: str
    reason: str
    offender: str
    pid: int | None
    log: tuple[str, ...]

    def sentence(self) -> str:
        """Say it in one line."""
        who = f"{self.offender} (pid {self.pid})" if self.pid is not None else self.offender
        return f"{self.supervisor}: {self.context.replace('_', ' ')}: {who}: {self.reason}"


class Reports:
    """The newest reports and how often each child has ended."""

    def __init__(self, limit: int = 200) -> None:
        self._reports: deque[tuple[int, CrashReport]] = deque(maxlen=limit)
        self._news = asyncio.Event()
        self.last = 0
        self.tally: Counter[str] = Counter()

    def add(self, report: CrashReport) -> None:
        """Keep a report under the next number, dropping the oldest one when there are too many."""
        self.last += 1
        self._reports.append((self.last, report))
        self.tally[report.offender] += report.context in ("child_terminated", "start_error")
        self._news.set()
        self._news = asyncio.Event()

    async def newer(self, after: int, wait_s: float) -> None:
        """Return when there is a report with a number above ``after``, or after ``wait_s``."""
        if self.last > after or wait_s <= 0:
            return
        try:
            await asyncio.wait_for(self._news.wait(), wait_s)
        except TimeoutError:
            return

    def as_json(self, after: int = 0) -> dict[str, Any]:
        """Return ``{"reports": [{n, ...}, oldest first], "last": n, "deaths": {child: n}}``."""
        newer = [{"n": n, **asdict(report)} for n, report in self._reports if n > after]
        return {"reports": newer, "last": self.last, "deaths": dict(self.tally)}
