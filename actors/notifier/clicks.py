"""Buttons on a notification: Resume, Snooze, False alarm. The operator's own hand, so it is audited as a click.

Resume takes the way of ``treewarden resume``: a command for the tree's shard, which resolves the alert.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from actors.messages import Command
from actors.notifier.operator import Operator
from actors.notifier.requests import Mute, SayRightOrWrong
from actors.store.alert_reader import AlertReader
from actors.tree.requests import Described, Operate, shard_of
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, Refused
from supervisor.bus.refs import Ref

__all__ = ["Clicks"]

TIMEOUT_S = 15.0

_log = logging.getLogger(__name__)


class Clicks:
    """``acted`` returns at once. ``snooze_s``: how long Snooze lasts; ``uid``: whose desktop it is."""

    def __init__(
        self,
        operator: Operator,
        reader: AlertReader,
        endpoint: Endpoint,
        *,
        shards: int,
        uid: int,
        snooze_s: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._operator = operator
        self._reader = reader
        self._endpoint = endpoint
        self._shards = shards
        self._uid = uid
        self._snooze_s = snooze_s
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()

    def acted(self, key: str, action: str) -> None:
        """The operator pressed ``action`` on the notification of ``key``."""
        task = asyncio.get_running_loop().create_task(self._do(key, action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, key: str, action: str) -> None:
        try:
            if action == "resume":
                await self._resume(key)
            elif action == "snooze":
                until = self._now() + self._snooze_s()
                await self._operator.mute(Mute(key=key, until=until, by=self._who, note="Snooze on a notification"))
            elif action == "wrong":
                await self._wrong(key)
        except (BusError, Refused) as error:
            _log.warning("%s on the notification of %s failed: %s", action, key, error)

    @property
    def _who(self) -> str:
        return f"uid:{self._uid}"

    async def _resume(self, key: str) -> None:
        command = Command(t=self._now(), action="resume", by=self._who)
        shard = Ref(self._endpoint, shard_of(key, self._shards))
        await shard.ask(Operate(tree=key, command=command, uid=self._uid), Described, timeout_s=TIMEOUT_S)

    async def _wrong(self, key: str) -> None:
        newest = self._reader.alert_log(key, limit=1)
        if newest:
            asked = SayRightOrWrong(alert_log_id=newest[0].id, says="wrong", by=self._who, via="notification")
            await self._operator.judge(asked)
