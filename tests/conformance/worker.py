"""A child process of the conformance test: does what the rig tells it over the bus."""

from __future__ import annotations

import asyncio
import json
import os

from supervisor.child import Child
from supervisor.leaving import NothingToDo

__all__ = ["main"]

_HOUR_S = 3600.0


async def main(child: Child) -> None:
    """Wait at the gate, come to the outcome, live, and end in the manner that was told."""
    me = json.dumps({"child": child.name, "pid": os.getpid()}).encode()
    word = json.loads(await child.endpoint.ask("root", "Begin", me, timeout_s=_HOUR_S))
    if word["outcome"] == "error":
        os._exit(1)
    if word["outcome"] == "ignore":
        raise NothingToDo
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def die(body: bytes) -> None:
        if not told.done():
            told.set_result(json.loads(body))

    child.endpoint.on("Die", die)
    await child.ready()
    stopping = asyncio.create_task(child.stopping.wait())
    await asyncio.wait({told, stopping}, return_when=asyncio.FIRST_COMPLETED)
    await _end(child, told.result() if told.done() else await _told_to_stop(child, word["manner"], told, me))


async def _told_to_stop(child: Child, manner: str, told: asyncio.Future[str], me: bytes) -> str:
    if manner in ("slow", "stubborn"):
        gate = asyncio.create_task(child.endpoint.ask("root", "MayStop", me, timeout_s=_HOUR_S))
        await asyncio.wait({told, gate}, return_when=asyncio.FIRST_COMPLETED)
        return told.result() if told.done() else "shutdown"
    return {"prompt": "shutdown", "rude": "crash", "plain": "normal"}[manner]


async def _end(child: Child, reason: str) -> None:
    if reason == "crash":
        os._exit(3)
    await child.say_ending("shutdown_with" if reason == "{shutdown}" else reason)
