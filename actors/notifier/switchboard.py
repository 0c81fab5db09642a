"""All configured channels with their lanes: built from the settings, rebuilt when those change, counted.

A change of one channel's settings keeps its queue and what it has shown; a channel that is no longer configured gives
its queue back as suppressed. A channel whose secrets are not in the environment is not built: it is disabled and says
why (P084). ``tell`` is called on the loop for every delivery that ends and every turn of a channel. Nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from actors.channel_knobs import Setting
from actors.knobs import Notifications
from actors.notifier.channels.absent import Absent
from actors.notifier.channels.contract import Channel
from actors.notifier.channels.registry import ChannelType, Tools
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.lane import Claim, Lane
from actors.notifier.patience import Limits
from actors.notifier.requests import Count
from actors.notifier.route import Rule, Why
from actors.notifier.secrets import missing
from actors.notifier.turns import Down, Drained
from actors.notifier.wording import worded

__all__ = ["Switchboard"]

MAX_DISPATCHED = 100_000

_log = logging.getLogger(__name__)


class Switchboard:
    """Hand messages to channels by name and keep account of how they ended."""

    def __init__(
        self,
        types: Mapping[str, ChannelType],
        tell: Callable[[Any], None],
        now: Callable[[], float],
        *,
        claim: Claim,
        tools: Callable[[str], Tools],
    ) -> None:
        self.rules: list[Rule] = []
        self._types = types
        self._tell = tell
        self._now = now
        self._claim = claim
        self._tools = tools
        self._lanes: dict[str, Lane] = {}
        self._settings: dict[str, Setting] = {}
        self._absent: dict[str, str] = {}
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
            self._equip_one(setting, _limits(settings, self._types[setting.type]))
        self.rules = [self._rule(setting) for setting in settings.channels]

    def dispatch(self, delivery: Delivery) -> None:
        """Queue a message, once per row id; for a channel that is not configured any more it ends at once."""
        lane = self._lanes.get(delivery.channel)
        if lane is None:
            self._tell(self._suppressed(delivery))
        elif lane.full or (lane.spilled and delivery.id != UNRECORDED):
            lane.spilled = True  # it stays in the store; the lane asks for it when there is room
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

    def absent(self) -> dict[str, str]:
        """Return why channels that should work were not built, by name."""
        return dict(self._absent)

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
        name = setting.name
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = self._lane(setting, limits)
        elif self._settings[name] != setting:
            lane.replace(self._build(setting))
        kind = self._types[setting.type]
        lane.claim = None if kind.idempotent else self._claim
        lane.word = partial(worded, knobs=setting)
        lane.limits, lane.enabled = limits, setting.enabled and name not in self._absent
        self._settings[name] = setting

    def _lane(self, setting: Setting, limits: Limits) -> Lane:
        return Lane(
            self._build(setting),
            limits,
            self._tell,
            on_drained=lambda: self._tell(Drained(setting.name)),
            on_down=lambda said: self._tell(Down(setting.name, said)),
            now=self._now,
        )

    def _build(self, setting: Setting) -> Channel:
        self._absent.pop(setting.name, None)
        if not setting.enabled:
            return Absent("disabled")
        tools = self._tools(setting.name)
        why = missing(setting, tools.environ)
        if why:
            self._absent[setting.name] = why
            return Absent(why)
        return self._types[setting.type].build(setting, tools)

    def _rule(self, setting: Setting) -> Rule:
        kind = self._types[setting.type]
        return Rule(
            channel=setting.name,
            enabled=setting.enabled and setting.name not in self._absent,
            min_severity=setting.min_severity,
            resolve_messages=setting.resolve_messages,
            lifecycle=kind.lifecycle,
            silent_close=kind.silent_close,
            acknowledges=kind.acknowledges,
            sources=setting.sources,
            quiet=setting.quiet,
            rate_limit=setting.rate_limit,
        )

    def _retire(self, name: str) -> None:
        del self._settings[name]
        self._absent.pop(name, None)
        task = asyncio.get_running_loop().create_task(self._empty(self._lanes.pop(name)))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _empty(self, lane: Lane) -> None:
        for delivery in await lane.stop():
            self._tell(self._suppressed(delivery))

    def _suppressed(self, delivery: Delivery) -> Settled:
        return Settled(delivery=delivery, state="suppressed", reason=Why.DISABLED, at=self._now())


def _limits(settings: Notifications, kind: ChannelType) -> Limits:
    return Limits(
        timeout_s=settings.timeout_s,
        retries=settings.retries if kind.local else None,
        retry_for_s=settings.retry_for_s,
        retry_urgent_for_s=settings.retry_critical_for_s,
        circuit_after=settings.circuit_after,
    )
