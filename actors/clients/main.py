"""The clients process: looks for agents' clients every clients.discovery_s and answers Sightings from the last look.

It acts on no client yet. An answer never waits for a look; ``swept_at`` is 0 before the first one. A change of the
settings starts a look at once. A database that cannot be read leaves the plugins out and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path

import httpx

from actors.clients.discovery import Places, describe, plugins, sweep
from actors.clients.install_plugin import bundled_version
from actors.clients.requests import Plugin, Sighted, Sightings
from actors.knobs import Knobs
from actors.store.database import FILE_NAME
from actors.store.reader import Reader, Unreadable
from supervisor.bus.refs import handle
from supervisor.child import Child
from supervisor.settings.holder import Holder

__all__ = ["Lookout", "main"]

_log = logging.getLogger(__name__)


class Lookout:
    """Holds what was seen last. ``look`` is called by one task at a time."""

    def __init__(self, places: Places, reader: Reader, client: httpx.AsyncClient, bundled: str) -> None:
        self.seen = Sighted()
        self._places = places
        self._reader = reader
        self._client = client
        self._bundled = bundled
        self._said = ""

    async def answer(self, _message: Sightings) -> Sighted:
        """Return the last look, with the plugins as they are in the database now."""
        found, blind = self._plugins()
        return self.seen.model_copy(update={"plugins": found, "blind": [*self.seen.blind, *blind]})

    async def look(self, urls: tuple[str, ...]) -> None:
        """Look once; log one line when what is seen has changed."""
        seen = await sweep(self._places, urls, self._client)
        self.seen = seen.model_copy(update={"swept_at": time.time()})
        said = describe(await self.answer(Sightings()), self._places)
        if said != self._said:
            self._said = said
            _log.info("%s", said)

    def _plugins(self) -> tuple[list[Plugin], list[str]]:
        try:
            return plugins(self._reader.sensors(), self._bundled), []
        except Unreadable as error:
            return [], [f"which plugins reported is not known: {error}"]


async def main(child: Child) -> None:
    """Look around until ``child.stopping``."""
    holder = Holder(child, Knobs)
    changed = asyncio.Event()
    holder.subscribe(lambda _knobs: changed.set())
    async with httpx.AsyncClient(trust_env=False) as client:
        places = Places.of(os.environ, Path.home())
        lookout = Lookout(places, Reader(child.state_dir / FILE_NAME), client, bundled_version())
        handle(child.endpoint, Sightings, lookout.answer)
        await child.ready()
        looking = asyncio.create_task(_look_around(lookout, holder, changed))
        stopping = asyncio.create_task(child.stopping.wait())
        await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not looking.cancel():
            looking.result()
        await asyncio.gather(looking, return_exceptions=True)


async def _look_around(lookout: Lookout, holder: Holder[Knobs], changed: asyncio.Event) -> None:
    while True:
        changed.clear()
        await lookout.look(holder.current.clients.opencode.urls)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(holder.current.clients.discovery_s):
                await changed.wait()
