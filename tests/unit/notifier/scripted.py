"""Channels that follow a script, for tests of what is around a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered
from actors.notifier.delivery import Delivery

__all__ = ["Scripted", "delivery", "message"]


class Scripted:
    """Gives the scripted answers in order, then Delivered; ``hang`` makes every delivery wait for ever."""

    def __init__(self, *answers: Answer | Exception, hang: bool = False) -> None:
        self.got: list[Alert] = []
        self.closed = False
        self.hang = hang
        self._answers = list(answers)

    async def deliver(self, alert: Alert, now: float) -> Answer:
        self.got.append(alert)
        if self.hang:
            await asyncio.Event().wait()
        answer = self._answers.pop(0) if self._answers else Delivered()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sight(self) -> str:
        return ""

    async def close(self) -> None:
        self.closed = True


def message(key: str = "k", state: AlertState = AlertState.TRIGGER, number: int = 1) -> Alert:
    return Alert(
        key=key,
        severity=Severity.WARNING,
        state=state,
        title="t",
        summary="s",
        source="x",
        opened_at=1,
        changed_at=1,
        last_effect=number,
    )


_numbers: Callable[[], int] = iter(range(1, 1_000_000)).__next__


def delivery(key: str = "k", state: AlertState = AlertState.TRIGGER, channel: str = "c") -> Delivery:
    number = _numbers()
    return Delivery(id=number, effect_id=number, channel=channel, alert=message(key, state, number))
