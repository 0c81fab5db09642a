"""The clients process on a real bus, with a real loopback server that answers as opencode does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actors.clients.requests import Sighted, Sightings
from supervisor.bus.refs import Ref
from tests.unit.notifier.desktop_session import WAIT_S
from tests.unit.notifier.processes import World, world

CLIENTS = ("clients", "actors.clients.main:main")
BODY = b'{"healthy":true,"version":"1.2.3"}'


@asynccontextmanager
async def opencode(hang: bool = False) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not hang:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(BODY), BODY))
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def swept(made: World) -> Sighted:
    """Ask until the first look is done; every ask is a round trip, so this is no busy loop on one process."""
    ref = Ref(made.endpoint, "clients")
    async with asyncio.timeout(WAIT_S):
        while not (seen := await ref.ask(Sightings(), Sighted)).swept_at:
            await asyncio.sleep(0)
    return seen


def test_clients_registered_server_is_seen_and_silent_one_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with opencode() as url, opencode(hang=True) as silent, world(tmp_path) as made:
            registry = tmp_path / "data" / "opencode" / "rc-servers.json"
            registry.parent.mkdir(parents=True)
            registry.write_text(json.dumps([{"serverUrl": url}, {"serverUrl": silent}]))
            environ = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
            await made.child(*CLIENTS, environ=environ, values={"clients": {"discovery_s": 3600}})
            seen = await swept(made)
            assert [(server.ok, server.version) for server in seen.servers] == [(True, "1.2.3"), (False, "")]
            assert "does not answer within" in seen.servers[1].detail
            assert (seen.plugins, seen.blind) == ([], [])
            await made.endpoint.ask("clients", "Stop")
            await asyncio.wait_for(made.running[-1].wait(), WAIT_S)
            assert made.running[-1].returncode == 0

    asyncio.run(run())


def test_clients_unreadable_database_is_said(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as made:
            made.database.write_bytes(b"no database at all, but long enough to be looked at" * 40)
            await made.child(*CLIENTS, environ={"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
            seen = await swept(made)
            assert any("which plugins reported is not known" in sentence for sentence in seen.blind)

    asyncio.run(run())
