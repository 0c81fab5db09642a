"""What root stands on in the file system: its directories and its sockets, looked at again and again.

A cleaner of /tmp takes them away under a daemon that runs. Nothing that is open notices: but nobody can reach it any
more, and a child that restarts cannot join. Root then says so, stops the children in order and starts over in place
(supervisor.afresh), which makes everything anew. A look is a handful of lstat calls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor import runtime
from supervisor.afresh import AGAIN, MOST, PERIOD_S
from supervisor.reports import CrashReport

if TYPE_CHECKING:
    from supervisor.root import Root

__all__ = ["LOOK_EVERY_S", "Footing"]

LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class Footing:
    """Construct it when everything is in its place; it reports why root had to start over, if it had."""

    def __init__(self, root: Root) -> None:
        self._root = root
        runtime_dir = root.plan.runtime_dir
        bus = runtime_dir / runtime.BUS_DIRECTORY
        made = [Path(one.address) for one in root.listeners.values() if one.ours and one.listen.kind == "unix"]
        paths = (runtime_dir, runtime_dir / runtime.LOCK, bus, bus / "root.sock", *made)
        if root.afresh.why:
            # told by the new image: nobody can be reached to keep it while the old one stops
            now, name = time.time(), root.plan.supervisor.id
            root.reports.add(CrashReport(now, name, "started_over", root.afresh.why, "root", os.getpid(), ()))
        self._known = {path: _identity(path) for path in paths}

    async def run(self) -> None:
        """Look every five seconds until something is gone or this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            wrong = self._look()
            if wrong is not None:
                self._lost(wrong)
                return

    def _look(self) -> str | None:
        for path, known in self._known.items():
            found = _identity(path)
            if found != known:
                return f"{path} was {'removed' if found is None else 'replaced'}"
        return None

    def _lost(self, wrong: str) -> None:
        root = self._root
        if root.state == "stopping":
            return
        if not root.afresh.allowed:
            _log.critical("giving up: %s, more than %d times in %g minutes", wrong, MOST, PERIOD_S / 60)
            root.halt(code=1)
            return
        _log.critical("%s under the running daemon, which starts over to make it anew", wrong)
        root.afresh.why = wrong
        root.systemd.status(f"starting over: {wrong}")
        root.halt(code=AGAIN)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
