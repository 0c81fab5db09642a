"""Feeds systemd's watchdog, but only while the whole way through bus, keeper and every essential child answers.

A heartbeat is such a probe: root asks over the bus, the child answers through its loop and its actors (the keeper
through its database). So the watchdog needs no traffic of its own, only that the answers are recent.
"""

from __future__ import annotations

import asyncio

from supervisor.processes import Processes
from supervisor.strategy import ChildState
from supervisor.systemd import Systemd
from supervisor.tree import Tree

__all__ = ["Watchdog"]

_CHECKS_PER_TIMEOUT = 3
_LEAST_WINDOW_S = 2.0  # heartbeats are a second apart: a shorter window would miss them


class Watchdog:
    """``run`` says WATCHDOG=1 in every third of the timeout in which all essential children answered."""

    def __init__(self, systemd: Systemd, tree: Tree, processes: Processes) -> None:
        self._systemd = systemd
        self._tree = tree
        self._processes = processes
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Run until cancelled; return at once when systemd watches nothing."""
        timeout_s = self._systemd.watchdog_s
        if timeout_s is None:
            return
        interval_s = timeout_s / _CHECKS_PER_TIMEOUT
        while True:
            await asyncio.sleep(interval_s)
            if self.healthy(interval_s):
                self._systemd.alive()

    def healthy(self, interval_s: float) -> bool:
        """Say whether every essential child that claims to serve has answered within ``interval_s``.

        One that is being restarted is root at work: how long that may last is give_up_s, not the watchdog's timeout.
        """
        since = self._clock() - max(interval_s, _LEAST_WINDOW_S)
        serving = [s.id for s in self._tree.standings() if s.state is ChildState.READY]
        return all(self._processes.answered_since(child, since) for child in serving if child in self._tree.essential)
