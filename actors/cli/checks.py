"""What doctor looks at. Every check is one line: what was found, and what to do about it when it is not well.

Only reads. ``note`` is worth knowing and no fault; ``bad`` makes the daemon degraded.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from actors.cli.status import unwell
from actors.cli.table import ago

__all__ = ["Check", "answered", "bus_address", "here", "unanswered"]

LEAST_FREE_BYTES = 256 * 1024 * 1024
_INSTALL = "treewarden install-plugin opencode, then restart opencode"

State = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class Check:
    """One line of doctor."""

    name: str
    state: State
    detail: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def unanswered(message: str) -> list[Check]:
    """Say that no daemon answers."""
    return [Check("daemon", "bad", message, "treewarden run")]


def answered(status: Mapping[str, Any], health: Mapping[str, Any], now: float) -> Iterator[Check]:
    """Judge what a running daemon says of itself."""
    wrong = unwell(dict(status))
    yield Check("daemon", "ok", f"version {status['version']} at {status['url']}")
    if wrong:
        yield Check("processes", "bad", "; ".join(wrong), "read the daemon's log; it restarts them by itself")
    else:
        yield Check("processes", "ok", f"{len(status['children'])} ready")
    yield _database(health["keeper"])
    yield from _channels(health["notifier"])
    yield from _clients(health["clients"], now)


def _database(keeper: Mapping[str, Any]) -> Check:
    if "error" in keeper:
        return Check("database", "bad", f"keeper does not answer: {keeper['error']}", "read the daemon's log")
    if keeper["state"] != "ok":
        return Check("database", "bad", keeper["detail"], "free space or make it writable; it goes on by itself")
    return Check("database", "ok", "writable")


def _channels(notifier: Mapping[str, Any]) -> Iterator[Check]:
    if "error" in notifier:
        yield Check("alerts", "bad", f"notifier does not answer: {notifier['error']}", "read the daemon's log")
        return
    if notifier.get("degraded"):
        yield Check("alerts", "bad", notifier["degraded"], "see the database check")
    for channel in notifier["channels"]:
        yield _channel(channel)
    if not notifier["channels"]:
        yield Check("alerts", "note", "no channel is configured: nobody is told", "set notifications.channels")


def _channel(channel: Mapping[str, Any]) -> Check:
    name, state = f"channel {channel['name']}", channel["state"]
    detail = channel["detail"] or state
    if state == "ok":
        return Check(name, "ok", detail)
    if state == "disabled":
        return Check(name, "note", "disabled", "set enabled: true in notifications.channels")
    return Check(name, "bad", detail, _channel_fix(channel))


def _channel_fix(channel: Mapping[str, Any]) -> str:
    if "environment variable" in channel["detail"]:
        return "set it in the daemon's environment (with systemd: the unit's EnvironmentFile), then restart"
    if channel["type"] == "desktop":
        return "run treewarden inside the desktop session, with DBUS_SESSION_BUS_ADDRESS set"
    return f"treewarden channels test {channel['name']}"


def _clients(clients: Mapping[str, Any], now: float) -> Iterator[Check]:
    if "error" in clients:
        yield Check("clients", "bad", f"clients does not answer: {clients['error']}", "read the daemon's log")
        return
    for sentence in clients["blind"]:
        yield Check("clients", "bad", sentence, "see the source that it names")
    yield from (_server(server) for server in clients["servers"])
    yield from (Check("store", "ok", f"{store['kind']} at {store['path']}") for store in clients["stores"])
    yield from (_plugin(plugin, now) for plugin in clients["plugins"])
    if not clients["servers"]:
        yield Check("opencode", "note", "no server found", "start opencode, or set clients.opencode.urls")
    if not clients["plugins"]:
        yield Check("plugin", "note", "no plugin has reported: agents are not watched", _INSTALL)


def _server(server: Mapping[str, Any]) -> Check:
    if server["ok"]:
        return Check("opencode", "ok", f"{server['version'] or 'server'} at {server['url']} ({server['source']})")
    where = f"{server['url']} ({server['source']}) {server['detail'] or 'does not answer'}"
    return Check("opencode", "note", where, "it is gone, or clients.opencode.urls is wrong")


def _plugin(plugin: Mapping[str, Any], now: float) -> Check:
    what = f"{plugin['source']} {plugin['version'] or 'without version'}, seen {ago(plugin['seen_at'], now)}"
    if plugin["stale"]:
        return Check("plugin", "bad", f"{what}: not the version of this daemon", _INSTALL)
    return Check("plugin", "ok", what)


def here(state_dir: Path, runtime_dir: Path, env: Mapping[str, str]) -> Iterator[Check]:
    """Judge what can be seen without a daemon: files, disk, session bus."""
    yield from _tokens(state_dir / "tokens")
    yield _private("runtime directory", runtime_dir)
    yield _disk(state_dir)
    yield _session_bus(env)


def _tokens(directory: Path) -> Iterator[Check]:
    found = sorted(directory.glob("*.token")) if directory.is_dir() else []
    if not found:
        yield Check("tokens", "note", f"none in {directory} yet", "treewarden run makes them")
    for path in found:
        yield _private(f"token {path.stem}", path)


def _private(name: str, path: Path) -> Check:
    try:
        info = path.stat()
    except OSError as error:
        return Check(name, "note", f"{path}: {error.strerror}", "treewarden run makes it")
    mode = stat.S_IMODE(info.st_mode)
    if info.st_uid != os.getuid():
        return Check(name, "bad", f"{path} belongs to user {info.st_uid}", f"chown {os.getuid()} {path}")
    if mode & 0o077:
        wanted = "700" if stat.S_ISDIR(info.st_mode) else "600"
        return Check(name, "bad", f"{path} has mode {mode:04o}: others may use it", f"chmod {wanted} {path}")
    return Check(name, "ok", f"{path} is private")


def _disk(state_dir: Path) -> Check:
    place = next(path for path in (state_dir, *state_dir.parents) if path.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free // 2**20} MiB free at {place}"
    if free < LEAST_FREE_BYTES:
        return Check("disk", "bad", detail, f"free {LEAST_FREE_BYTES // 2**20} MiB, or use --state-dir")
    return Check("disk", "ok", detail)


def bus_address(env: Mapping[str, str]) -> str | None:
    """Return the path of the session bus's socket; abstract ones start with a zero byte (P087)."""
    address = env.get("DBUS_SESSION_BUS_ADDRESS", "")
    for part in address.split(";"):
        kind, _, options = part.partition(":")
        found = dict(option.partition("=")[::2] for option in options.split(","))
        if kind == "unix" and "path" in found:
            return found["path"]
        if kind == "unix" and "abstract" in found:
            return "\0" + found["abstract"]
    return None


def _session_bus(env: Mapping[str, str]) -> Check:
    path = bus_address(env)
    fix = f"export DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/{os.getuid()}/bus"
    if path is None:
        return Check("session bus", "note", "DBUS_SESSION_BUS_ADDRESS is not set here: no desktop alerts", fix)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError as error:
            return Check("session bus", "note", f"{path}: {error.strerror or error}", fix)
    return Check("session bus", "ok", f"answers at {path.lstrip(chr(0))}")
