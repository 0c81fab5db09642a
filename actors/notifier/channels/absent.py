"""A channel that is configured but cannot be built: it stands in and says why."""

from __future__ import annotations

from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Failure, Rejected

__all__ = ["Absent"]


class Absent:
    """Rejects everything; ``why`` is a sentence."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def deliver(self, alert: Alert, now: float) -> Answer:
        return Rejected(Failure.BLIND, self._why)

    async def sight(self) -> str:
        return self._why

    async def close(self) -> None:
        return None
