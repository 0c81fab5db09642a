"""The bus messages of settings. Root takes ``SettingsRendered`` as an opaque blob for children that start later."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from supervisor.settings.render import Source

__all__ = ["SettingsAnswer", "SettingsCommit", "SettingsPrepare", "SettingsRendered"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SettingsPrepare(_Message):
    """Would you accept these values? A refusal has the code ``invalid`` and the problems as its detail."""

    version: int
    values: dict[str, Any]


class SettingsCommit(_Message):
    """Use these values from now on. Versions that are not newer than the current one are ignored."""

    version: int
    values: dict[str, Any]


class SettingsAnswer(_Message):
    """The version that the process uses after the message."""

    version: int


class SettingsRendered(_Message):
    """What a child that starts from now on gets; ``layers`` are for the one that renders changes."""

    version: int
    values: dict[str, Any]
    sources: dict[str, Source]
    layers: dict[str, dict[str, Any]] = {}
