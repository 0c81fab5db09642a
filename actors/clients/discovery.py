"""Look for agents' clients: opencode servers, session stores, plugins that reported (P089, P091, T49).

It only looks; nothing here acts on a client, and stores are not opened. Absence and what could not be understood are
part of the answer. One sweep asks all servers at once and takes PROBE_S at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from actors.clients import rc_servers
from actors.clients.probe import probe
from actors.clients.requests import Plugin, Server, Sighted, Store
from actors.store.records import SensorRecord

__all__ = ["Places", "describe", "plugins", "stores", "sweep"]

REGISTRY = "rc-servers.json"
CONFIGURED = "clients.opencode.urls"


@dataclass(frozen=True)
class Places:
    """Where clients keep their things. ``password`` is that of opencode's servers, empty for none."""

    opencode: Path
    claude_code: Path
    codex: Path
    password: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str], home: Path) -> Places:
        """Follow the variables that the clients themselves follow."""
        data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        return cls(
            opencode=data / "opencode",
            claude_code=Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects",
            codex=Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions",
            password=environ.get("OPENCODE_SERVER_PASSWORD", ""),
        )


async def sweep(places: Places, urls: Iterable[str], client: httpx.AsyncClient) -> Sighted:
    """Look at servers and stores once; plugins are the caller's to add, for they are in the database."""
    registry = await asyncio.to_thread(rc_servers.read, places.opencode / REGISTRY)
    named = dict.fromkeys(registry.urls, REGISTRY) | dict.fromkeys(urls, CONFIGURED)
    probed = await asyncio.gather(*(probe(client, url, source, places.password) for url, source in named.items()))
    found, blind = await asyncio.to_thread(stores, places)
    sentences = [registry.blind, *(sentence for _, sentence in probed), *blind]
    return Sighted(servers=[server for server, _ in probed], stores=found, blind=[text for text in sentences if text])


def stores(places: Places) -> tuple[list[Store], list[str]]:
    """Return the session stores that exist and a sentence for each one that cannot be looked at."""
    found, blind = [], []
    checks: tuple[tuple[str, Path, Callable[[Path], bool]], ...] = (
        ("opencode", places.opencode / "opencode.db", Path.is_file),
        ("claude_code", places.claude_code, Path.is_dir),
        ("codex", places.codex, Path.is_dir),
    )
    for kind, path, is_there in checks:
        try:
            if is_there(path):
                found.append(Store(path=str(path), kind=kind))
        except OSError as error:
            blind.append(f"the {kind} store at {path} cannot be looked at: {error.strerror}")
    return found, blind


def plugins(sensors: Iterable[SensorRecord], bundled: str) -> list[Plugin]:
    """Pick the plugins among the sensors that reported; ``bundled`` is the version that this daemon ships."""
    return [
        Plugin(source=row.source, version=row.version, seen_at=row.seen_at, stale=row.version != bundled)
        for row in sensors
        if row.source.endswith("plugin")
    ]


def describe(sighted: Sighted, places: Places) -> str:
    """Say in one line what is seen, absence included."""
    parts = (
        "; ".join(_server(server) for server in sighted.servers) or _no_server(places),
        f"stores: {', '.join(store.kind for store in sighted.stores) or 'none'}",
        f"plugins: {', '.join(_plugin(plugin) for plugin in sighted.plugins) or 'none has reported'}",
        *(f"blind: {sentence}" for sentence in sighted.blind),
    )
    return "sees: " + "; ".join(parts)


def _server(server: Server) -> str:
    return f"opencode {server.version} at {server.url}" if server.ok else f"{server.url} {server.detail}"


def _no_server(places: Places) -> str:
    return f"no opencode server ({places.opencode / REGISTRY} names none, {CONFIGURED} is empty)"


def _plugin(plugin: Plugin) -> str:
    return f"{plugin.source} {plugin.version or 'without version'}{' (stale)' if plugin.stale else ''}"
