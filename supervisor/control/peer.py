"""Who is at the other end of a Unix socket: uvicorn's HTTP protocol, with the peer's credentials in the scope.

The kernel fixes them when the peer connects (SO_PEERCRED); a process that passes its connection on lends its name.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Peer", "PeerProtocol", "peer_of"]

_UCRED = struct.Struct("3i")  # struct ucred: pid, uid, gid
_KEY = "peer"


@dataclass(frozen=True)
class Peer:
    """Process and user that opened the connection."""

    pid: int
    uid: int
    gid: int


class PeerProtocol(HttpToolsProtocol):
    """Put the ``Peer`` of a connection into the scope of each of its requests; None when it is no Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = _credentials(transport.get_extra_info("socket"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[_KEY] = self._peer  # type: ignore[literal-required]


def _credentials(sock: socket.socket | None) -> Peer | None:
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    return Peer(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def peer_of(scope: Mapping[str, Any]) -> Peer:
    """Return the peer of a request that passed the guard. Raises KeyError where nobody put one in."""
    peer = scope[_KEY]
    if not isinstance(peer, Peer):
        raise KeyError(_KEY)
    return peer
