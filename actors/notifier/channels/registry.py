"""Channels by the ``type`` of their settings. The settings' models and this table hold the same types (a test)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.notifier.channels.apprise_urls import AppriseUrls
from actors.notifier.channels.command import Command
from actors.notifier.channels.contract import Channel, Recall, Remember
from actors.notifier.channels.desktop import Desktop
from actors.notifier.channels.mail import Mail
from actors.notifier.channels.ntfy import Ntfy
from actors.notifier.channels.pagerduty import Pagerduty
from actors.notifier.channels.ringcentral import Ringcentral
from actors.notifier.channels.slack import Slack
from actors.notifier.channels.twilio import Twilio
from actors.notifier.channels.webhook import Webhook

__all__ = ["CHANNELS", "ChannelType", "Tools"]


async def _remember_nothing(_key: str, _ref: str) -> None:
    return None


@dataclass(frozen=True)
class Tools:
    """What a channel may use: the environment for its secrets, a memory that outlives it, the operator's clicks.

    ``recall`` and ``remember``: what the service calls the message of a key; ``key_of`` the other way. ``acted``: (key,
    action) when the operator used a button.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    recall: Recall = lambda _key: None
    remember: Remember = _remember_nothing
    key_of: Recall = lambda _ref: None
    acted: Callable[[str, str], None] = lambda _key, _action: None


@dataclass(frozen=True)
class ChannelType:
    """What is known of a kind of channel before one is built.

    ``lifecycle``, ``silent_close``, ``acknowledges``: see ``route.Rule``. ``idempotent``: the same message twice is one
    to the operator. ``local``: on this machine, so a few attempts are enough (see ``patience``).
    """

    build: Callable[[Any, Tools], Channel]
    lifecycle: bool = False
    silent_close: bool = False
    acknowledges: bool = False
    idempotent: bool = False
    local: bool = False


CHANNELS: dict[str, ChannelType] = {
    "desktop": ChannelType(Desktop.build, lifecycle=True, local=True),
    "webhook": ChannelType(Webhook, lifecycle=True, silent_close=True, acknowledges=True, idempotent=True),
    "ntfy": ChannelType(Ntfy, idempotent=True),
    "slack": ChannelType(Slack),
    "pagerduty": ChannelType(Pagerduty, lifecycle=True, silent_close=True, acknowledges=True, idempotent=True),
    "email": ChannelType(Mail, idempotent=True),
    "command": ChannelType(Command, lifecycle=True, acknowledges=True, local=True),
    "twilio": ChannelType(Twilio),
    "ringcentral": ChannelType(Ringcentral),
    "apprise": ChannelType(AppriseUrls),
}
