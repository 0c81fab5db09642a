"""What a channel is. Adding one means one file with this contract, its knobs, and one line in ``registry``.

``deliver`` is called by one task at a time, so messages arrive in order; ``sight`` may run beside it. Both may be
cancelled at any await (notifications.timeout_s), and the channel must stay usable after that. It never retries by
itself: it answers ``Retry`` and the lane decides. After kill -9 between sending and recording, the same message comes
again with the same ``alert.message_id`` (at least once); ``alert.doubtful`` says so where the service cannot tell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from actors.notifier.alert import Alert

__all__ = ["Answer", "Channel", "Delivered", "Failure", "Recall", "Rejected", "Remember", "Retry"]

Recall = Callable[[str], str | None]
Remember = Callable[[str, str], Awaitable[None]]


class Failure(StrEnum):
    """Class of a failed delivery; a metric label, so the set is closed."""

    BLIND = "blind"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    THROTTLED = "throttled"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Delivered:
    """It was shown. ``how`` names the way taken where there is more than one."""

    how: str = ""


@dataclass(frozen=True)
class Retry:
    """Not now. ``after_s`` is what the service asked for; None leaves the wait to the lane's backoff.

    ``ambiguous``: the message may have arrived all the same.
    """

    reason: Failure
    detail: str
    after_s: float | None = None
    ambiguous: bool = False


@dataclass(frozen=True)
class Rejected:
    """Never, as things are; ``detail`` is a sentence for the operator."""

    reason: Failure
    detail: str


Answer = Delivered | Retry | Rejected


class Channel(Protocol):
    """One configured way to reach the operator."""

    async def deliver(self, alert: Alert, now: float) -> Answer:
        """Bring ``alert.state`` (trigger, escalate, resolve) to the operator; ``now`` is epoch seconds."""

    async def sight(self) -> str:
        """Return "" when a delivery could work now, else a sentence that says what is missing."""

    async def close(self) -> None:
        """Free connections; nothing that was shown is taken back."""
