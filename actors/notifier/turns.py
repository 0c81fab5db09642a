"""What a lane tells beside the ends of deliveries. Frozen; no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Down", "Drained"]


@dataclass(frozen=True)
class Down:
    """So many attempts failed in a row that the channel counts as down."""

    channel: str
    said: str


@dataclass(frozen=True)
class Drained:
    """There is room again for what was left in the store."""

    channel: str
