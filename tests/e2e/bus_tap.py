"""A tap on the bus: a relay that takes the place of a process's socket and keeps every byte that goes through it.

Peers connect by path and on demand, so connections made after the tap go through it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Tap:
    """Stands at ``path``; the process itself listens where its socket was moved to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._moved = path.with_suffix(".tapped")
        self.heard = bytearray()
        path.rename(self._moved)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._moved))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.heard += data
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
