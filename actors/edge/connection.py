"""One HTTP connection, bounded before anybody has shown a token: how long its head may be, and how long it may take.

uvicorn's parser keeps a header of any length and adds to it piece by piece, so that one long line from a stranger
would hold up the loop for everybody, and a head that never ends would hold its descriptor for ever.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_TIMEOUT_S", "MAX_HEAD_BYTES", "BoundedProtocol"]

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Answer 431 to a head of more than 64 KiB (plus one read); close a connection whose head takes over 30 s."""

    _reading_head = False
    _began = False
    _head_bytes = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began = False
        super().data_received(data)
        if self._reading_head and not self._began:  # the read in which it began may hold the end of a body
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._head_is_here()
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._began = self._reading_head = True
        self._head_bytes = 0
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_here(self) -> None:
        self._reading_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_is_late(self) -> None:
        self._deadline = None
        self.transport.close()
