"""SIGHUP and the bus kind Reload: the settings are read anew by one child, and systemd is told before and after.

Root asks the child that the plan names (kind SettingsReload); that child renders the settings and applies them to all
processes or to none. One reload at a time, in order of request. One by signal waits until the start is complete; who
waits for an answer gets it also while a child never gets ready, which new settings may mend. Whatever comes of it,
READY=1 follows RELOADING=1: systemd would wait for it, and with a bad file everything goes on as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any

from supervisor.bus.errors import BusError, Refused, RemoteError

if TYPE_CHECKING:
    from supervisor.root import Root

__all__ = ["Reloader"]

_START_S = 3.0
_TIMEOUT_S = 15.0

_log = logging.getLogger(__name__)


class Reloader:
    """The reloads of one root. ``problem`` says what was wrong with the newest one, until one succeeds."""

    def __init__(self, root: Root) -> None:
        self.problem = ""
        self._root = root
        self._child = root.plan.reloads
        self._endpoint = root.endpoint
        self._systemd = root.systemd
        self._started = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def started(self) -> None:
        """Say that the start is complete: reloads that were asked for by now are done."""
        self._started.set()

    def on_signal(self) -> None:
        """Reload in the background; the outcome is in the log and in the status."""
        task = asyncio.get_running_loop().create_task(self._by_signal())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def on_message(self, body: bytes) -> bytes:
        """Reload; ``{"uid", "note"}`` -> what the child answers. Raises Refused."""
        if not self._child:
            raise Refused("unavailable", "this root has nobody who reloads settings")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._started.wait(), _START_S)
        return await self._reload(body)

    async def _by_signal(self) -> None:
        await self._started.wait()
        try:
            await self._reload(json.dumps({"uid": os.getuid(), "note": "SIGHUP"}).encode())
        except Refused:
            return  # logged, and in the status

    async def _reload(self, body: bytes) -> bytes:
        async with self._turn:
            if self._root.state == "running":
                self._systemd.reloading()
            try:
                answer = await self._ask(body)
                self.problem = ""
                _log.info("settings reloaded: version %s", json.loads(answer)["version"])
                return answer
            except Refused as error:
                self.problem = f"reload failed, settings as before: {_text(error.detail)}"
                _log.error("%s", self.problem)
                raise
            finally:
                if self._root.state == "running":
                    self._systemd.ready(self._root.status())

    async def _ask(self, body: bytes) -> bytes:
        try:
            return await self._endpoint.ask(self._child, "SettingsReload", body, timeout_s=_TIMEOUT_S)
        except RemoteError as error:
            raise Refused(error.code, error.detail) from None
        except BusError as error:
            raise Refused("unavailable", f"{self._child} does not answer: {error or type(error).__name__}") from None


def _text(detail: Any) -> str:
    return "; ".join(map(str, detail)) if isinstance(detail, list) else str(detail)
