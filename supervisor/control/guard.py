"""Who may use the control socket: our own user and root, and never a browser. Pure ASGI, checked on every request.

A browser that was talked into sending a request shows itself by Origin, Referer or the Host of the page. A request that
is under way when the server stops is answered with 503: what it asked for may have been done or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.control.peer import Peer
from supervisor.control.problem import Problem

__all__ = ["HOSTS", "Guard", "refusal"]

HOSTS = ("localhost", "control")
_STOPPING = Problem(503, "stopping", "the daemon stopped before it had an answer: look again when it runs")
_BROWSER_HEADERS = (b"origin", b"referer")


def refusal(scope: Mapping[str, Any], uids: frozenset[int]) -> Problem | None:
    """Say why a request is refused, or None. ``uids`` may use the socket."""
    peer = scope.get("peer")
    if not isinstance(peer, Peer):
        return Problem(403, "denied", "the peer's user is unknown: use the Unix socket")
    if peer.uid not in uids:
        allowed = ", ".join(str(uid) for uid in sorted(uids))
        return Problem(403, "denied", f"user {peer.uid} may not control this daemon (allowed: {allowed})")
    names = {name for name, _ in scope["headers"]}
    for name in _BROWSER_HEADERS:
        if name in names:
            return Problem(403, "denied", f"requests with the header {name.decode().title()} are refused")
    hosts = [value.decode("latin-1").partition(":")[0].lower() for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or hosts[0] not in HOSTS:
        return Problem(403, "denied", f"Host {', '.join(hosts) or 'none'} is refused (allowed: {', '.join(HOSTS)})")
    return None


class Guard:
    """Let only allowed requests through to ``app``."""

    def __init__(self, app: ASGIApp, uids: frozenset[int]) -> None:
        self._app = app
        self._uids = uids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        problem = refusal(scope, self._uids)
        if problem is not None:
            await problem.response()(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:  # the server stops and waits for nobody any more
            if begun:
                raise
            await _STOPPING.response()(scope, receive, send)
