"""Crash reports as OTP words them (supervisor, context, reason, offender), with the last lines the child said.

Kept in memory, the newest ``limit`` of them; nothing blocks. Root owns nothing it could lose: they are served over the
bus to whoever stores them.
"""

from __future__ import annotations

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
        self._reports: deque[CrashReport] = deque(maxlen=limit)
        self.tally: Counter[str] = Counter()

    def add(self, report: CrashReport) -> None:
        """Keep a report, dropping the oldest one when there are too many."""
        self._reports.append(report)
        self.tally[report.offender] += report.context in ("child_terminated", "start_error")

    def as_json(self) -> dict[str, Any]:
        """Return ``{"reports": [...oldest first], "deaths": {child: n}}``."""
        return {"reports": [asdict(report) for report in self._reports], "deaths": dict(self.tally)}
