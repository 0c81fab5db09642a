"""Change settings in all processes or in none.

Order: every process validates (prepare) -> the version is persisted -> root keeps it for later starts -> every
process uses it (commit). Until it is persisted a refusal leaves everything as it was. From then on the change holds:
a process that misses its commit is told again until it has it, and one that restarts gets it from root. Changes are
made one at a time. A crash between two steps is mended by ``adopt`` at the next start: the persisted version wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError, PeerUnavailable, RemoteError
from supervisor.bus.refs import Ref
from supervisor.settings.errors import ApplyRefused, VersionConflict
from supervisor.settings.messages import SettingsAnswer, SettingsCommit, SettingsPrepare, SettingsRendered
from supervisor.settings.render import Change, Layers, Rendered, diff, render

__all__ = ["Applied", "Applier", "Peers", "Persist"]

_log = logging.getLogger(__name__)

ROOT = "root"
ANSWER_TIMEOUT_S = 3.0
RETRY_EVERY_S = 0.5
RETRIES = 120

Persist = Callable[[Rendered, dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Peers:
    """The processes that use settings: ``ready`` ones must agree, ``alive`` ones (starting, too) must be told."""

    ready: tuple[str, ...]
    alive: tuple[str, ...]


@dataclass(frozen=True)
class Applied:
    """What a change did: the settings afterwards and the knobs that differ."""

    rendered: Rendered
    changes: list[Change]


class Applier:
    """Own the settings of the whole application: the layers and the version that is in force."""

    def __init__(
        self,
        endpoint: Endpoint,
        schema: type[BaseModel],
        layers: Layers,
        version: int,
        peers: Callable[[], Awaitable[Peers]],
        *,
        retry_every_s: float = RETRY_EVERY_S,
    ) -> None:
        self._endpoint = endpoint
        self._schema = schema
        self._layers = layers
        self._peers = peers
        self._retry_every_s = retry_every_s
        self._lock = asyncio.Lock()
        self._straggling: asyncio.Task[None] | None = None
        self.current = render(schema, layers, version)

    @property
    def overrides(self) -> dict[str, Any]:
        """The runtime layer in force."""
        return dict(self._layers.runtime)

    async def adopt(self, version: int, overrides: Mapping[str, Any]) -> bool:
        """Take over a persisted version that root has not heard of yet; false when there is nothing to do."""
        async with self._lock:
            if version <= self.current.version:
                return False
            layers = self._layers.model_copy(update={"runtime": dict(overrides)})
            await self._spread(layers, render(self._schema, layers, version))
            return True

    def preview(self, change: Mapping[str, Any]) -> Applied:
        """Say what ``change`` (dotted name -> value, None drops an override) would do. Errors: InvalidSettings."""
        return self._rendered(self._changed(change))

    async def apply(self, change: Mapping[str, Any], persist: Persist, *, expected: int | None = None) -> Applied:
        """Apply ``change`` everywhere or nowhere. ``persist(rendered, overrides)`` must be durable when it returns.

        Errors: InvalidSettings, VersionConflict (``expected`` is not the current version), ApplyRefused, and
        whatever ``persist`` raises.
        """
        async with self._lock:
            if expected is not None and expected != self.current.version:
                raise VersionConflict(expected, self.current.version)
            return await self._move(self._changed(change), persist)

    async def reload(self, file: Mapping[str, Any], environment: Mapping[str, Any], persist: Persist) -> Applied:
        """Use the file and the environment as they are now, everywhere or nowhere. Errors: those of ``apply``."""
        async with self._lock:
            update = {"file": dict(file), "environment": dict(environment)}
            return await self._move(self._layers.model_copy(update=update), persist)

    async def _move(self, layers: Layers, persist: Persist) -> Applied:
        applied = self._rendered(layers)
        if layers == self._layers:
            return applied
        await self._prepare(applied.rendered)
        await persist(applied.rendered, layers.runtime)
        await self._spread(layers, applied.rendered)
        return applied

    def _changed(self, change: Mapping[str, Any]) -> Layers:
        merged = {**self._layers.runtime, **change}
        runtime = {path: value for path, value in merged.items() if value is not None}
        return self._layers.model_copy(update={"runtime": runtime})

    def _rendered(self, layers: Layers) -> Applied:
        version = self.current.version + (layers != self._layers)
        rendered = render(self._schema, layers, version)
        return Applied(rendered, diff(self._schema, self.current.values, rendered.values))

    async def _prepare(self, rendered: Rendered) -> None:
        message = SettingsPrepare(version=rendered.version, values=rendered.values)
        peers = (await self._peers()).ready
        answers = await asyncio.gather(*(self._ask(peer, message) for peer in peers), return_exceptions=True)
        for peer, answer in zip(peers, answers, strict=True):
            # one that is gone restarts with what root has by then; it cannot be asked and cannot object
            if isinstance(answer, BaseException) and not isinstance(answer, PeerUnavailable):
                raise ApplyRefused(peer, _why(answer)) from answer

    async def _ask(self, peer: str, message: BaseModel) -> SettingsAnswer:
        return await Ref(self._endpoint, peer).ask(message, SettingsAnswer, timeout_s=ANSWER_TIMEOUT_S)

    async def _spread(self, layers: Layers, rendered: Rendered) -> None:
        self._layers, self.current = layers, rendered
        left = await self._commit(rendered, done=frozenset())
        if self._straggling is not None:
            self._straggling.cancel()
        self._straggling = asyncio.create_task(self._chase(rendered, left)) if left is not None else None

    async def _commit(self, rendered: Rendered, done: frozenset[str]) -> frozenset[str] | None:
        """Tell root and every process that is not in ``done``; None when all have it, else those that do."""
        try:
            if ROOT not in done:
                await self._tell_root(rendered)
            peers = [peer for peer in (await self._peers()).alive if peer not in done]
        except BusError:
            return done
        message = SettingsCommit(version=rendered.version, values=rendered.values)
        answers = await asyncio.gather(*(self._ask(peer, message) for peer in peers), return_exceptions=True)
        pairs = list(zip(peers, answers, strict=True))
        told = frozenset(peer for peer, answer in pairs if isinstance(answer, SettingsAnswer))
        return None if len(told) == len(peers) else done | told | {ROOT}

    async def _tell_root(self, rendered: Rendered) -> None:
        layers = self._layers.model_dump(exclude={"runtime"})
        message = SettingsRendered(**rendered.model_dump(), layers=layers)
        body = message.model_dump_json().encode()
        await self._endpoint.ask(ROOT, "SettingsRendered", body, timeout_s=ANSWER_TIMEOUT_S)

    async def _chase(self, rendered: Rendered, done: frozenset[str]) -> None:
        """Tell again those that could not be told, until they have it or have restarted with it."""
        left: frozenset[str] | None = done
        for _ in range(RETRIES):
            await asyncio.sleep(self._retry_every_s)
            left = await self._commit(rendered, left or frozenset())
            if left is None:
                return
        _log.error("settings version %d did not reach every process", rendered.version)


def _why(error: BaseException) -> str:
    if isinstance(error, RemoteError):
        detail = error.detail if isinstance(error.detail, list) else [error.detail]
        return f"refused: {'; '.join(str(item) for item in detail)}"
    return f"did not answer: {error or type(error).__name__}"
