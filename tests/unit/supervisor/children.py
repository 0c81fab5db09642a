"""Tiny children for the tests of root; a plan names them as ``tests.unit.supervisor.children:NAME``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

from supervisor.bus.errors import Refused
from supervisor.child import Child
from supervisor.leaving import Leave, NothingToDo


async def serve(child: Child) -> None:
    """Serve until told to stop."""
    await child.ready()
    await child.stopping.wait()


async def echo(child: Child) -> None:
    """Answer each connection on its listening socket ``api`` with its pid."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{os.getpid()}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=child.sockets["api"])
    await child.ready()
    await child.stopping.wait()
    server.close()


async def leave(child: Child) -> None:
    """Serve, and end on purpose when asked to stop."""
    await serve(child)
    raise Leave("all is said")


async def nothing(_child: Child) -> None:
    """Have nothing to do."""
    raise NothingToDo


async def once(child: Child) -> None:
    """Serve the first time only: a file in the state directory remembers."""
    mark = child.state_dir / f"{child.name}.started"
    if mark.exists():
        raise RuntimeError("not again")
    mark.touch()
    await serve(child)


async def inspect(child: Child) -> None:
    """Answer the bus message Inspect with what the process sees of itself."""

    async def answer(_body: bytes) -> bytes:
        facts = {
            "environment": sorted(os.environ),
            "settings": child.settings.values,
            "args": child.args,
            "sid": os.getsid(0),
            "ppid": os.getppid(),
            "sockets": {name: str(sock.getsockname()) for name, sock in child.sockets.items()},
        }
        return json.dumps(facts).encode()

    child.endpoint.on("Inspect", answer)
    await child.ready()
    await child.stopping.wait()


async def deaf(child: Child) -> None:
    """Be ready, then answer no heartbeat any more."""

    async def probe() -> None:
        await asyncio.Event().wait()

    child.on_probe(probe)
    await child.ready()
    await child.stopping.wait()


async def never_ready(child: Child) -> None:
    """Say something, never get ready."""
    print("still thinking")
    await child.stopping.wait()


async def crash(_child: Child) -> None:
    """Fail before it is ready."""
    print("about to fail")
    raise RuntimeError("no such luck")


async def stubborn(child: Child) -> None:
    """Ignore every polite request to stop, with a subprocess in its group."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    await child.ready()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    time.sleep(600)


async def parent(child: Child) -> None:
    """Have a subprocess in the own group; the bus message Helper tells its pid."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    async def answer(_body: bytes) -> bytes:
        return json.dumps(helper.pid).encode()

    child.endpoint.on("Helper", answer)
    await serve(child)


async def orphaning(child: Child) -> None:
    """Leave a process behind in a session of its own."""
    subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True)
    await serve(child)


async def reloads(child: Child) -> None:
    """Answer SettingsReload with versions that count up, or refuse while state_dir/broken is there; say a headline."""
    version = 0

    async def answer(body: bytes) -> bytes:
        nonlocal version
        asked = json.loads(body)
        if (child.state_dir / "broken").exists():
            raise Refused("invalid", ["progress.mode = 5 must be caf\u00e9", "second"])
        version += 1
        return json.dumps({"version": version, "asked": asked}).encode()

    child.endpoint.on("SettingsReload", answer)
    await child.ready()
    words = json.dumps({"child": child.name, "text": "12 trees, 1 stalling"}).encode()
    await child.endpoint.ask("root", "Headline", words)
    await child.stopping.wait()
