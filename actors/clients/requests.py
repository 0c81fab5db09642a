"""What the clients process answers on the bus: what it sees of agents' clients. Frozen models only."""

from __future__ import annotations

from actors.messages import Frozen

__all__ = ["Plugin", "Server", "Sighted", "Sightings", "Store"]


class Sightings(Frozen):
    """Ask: what do you see? Answered with ``Sighted`` from the last sweep, without waiting for a new one."""


class Server(Frozen):
    """One opencode server that a source names. ``ok``: it answered as opencode does; else ``detail`` says why."""

    url: str
    ok: bool
    version: str = ""
    source: str
    detail: str = ""


class Store(Frozen):
    """A client's session store that exists on this machine; only its presence was looked at."""

    path: str
    kind: str


class Plugin(Frozen):
    """A sensor that reported. ``stale``: its version is not the bundled one. ``seen_at`` is epoch seconds."""

    source: str
    version: str = ""
    seen_at: float = 0.0
    stale: bool = False


class Sighted(Frozen):
    """Answer to ``Sightings``. ``blind``: one sentence for each source that could not be read (T49)."""

    servers: list[Server] = []
    stores: list[Store] = []
    plugins: list[Plugin] = []
    blind: list[str] = []
    swept_at: float = 0.0
