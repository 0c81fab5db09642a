"""What keeps an alert from a channel for a while: silences, quiet hours, a budget of messages. Pure.

Silences and quiet hours follow the wall clock, budgets the monotonic one, so that a clock that jumps neither fills nor
freezes them. Everything tells how long it lasts from now, never until when.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from actors.channel_knobs import Quiet
from actors.messages import Frozen, Severity
from actors.notifier.alert import RANK, Alert

__all__ = ["Bucket", "Moment", "Silence", "quiet_for_s", "silenced_for_s"]

_LEAST_S = 1.0


class Moment(NamedTuple):
    """Now on both clocks: epoch seconds, and seconds that only go forward."""

    wall: float
    mono: float


class Silence(Frozen):
    """Mute what matches all that is given; ``severity`` mutes up to it. ``until`` is epoch seconds."""

    id: int
    key: str | None = None
    source: str | None = None
    severity: Severity = Severity.CRITICAL
    until: float
    by: str = ""
    note: str = ""

    def covers(self, alert: Alert) -> bool:
        return (
            self.key in (None, alert.key, alert.group)
            and self.source in (None, alert.source)
            and RANK[alert.severity] <= RANK[self.severity]
        )


def silenced_for_s(alert: Alert, silences: Iterable[Silence], wall: float) -> float | None:
    """Return for how long the alert is silenced, None when it is not."""
    left = [silence.until - wall for silence in silences if silence.until > wall and silence.covers(alert)]
    return max(left, default=None)


def quiet_for_s(quiet: Quiet | None, wall: float) -> float | None:
    """Return for how long the quiet hours last, None outside of them."""
    if quiet is None:
        return None
    start, end, zone = quiet.span
    local = datetime.fromtimestamp(wall, zone)
    clock = local.time()
    inside = start <= clock < end if start <= end else clock >= start or clock < end
    if not inside:
        return None
    day = local.date() + timedelta(days=1 if clock >= end else 0)
    return max(datetime.combine(day, end, zone).timestamp() - wall, _LEAST_S)


@dataclass
class Bucket:
    """A budget of messages: ``burst`` at once, one more every ``every_s``."""

    burst: int
    every_s: float
    level: float
    at: float

    @classmethod
    def full(cls, burst: int, every_s: float, mono: float) -> Bucket:
        return cls(burst, every_s, burst, mono)

    def wait_s(self, mono: float) -> float:
        """Return the seconds until a message may go, 0 for now."""
        return max(0.0, (1.0 - self._level(mono)) * self.every_s)

    def take(self, mono: float) -> None:
        """Count one message; what passes without a budget puts nobody into debt, or no digest would come for long."""
        self.level = max(self._level(mono) - 1.0, 0.0)
        self.at = max(mono, self.at)

    def resize(self, burst: int, every_s: float, mono: float) -> None:
        """Use other limits from now on; what was spent stays spent."""
        self.level, self.at = min(self._level(mono), burst), max(mono, self.at)
        self.burst, self.every_s = burst, every_s

    def _level(self, mono: float) -> float:
        return min(self.burst, self.level + max(0.0, mono - self.at) / self.every_s)
