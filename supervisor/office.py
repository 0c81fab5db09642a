"""What root answers on the bus. Plain JSON both ways; every handler is short and only reads or replaces."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.children import ChildState, Standing
from supervisor.events import Ending
from supervisor.process import IGNORE

if TYPE_CHECKING:
    from supervisor.root import Root

__all__ = ["Office"]

LONGEST_WAIT_S = 60.0

_STATES = {
    ChildState.STARTING: "starting",
    ChildState.READY: "ready",
    ChildState.RESTARTING: "backoff",
    ChildState.BACKOFF: "backoff",
    ChildState.STOPPING: "stopped",
    ChildState.STOPPED: "stopped",
}


class Office:
    """Handlers of the peer ``root``."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def register(self, endpoint: Endpoint) -> None:
        """Register every kind that root answers."""
        endpoint.on("Ready", self.ready)
        endpoint.on("Ending", self.ending)
        endpoint.on("Children", self.children)
        endpoint.on("Reports", self.reports)
        endpoint.on("SettingsRendered", self.settings_rendered)

    async def ready(self, body: bytes) -> bytes:
        """A child serves: ``{"child", "pid"}``."""
        word = _read(body)
        try:
            known = self._root.processes.ready(str(word["child"]), int(word["pid"]))
        except (KeyError, TypeError, ValueError):
            raise Refused("invalid", "Ready needs child and pid") from None
        if not known:
            raise Refused("unknown_child", word["child"])
        return b"null"

    async def ending(self, body: bytes) -> bytes:
        """A child says why it is about to end: ``{"child", "pid", "ending", "reason"}``."""
        try:
            word = _read(body)
            ending = word["ending"] if word["ending"] == IGNORE else Ending(word["ending"])
            self._root.processes.farewell(str(word["child"]), int(word["pid"]), ending, str(word["reason"]))
        except (KeyError, TypeError, ValueError):
            raise Refused("invalid", "Ending needs child, pid, ending and reason") from None
        return b"null"

    async def children(self, _body: bytes) -> bytes:
        """Return how every child stands, with the addresses of the listening sockets."""
        root = self._root
        answer = {
            "children": [self._row(standing) for standing in root.tree.standings()],
            "sockets": {name: listener.address for name, listener in root.listeners.items()},
            "pid": os.getpid(),
            "since": root.since,
            "state": root.state,
        }
        return json.dumps(answer).encode()

    async def reports(self, body: bytes) -> bytes:
        """Return the crash reports after number ``after``; wait up to ``wait_s`` for one: ``{"after"?, "wait_s"?}``."""
        asked = _read(body) or {}
        try:
            after, wait_s = int(asked.get("after", 0)), float(asked.get("wait_s", 0))
        except (AttributeError, TypeError, ValueError):
            raise Refused("invalid", "Reports takes after (a number) and wait_s (seconds)") from None
        await self._root.reports.newer(after, min(wait_s, LONGEST_WAIT_S))
        return json.dumps({**self._root.reports.as_json(after), "since": self._root.since}).encode()

    async def settings_rendered(self, body: bytes) -> bytes:
        """Hand this blob to every later start of a child."""
        self._root.outfit.settings = _read(body)
        return b"null"

    def _row(self, standing: Standing) -> dict[str, Any]:
        processes = self._root.processes
        return {
            "id": standing.id,
            "pid": processes.pid(standing.id),
            "state": _STATES[standing.state],
            "restarts": processes.restarts(standing.id),
            "last_exit": processes.last_exit(standing.id),
            "supervisor": self._root.tree.supervisor_of(standing.id),
            "slow": standing.slow,
        }


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refused("invalid", f"body is no JSON: {error}") from None
