"""A loopback stand-in for the daemon's ingest: writes sensor.json, records every POST as raw bytes, answers 202.

It holds none of the daemon's logic. ``events`` are the progress events in order of arrival; ``raw`` is everything that
came over the wire (request lines, headers, bodies), for canary searches. ``answers`` are statuses to give first; while
``silent`` is set, requests are read and never answered.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.e2e.loopback import LoopbackServer

__all__ = ["RecordingIngest"]

TOKEN = "recording-token"


class RecordingIngest:
    def __init__(self, runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir
        self.events: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.raw = bytearray()
        self.answers: deque[int] = deque()
        self.silent = threading.Event()
        self._changed = threading.Condition(threading.RLock())
        handler = type("Bound", (_Handler,), {"ingest": self})
        self._server = LoopbackServer(handler)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> RecordingIngest:
        self._server.start()
        self.runtime_dir.mkdir(parents=True, exist_ok=True)
        (self.runtime_dir / "sensor.json").write_text(json.dumps({"url": self.url, "token": TOKEN}))
        return self

    def stop(self) -> None:
        self._server.stop()

    def receive(self, line: str, headers: dict[str, str], body: bytes) -> int:
        with self._changed:
            self.raw += f"{line}\n{headers}\n".encode() + body + b"\n"
            status = self.answers.popleft() if self.answers else 202
            if headers.get("authorization") != f"Bearer {TOKEN}":
                status = 401
            if status == 202:
                payload = json.loads(body)
                self.events += payload if isinstance(payload, list) else [payload]
                self.headers.append(headers)
            self._changed.notify_all()
        return status

    def of(self, conversation: str, kind: str | None = None) -> list[dict[str, Any]]:
        with self._changed:
            mine = [e for e in self.events if e["session_id"] == conversation]
        return [e for e in mine if kind is None or e.get("kind", "tool") == kind]

    def wait(self, condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
        """The condition's value once it is true; what arrived, in an AssertionError, when it does not become true."""
        with self._changed:
            self._changed.wait_for(condition, timeout_s)
        value = condition()
        if not value:
            raise AssertionError(f"not seen within {timeout_s} s; got {json.dumps(self.events, indent=1)[-6000:]}")
        return value


class _Handler(BaseHTTPRequestHandler):
    ingest: RecordingIngest
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Keep the test output quiet; everything is recorded."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.ingest.silent.is_set():
            self.rfile.read(1)  # until the sender gives up and closes
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = self.ingest.receive(self.requestline, headers, body)
        self.send_response(status)
        self.send_header("content-length", "2")
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")
