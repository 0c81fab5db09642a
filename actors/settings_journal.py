"""Versions of the settings in the database: written by the keeper, read directly. Survives power loss once saved."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from actors.store.reader import Reader, Unreadable
from actors.store.requests import Commit, Committed, Write
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.refs import Ref
from supervisor.control.operations import Author
from supervisor.settings.render import Rendered

__all__ = ["SettingsJournal"]

_log = logging.getLogger(__name__)

SAVE_TIMEOUT_S = 6.0  # whoever reloads waits for it, and root no longer than 15 s


class SettingsJournal:
    """Versions of the settings in the database: written by the keeper, read directly."""

    def __init__(self, endpoint: Endpoint, reader: Reader) -> None:
        self._keeper = Ref(endpoint, "keeper")
        self._reader = reader

    async def save(self, rendered: Rendered, overrides: dict[str, Any], author: Author) -> None:
        """Write the version and its audit row together, fsynced. Raises a BusError."""
        now, text = time.time(), json.dumps(overrides, sort_keys=True)
        version = {"version": rendered.version, "overrides": text, "by_uid": author.uid, "note": author.note}
        detail = json.dumps({"version": rendered.version, "overrides": overrides, "note": author.note})
        writes = [
            Write(op="settings.add", row={**version, "at": now}),
            Write(op="audit.add", row={"at": now, "uid": author.uid, "action": "settings", "detail": detail}),
        ]
        await self._keeper.ask(Commit(writes=writes, durable=True), Committed, timeout_s=SAVE_TIMEOUT_S)

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        try:
            row = self._reader.settings_latest()
        except Unreadable as error:
            _log.warning("settings in the database cannot be read: %s", error)
            return None
        return None if row is None else (row.version, json.loads(row.overrides))
