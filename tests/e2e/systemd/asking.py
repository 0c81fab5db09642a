"""A client that keeps asking: a new connection for each request, over TCP and over the control socket, until told.

``python asking.py PORT PATH``; a line on stdin ends it. Prints ``{"tcp": COUNTS, "unix": COUNTS}``, each with ok,
refused (a connection that nobody took), broken (one that ended without an answer) and longest_s. Standard library only.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable

PAUSE_S = 0.005
PATIENCE_S = 30


class Asker(threading.Thread):
    def __init__(self, connect: Callable[[], socket.socket], request: bytes) -> None:
        super().__init__()
        self.over = threading.Event()
        self.counts = {"ok": 0, "refused": 0, "broken": 0, "longest_s": 0.0}
        self.errors: list[str] = []
        self._connect, self._request = connect, request

    def run(self) -> None:
        while not self.over.wait(PAUSE_S):
            began = time.monotonic()
            self.counts[self._ask()] += 1
            self.counts["longest_s"] = round(max(self.counts["longest_s"], time.monotonic() - began), 3)

    def _ask(self) -> str:
        try:
            connection = self._connect()
        except OSError as error:
            self.errors.append(repr(error))
            return "refused"
        with connection:
            try:
                connection.sendall(self._request)
                answer = connection.recv(4096)
            except OSError as error:
                self.errors.append(repr(error))
                return "broken"
        if not answer.startswith(b"HTTP/1.1 200"):
            self.errors.append(repr(answer[:80]))
            return "broken"
        return "ok"


def unix(path: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(PATIENCE_S)
    found.connect(path)
    return found


def main(port: str, path: str) -> None:
    def request(target: str, host: str) -> bytes:
        return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()

    def tcp() -> socket.socket:
        return socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE_S)

    askers = {
        "tcp": Asker(tcp, request("/healthz", f"127.0.0.1:{port}")),
        "unix": Asker(lambda: unix(path), request("/v1/settings", "control")),
    }
    for asker in askers.values():
        asker.start()
    print("asking", flush=True)
    sys.stdin.readline()
    for asker in askers.values():
        asker.over.set()
        asker.join()
    print(json.dumps({name: asker.counts | {"errors": asker.errors[:3]} for name, asker in askers.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
