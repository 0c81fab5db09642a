"""Channels by the ``type`` of their settings. The settings' models and this table hold the same types (a test)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.knobs import DesktopChannel
from actors.notifier.channels.contract import Channel
from actors.notifier.channels.desktop import Desktop

__all__ = ["CHANNELS", "ChannelType", "Setting"]

Setting = DesktopChannel


@dataclass(frozen=True)
class ChannelType:
    """``lifecycle``: the channel can end a message that it sent (see ``route.Rule``)."""

    build: Callable[[Setting], Channel]
    lifecycle: bool


CHANNELS: dict[str, ChannelType] = {
    "desktop": ChannelType(build=lambda setting: Desktop(setting.resolve_messages), lifecycle=True),
}
