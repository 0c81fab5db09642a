"""The restart window of OTP: trips when more than ``intensity`` restarts lie within the last ``period_s`` seconds.

Pure: the caller passes a monotonic ``now``. The window is inclusive, as in `supervisor:add_restart/1`.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Window"]


class Window:
    """Counts restarts; remembers at most ``intensity`` + 1 of them, or as many as an earlier intensity asked for."""

    def __init__(self, intensity: int, period_s: float) -> None:
        self._intensity = intensity
        self._period_s = period_s
        self._restarts: deque[float] = deque(maxlen=intensity + 1)

    def add(self, now: float) -> bool:
        """Count one restart attempt; True when it is one too many."""
        self._restarts.append(now)
        while now - self._restarts[0] > self._period_s:
            self._restarts.popleft()
        return len(self._restarts) > self._intensity

    def resized(self, intensity: int, period_s: float) -> Window:
        """Return a window of other bounds that remembers the same restarts: the next bounds may be wider again."""
        fresh = Window(intensity, period_s)
        fresh._restarts = deque(self._restarts, max(self._restarts.maxlen or 0, intensity + 1))
        return fresh
