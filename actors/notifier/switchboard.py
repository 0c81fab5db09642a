"""All configured channels with their lanes: built from the settings, rebuilt when those change, counted.

A change of one channel's settings keeps its queue and what it has shown; a channel that is no longer configured gives
its queue back as suppressed. ``on_settled`` is called on the loop for every delivery that ends. Nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from actors.knobs import Notifications
from actors.notifier.channels.registry import ChannelType, Setting
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.lane import Lane, Limits
from actors.notifier.requests import Count
from actors.notifier.route import Rule, Why

__all__ = ["Switchboard"]

MAX_DISPATCHED = 100_000

_log = logging.getLogger(__name__)


class Switchboard:
    """Hand messages to channels by name and keep account of how they ended."""

    def __init__(
        self,
        types: Mapping[str, ChannelType],
        on_settled: Callable[[Settled], None],
        now: Callable[[], float],
    ) -> None:
        self.rules: list[Rule] = []
        self._types = types
        self._on_settled = on_settled
        self._now = now
        self._lanes: dict[str, Lane] = {}
        self._settings: dict[str, Setting] = {}
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._failing: dict[str, str] = {}
        self._dispatched: dict[int, None] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    def equip(self, settings: Notifications) -> None:
        """Build, keep, change and retire lanes so that they are those of ``settings``."""
        wanted = {setting.name: setting for setting in settings.channels}
        for name in self._lanes.keys() - wanted.keys():
            self._retire(name)
        for setting in wanted.values():
            self._equip_one(setting, Limits(settings.timeout_s, settings.retries))
        self.rules = [_rule(setting, self._types[setting.type].lifecycle) for setting in settings.channels]

    def dispatch(self, delivery: Delivery) -> None:
        """Queue a message, once per row id; for a channel that is not configured any more it ends at once."""
        lane = self._lanes.get(delivery.channel)
        if lane is None:
            self._on_settled(self._suppressed(delivery))
        elif self._is_new(delivery.id):
            lane.put(delivery)

    def remember_told(self, key: str, channels: Iterable[str]) -> None:
        """Note that these channels show the alert of ``key``."""
        for name in self._lanes.keys() & set(channels):
            self._lanes[name].told.add(key)

    def count(self, channel: str, action: str, result: str, reason: str = "") -> None:
        """Count a delivery that ended, or that never began."""
        self._counts[channel, str(action), result, str(reason)] += 1

    def account(self, settled: Settled) -> None:
        """Count the end of a delivery; one log line when a channel begins to fail, one when it works again."""
        channel = settled.delivery.channel
        self.count(channel, settled.delivery.alert.state, settled.state, settled.reason)
        if settled.state == "failed":
            self.blame(channel, f"{settled.reason}: {settled.detail}")
        elif settled.state == "delivered" and channel in self._failing:
            del self._failing[channel]
            _log.info("channel %s delivers again", channel)

    def blame(self, channel: str, said: str) -> None:
        """Log why a channel cannot deliver, once for each reason."""
        if self._failing.get(channel) != said:
            self._failing[channel] = said
            _log.warning("channel %s cannot deliver: %s", channel, said)

    def counts(self) -> list[Count]:
        return [
            Count(channel=channel, action=action, result=result, reason=reason, count=number)
            for (channel, action, result, reason), number in sorted(self._counts.items())
        ]

    def lanes(self) -> list[tuple[Setting, Lane]]:
        return [(self._settings[name], lane) for name, lane in self._lanes.items()]

    async def stop(self) -> None:
        """End all lanes; what they had not settled stays pending in the store."""
        await asyncio.gather(*(lane.stop() for lane in self._lanes.values()), *self._retiring)

    def _is_new(self, number: int) -> bool:
        """A delivery can be found in the store while it is on its way here; its row id tells."""
        if number == UNRECORDED:
            return True
        if number in self._dispatched:
            return False
        self._dispatched[number] = None
        if len(self._dispatched) > MAX_DISPATCHED:
            del self._dispatched[next(iter(self._dispatched))]
        return True

    def _equip_one(self, setting: Setting, limits: Limits) -> None:
        build = self._types[setting.type].build
        lane = self._lanes.get(setting.name)
        if lane is None:
            lane = self._lanes[setting.name] = Lane(build(setting), limits, self._on_settled, now=self._now)
        elif self._settings[setting.name] != setting:
            lane.replace(build(setting))
        lane.limits, lane.enabled = limits, setting.enabled
        self._settings[setting.name] = setting

    def _retire(self, name: str) -> None:
        del self._settings[name]
        task = asyncio.get_running_loop().create_task(self._empty(self._lanes.pop(name)))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _empty(self, lane: Lane) -> None:
        for delivery in await lane.stop():
            self._on_settled(self._suppressed(delivery))

    def _suppressed(self, delivery: Delivery) -> Settled:
        return Settled(delivery=delivery, state="suppressed", reason=Why.DISABLED, at=self._now())


def _rule(setting: Setting, lifecycle: bool) -> Rule:
    return Rule(
        channel=setting.name,
        enabled=setting.enabled,
        min_severity=setting.min_severity,
        resolve_messages=setting.resolve_messages,
        lifecycle=lifecycle,
    )
