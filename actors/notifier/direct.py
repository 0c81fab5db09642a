"""While the storage is away: critical alerts are shown from memory, once per channel, and not sent again afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.messages import Severity
from actors.notifier.delivery import UNRECORDED, Delivery, Settled
from actors.notifier.outbox import Outbox
from actors.notifier.step import Decision
from actors.notifier.switchboard import Switchboard

__all__ = ["Direct"]

MAX_DIRECT = 1000

_log = logging.getLogger(__name__)


class Direct:
    """``degraded`` is empty while alerts are durable, else says why not."""

    def __init__(self, switchboard: Switchboard, outbox: Outbox, now: Callable[[], float]) -> None:
        self.degraded = ""
        self._switchboard = switchboard
        self._outbox = outbox
        self._now = now
        self._shown: dict[tuple[int, str], None] = {}

    def sent(self, effect_id: int) -> set[str]:
        """Return the channels that were shown the effect already."""
        return {channel for shown, channel in self._shown if shown == effect_id}

    def forget(self, effect_id: int, channel: str) -> None:
        self._shown.pop((effect_id, channel), None)

    def show(self, decision: Decision) -> None:
        """Show a critical alert whose commit failed."""
        alert = decision.alert
        if alert.severity is not Severity.CRITICAL or not alert.is_open:
            return
        for routed in decision.routed:
            mark = (decision.effect_id, routed.channel)
            if not routed.admitted or mark in self._shown:
                continue
            self._shown[mark] = None
            _log.error("storage is away: critical alert %s goes to %s directly", alert.key, routed.channel)
            effect, shown = decision.effect_id, alert.model_copy(update={"state": routed.action})
            delivery = Delivery(id=UNRECORDED, effect_id=effect, channel=routed.channel, alert=shown)
            self._switchboard.dispatch(delivery.model_copy(update={"created_at": self._now()}))
        while len(self._shown) > MAX_DIRECT:
            del self._shown[next(iter(self._shown))]

    def resume(self, delivery: Delivery) -> None:
        """Dispatch what the store owes, unless it was shown meanwhile."""
        if (delivery.effect_id, delivery.channel) in self._shown:
            detail = "sent while the storage was away"
            self._outbox.settle(Settled(delivery=delivery, state="delivered", detail=detail, at=self._now()))
        else:
            self._switchboard.dispatch(delivery)

    def degrade(self, why: str) -> None:
        if not self.degraded:
            _log.error("alerts are not durable, only critical ones are shown, from memory: %s", why)
        self.degraded = why

    def recover(self) -> None:
        if self.degraded:
            self.degraded = ""
            _log.info("alerts are durable again")
