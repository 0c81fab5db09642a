"""Secrets come from the environment, by the names that the settings give (P084). They are looked up, never kept."""

from __future__ import annotations

from collections.abc import Mapping

from actors.channel_knobs import ChannelKnobs

__all__ = ["missing"]

_SUFFIX = "_env"


def missing(setting: ChannelKnobs, environ: Mapping[str, str]) -> str:
    """Return "" when every variable that the channel names is set, else a sentence."""
    names = [value for field, value in setting if field.endswith(_SUFFIX) and value]
    absent = [name for name in names if not environ.get(name)]
    if not absent:
        return ""
    return f"environment variable {', '.join(absent)} is not set"
