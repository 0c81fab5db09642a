"""The current settings of one process. It answers SettingsPrepare and SettingsCommit on the process's endpoint.

A commit replaces the settings between two callbacks of the event loop: nobody sees half of them. Subscribers are
called in order of subscription, on the loop, after the change; one that raises is logged and does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.bus.refs import handle
from supervisor.settings.errors import InvalidSettings
from supervisor.settings.messages import SettingsAnswer, SettingsCommit, SettingsPrepare
from supervisor.settings.render import validate

__all__ = ["Holder", "Process"]

K = TypeVar("K", bound=BaseModel)

_log = logging.getLogger(__name__)


class _Rendered(Protocol):
    @property
    def version(self) -> int: ...
    @property
    def values(self) -> dict[str, Any]: ...


class Process(Protocol):
    """What a holder needs of its process; supervisor.child.Child is one."""

    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def settings(self) -> _Rendered: ...


class Holder(Generic[K]):
    """Hold the settings of ``process`` as a ``schema``. Errors: InvalidSettings when those of the start are bad."""

    def __init__(self, process: Process, schema: type[K]) -> None:
        self._schema = schema
        self._subscribers: list[Callable[[K], None]] = []
        self.version = process.settings.version
        self.current: K = self._checked(process.settings.values)
        handle(process.endpoint, SettingsPrepare, self._prepare)
        handle(process.endpoint, SettingsCommit, self._commit)

    def subscribe(self, function: Callable[[K], None]) -> None:
        """Call ``function(settings)`` after every change; not for the settings of the start."""
        self._subscribers.append(function)

    def _checked(self, values: dict[str, Any]) -> K:
        return cast("K", validate(self._schema, values))

    def _accepted(self, values: dict[str, Any]) -> K:
        try:
            return self._checked(values)
        except InvalidSettings as error:
            raise Refused("invalid", error.problems) from None

    async def _prepare(self, message: SettingsPrepare) -> SettingsAnswer:
        self._accepted(message.values)
        return SettingsAnswer(version=self.version)

    async def _commit(self, message: SettingsCommit) -> SettingsAnswer:
        if message.version > self.version:
            self.current = self._accepted(message.values)
            self.version = message.version
            self._tell_all()
        return SettingsAnswer(version=self.version)

    def _tell_all(self) -> None:
        for function in self._subscribers:
            try:
                function(self.current)
            except Exception:  # noqa: BLE001 - the others must hear of the change all the same
                _log.exception("a subscriber failed on settings version %d", self.version)
