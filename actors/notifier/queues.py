"""What waits for its turn on each dedup key: alert events that want an answer, and looks that want none.

One at a time per key, in order of arrival; keys do not wait for each other. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from actors.notifier.requests import Raise, Raised
from supervisor.bus.errors import Refused

__all__ = ["Entry", "KeyQueues"]


@dataclass(frozen=True)
class Entry:
    """``raised`` None: a look at the key; ``answer`` None: nobody waits."""

    raised: Raise | None = None
    answer: asyncio.Future[Raised] | None = None


class KeyQueues:
    """Queues by key; the head of each is in work."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Entry]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def put(self, key: str, entry: Entry) -> bool:
        """Append; return whether it is the head now. A look behind another look is left out."""
        waiting = self._waiting.setdefault(key, deque())
        if entry.raised is None and len(waiting) > 1 and waiting[-1].raised is None:
            return False
        waiting.append(entry)
        return len(waiting) == 1

    def head(self, key: str) -> Entry | None:
        waiting = self._waiting.get(key)
        return waiting[0] if waiting else None

    def finish(self, key: str, answer: Raised | Refused) -> None:
        """Take the head away and answer who waits for it, if anybody still does."""
        entry = self._waiting[key].popleft()
        if not self._waiting[key]:
            del self._waiting[key]
        future = entry.answer
        if future is None or future.done():
            return
        if isinstance(answer, Refused):
            future.set_exception(answer)
        else:
            future.set_result(answer)
