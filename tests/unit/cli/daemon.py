"""A stand-in for the daemon: the real control server with canned answers, in a thread, on a real Unix socket."""

import asyncio
import contextlib
import json
import threading

from starlette.responses import JSONResponse
from starlette.routing import Route

from supervisor.control.problem import Problem
from supervisor.control.server import application, serve
from tests.unit.control.sockets import listener

STATUS = {
    "version": "0.1.0",
    "url": "http://127.0.0.1:7717",
    "control_socket": "/run/control.sock",
    "token_file": "/state/tokens/operator.token",
    "sensor_file": "/run/sensor.json",
    "state_dir": "/state",
    "mode": "warn",
    "trees": {"total": 3, "by_verdict": {"ok": 2, "stalling": 0, "looping": 1}},
    "children": [
        {"id": "keeper", "pid": 11, "state": "ready", "restarts": 0},
        {"id": "edge", "pid": 12, "state": "ready", "restarts": 2},
    ],
}

HEALTH = {
    "keeper": {"state": "ok", "detail": "", "since": 1.0},
    "notifier": {"degraded": "", "channels": [{"name": "desktop", "type": "desktop", "state": "ok", "detail": ""}]},
    "clients": {
        "servers": [
            {"url": "http://127.0.0.1:4096", "ok": True, "version": "1.18", "source": "registry", "detail": ""}
        ],
        "stores": [{"path": "/home/me/opencode.db", "kind": "opencode"}],
        "plugins": [{"source": "plugin", "version": "0.1.0", "seen_at": 1.0, "stale": False}],
        "blind": [],
        "swept_at": 1.0,
    },
}


class Daemon:
    """``answers``: (method, path) -> body or Problem. ``asked`` holds what was sent, in order."""

    def __init__(self, directory):
        self.directory = directory
        self.answers = {}
        self.asked = []
        self._loop = None
        self._stopping = None

    def __enter__(self):
        self.directory.mkdir(exist_ok=True, mode=0o700)
        self._listener = listener(self.directory / "control.sock")
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)))
        self._thread.start()
        started.wait(5)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(5)

    async def _serve(self, started):
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        route = Route("/{path:path}", self._answer, methods=["GET", "POST", "PATCH"])
        await serve(application([route]), self._listener, self._stopping)

    async def _answer(self, request):
        path = request.scope["raw_path"].decode()
        body = await request.body()
        self.asked.append(
            (request.method, path, json.loads(body) if body else dict(request.query_params), dict(request.headers))
        )
        found = self.answers.get((request.method, path), Problem(404, "not_found", f"{path} is not known"))
        if callable(found):
            found = found(request)
        if isinstance(found, Exception):
            raise found
        return JSONResponse(found)


@contextlib.contextmanager
def daemon(tmp_path, answers):
    with Daemon(tmp_path / "run") as running:
        running.answers = answers
        yield running
