"""Alerts that the notifier raises itself: a channel that is down or has no secret, a client that is seen first.

They take the way of any alert: a number from the store, an offer to the actor; a channel hears nothing of itself. An
event that cannot be numbered is tried again until it can, and given up when it is out of date.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.outbox import Outbox
from actors.notifier.requests import Raise
from actors.notifier.route import CHANNEL
from actors.store.requests import Write
from supervisor.bus.errors import BusError

__all__ = ["Announcer"]

GIVE_UP_S = 600.0
DOWN, NO_SECRET = "down", "no secret"

_log = logging.getLogger(__name__)


class Announcer:
    """``offer`` gets the numbered event. Nothing here waits."""

    def __init__(self, outbox: Outbox, offer: Callable[[Raise], None], now: Callable[[], float]) -> None:
        self._outbox = outbox
        self._offer = offer
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()
        self._said: dict[str, tuple[AlertState, str]] = {}

    def channels(self, absent: Mapping[str, str], open_alerts: Mapping[str, Alert]) -> None:
        """Say which channels cannot be built, and which can again."""
        for name, why in absent.items():
            if f"{CHANNEL}:{name}" not in open_alerts:
                self._say(name, AlertState.TRIGGER, f"channel {name} is disabled", why, NO_SECRET)
        for key, alert in open_alerts.items():
            name = key.removeprefix(f"{CHANNEL}:")
            if alert.source == CHANNEL and alert.details.get("cause") == NO_SECRET and name not in absent:
                self._say(name, AlertState.RESOLVE, f"channel {name} is enabled", "its secrets are set", NO_SECRET)

    def down(self, channel: str, said: str) -> None:
        self._say(channel, AlertState.TRIGGER, f"channel {channel} is down", said, DOWN)

    def works(self, channel: str, open_alerts: Mapping[str, Alert]) -> None:
        """A message was delivered: if the channel counted as down, it does no longer."""
        alert = open_alerts.get(f"{CHANNEL}:{channel}")
        on_its_way = self._said.get(channel) == (AlertState.TRIGGER, DOWN)
        if on_its_way or (alert is not None and alert.details.get("cause") == DOWN):
            self._say(channel, AlertState.RESOLVE, f"channel {channel} works again", "a message was delivered", DOWN)

    def contact(self, key: str, title: str, summary: str) -> None:
        """Say that a client was seen for the first time."""
        fields = {"key": key, "title": title, "summary": summary, "source": "contact", "severity": Severity.INFO}
        self._raise(AlertEffect.model_validate({**fields, "state": AlertState.TRIGGER, "t": self._now()}))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _say(self, channel: str, state: AlertState, title: str, summary: str, cause: str) -> None:
        if self._said.get(channel) == (state, cause):
            return  # it is on its way
        self._said[channel] = (state, cause)
        effect = AlertEffect(
            key=f"{CHANNEL}:{channel}",
            state=state,
            severity=Severity.WARNING,
            title=title,
            summary=summary,
            details={"cause": cause, "channel": channel},
            source=CHANNEL,
            t=self._now(),
        )
        self._raise(effect)

    def _raise(self, effect: AlertEffect) -> None:
        task = asyncio.get_running_loop().create_task(self._number(effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _number(self, effect: AlertEffect) -> None:
        row = {"tree": effect.key, "kind": "alert", "target": "notifier", "one_shot": 0, "state": "done"}
        write = Write(op="outbox.add", row=row | {"body": effect.model_dump_json(), "created_at": effect.t})
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(BusError),
            wait=wait_exponential(multiplier=0.2, max=10),
            stop=stop_after_delay(GIVE_UP_S),
            reraise=True,
        )
        try:
            numbers: list[int] = await retrying(self._outbox.commit, [write])
        except BusError as error:
            _log.error("nobody is told that %s: %s", effect.title, error)
            return
        self._offer(Raise(effect_id=numbers[0], alert=effect))
