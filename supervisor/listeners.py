"""The listening sockets: bound by root before any child starts, kept open over every restart of their children.

A client that connects while its child restarts waits in the backlog; no connection is refused. Unix sockets are 0600.
With socket activation the same holds for a restart of the whole service: then systemd keeps them open, and root takes
each for the socket of the plan that has its name or, since all sockets of one unit share a name, its address.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.plan import Listen
from supervisor.runtime import Conflict, make_private
from supervisor.systemd import Adopted

__all__ = ["Listener", "bind_all", "clear_bus", "remove_stale"]

_log = logging.getLogger(__name__)

_MAX_PATH_BYTES = 107  # sun_path holds 108 bytes with its terminator


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket with what it is for. ``ours`` is False when systemd bound it."""

    listen: Listen
    socket: socket.socket
    ours: bool = True

    @property
    def address(self) -> str:
        """``host:port`` with the real port, or the path."""
        name = self.socket.getsockname()
        if isinstance(name, str):
            return name
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"{host}:{name[1]}"

    @property
    def url(self) -> str:
        """How a client names it: ``http://host:port``, or the path of a Unix socket."""
        return self.address if self.socket.family == socket.AF_UNIX else f"http://{self.address}"

    @property
    def stays(self) -> bool:
        """Whether it outlives this image of root: not one whose path we make, or whose path is gone."""
        return self.socket.family != socket.AF_UNIX or (not self.ours and Path(self.address).is_socket())

    def close(self) -> None:
        """Close; remove the path that we made."""
        path = self.address if self.socket.family == socket.AF_UNIX and self.ours else None
        self.socket.close()
        if path is not None:
            Path(path).unlink(missing_ok=True)


def bind_all(listens: Sequence[Listen], runtime_dir: Path, adopted: Sequence[Adopted]) -> dict[str, Listener]:
    """Bind every socket, or take the one that systemd handed over for it. Raises Conflict."""
    left = list(adopted)
    bound: dict[str, Listener] = {}
    for listen in listens:
        given = _given(listen, runtime_dir, left)
        if given is not None:
            left.remove(given)
        found = Listener(listen, given.socket if given else _bind(listen, runtime_dir), ours=given is None)
        found.socket.setblocking(False)
        bound[listen.name] = found
    for unused in left:
        _log.warning("systemd handed over %s, which is no socket of the plan", unused.socket.getsockname())
        unused.socket.close()
    return bound


def _given(listen: Listen, runtime_dir: Path, adopted: Sequence[Adopted]) -> Adopted | None:
    """Find the socket by name, else by address, else the only one of its kind: the unit's port beats the plan's."""
    family = (socket.AF_UNIX,) if listen.kind == "unix" else (socket.AF_INET, socket.AF_INET6)
    fitting = [item for item in adopted if item.socket.family in family]
    wanted = str(runtime_dir / listen.path) if listen.kind == "unix" else (listen.host, listen.port)
    named = [item for item in fitting if item.name == listen.name]
    same = [item for item in fitting if _is_at(_address(item.socket), wanted)]
    found = [*named, *same, *(fitting if len(fitting) == 1 and listen.kind == "tcp" else [])]
    if found and found[0] not in same:
        _log.warning("socket %s: systemd listens on %s, not %s", listen.name, _address(found[0].socket), wanted)
    return found[0] if found else None


def _is_at(address: str | tuple[str, int], wanted: str | tuple[str, int]) -> bool:
    """Port 0 is any port."""
    return address == wanted or (address[0], 0) == wanted


def _address(found: socket.socket) -> str | tuple[str, int]:
    name = found.getsockname()
    return name if isinstance(name, str) else (name[0], name[1])


def _bind(listen: Listen, runtime_dir: Path) -> socket.socket:
    bind = _bind_unix if listen.kind == "unix" else _bind_tcp
    return bind(listen, runtime_dir)


def _bind_tcp(listen: Listen, _runtime_dir: Path) -> socket.socket:
    try:
        family, kind, proto, _name, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise Conflict(f"cannot listen on {listen.host}: {error.strerror}; choose another host") from error
    found = socket.socket(family, kind, proto)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(listen.backlog)
    except OSError as error:
        found.close()
        raise Conflict(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror}; stop what uses it, or choose another port"
        ) from error
    return found


def _bind_unix(listen: Listen, runtime_dir: Path) -> socket.socket:
    path = runtime_dir / listen.path
    size = len(os.fsencode(path))
    if size > _MAX_PATH_BYTES:
        raise Conflict(
            f"socket path {path} has {size} bytes; allowed: {_MAX_PATH_BYTES}; choose a shorter runtime directory"
        )
    remove_stale(path)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        found.bind(str(path))
        found.listen(listen.backlog)
    except OSError as error:
        found.close()
        raise Conflict(f"cannot listen on {path}: {error.strerror}") from error
    finally:
        os.umask(mask)
    return found


def remove_stale(path: Path) -> None:
    """Remove a socket that an earlier root of this user left behind; anything else there is a Conflict."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise Conflict(f"{path} is in the way and is no socket of user {os.geteuid()}; remove it")
    path.unlink()


def clear_bus(directory: Path) -> None:
    """Make the directory of the bus, without the sockets of an earlier root. Raises Conflict."""
    make_private(directory)
    for path in directory.glob("*.sock"):
        remove_stale(path)
