"""What the notifier does by the clock: greet clients that are seen first, call the dead-man URL while all is well.

Both are best effort: a round that fails is made up for by the next one. The URL is called only while the database
takes writes, no process is missing and some channel works, so its silence means that nobody would be told (P075).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable

import httpx

from actors.clients.requests import Sighted, Sightings
from actors.knobs import Notifications
from actors.notifier.announcer import Announcer
from actors.notifier.channels.http import Poster
from actors.notifier.switchboard import Switchboard
from actors.store.alert_reader import AlertReader
from actors.store.reader import Unreadable
from actors.store.requests import Health, KeeperHealth
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["CONTACTS_S", "contacts", "pings"]

CONTACTS_S = 10.0
PING_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


async def contacts(endpoint: Endpoint, reader: AlertReader, announcer: Announcer) -> None:
    """Raise a notice for every sensor and server that was never seen before, for ever."""
    greeted: set[str] = set()
    while True:
        await asyncio.sleep(CONTACTS_S)
        try:
            for key, title, summary in await _seen(endpoint, reader):
                if key not in greeted and reader.alert(key) is None:
                    announcer.contact(key, title, summary)
                greeted.add(key)
        except Unreadable as error:
            _log.info("who is new cannot be read: %s", error)


async def _seen(endpoint: Endpoint, reader: AlertReader) -> list[tuple[str, str, str]]:
    found = [
        (f"contact:{row.source}", f"now watching {row.source}", f"version {row.version or 'unknown'}")
        for row in reader.sensors()
    ]
    try:
        sighted = await Ref(endpoint, "clients").ask(Sightings(), Sighted, timeout_s=2.0)
    except BusError:
        return found
    servers = (server for server in sighted.servers if server.ok)
    return found + [
        (f"contact:{server.url}", f"now watching the server at {server.url}", f"version {server.version or 'unknown'}")
        for server in servers
    ]


async def pings(
    endpoint: Endpoint, settings: Callable[[], Notifications], switchboard: Switchboard, degraded: Callable[[], str]
) -> None:
    """Call the dead-man URL every ``ping_every_s`` while all is well, for ever."""
    poster = Poster()
    try:
        while True:
            url = os.environ.get(settings().ping_url_env or "", "")
            if url:
                await _ping(poster, url, await _trouble(endpoint, switchboard, degraded()))
            await asyncio.sleep(settings().ping_every_s)
    finally:
        await poster.close()


async def _ping(poster: Poster, url: str, trouble: str) -> None:
    if trouble:
        _log.warning("the dead-man URL is not called: %s", trouble)
        return
    try:
        async with asyncio.timeout(PING_TIMEOUT_S):
            answer = await poster.send("GET", url, 0.0)
    except TimeoutError:
        _log.warning("the dead-man URL gave no answer within %g s", PING_TIMEOUT_S)
        return
    if not isinstance(answer, httpx.Response):
        _log.warning("the dead-man URL could not be called: %s", answer.detail)


async def _trouble(endpoint: Endpoint, switchboard: Switchboard, degraded: str) -> str:
    """Say what is not well, "" when all is."""
    if degraded:
        return degraded
    lanes = [lane for _, lane in switchboard.lanes() if lane.enabled]
    if lanes and all(lane.down for lane in lanes):
        return "every channel is down"
    try:
        storage = await Ref(endpoint, "keeper").ask(KeeperHealth(), Health, timeout_s=2.0)
        children = json.loads(await endpoint.ask("root", "Children", timeout_s=2.0))["children"]
    except BusError as error:
        return str(error) or type(error).__name__
    missing = [child["id"] for child in children if child["state"] != "ready"]
    if storage.state != "ok" or missing:
        return storage.detail or f"not ready: {', '.join(missing)}"
    return ""
