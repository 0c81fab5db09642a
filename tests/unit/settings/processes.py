"""Small processes on a real bus: a root that lists children, and children that hold settings."""

import asyncio
import json
from dataclasses import dataclass, field

from supervisor.bus.endpoint import Endpoint
from supervisor.settings.render import Layers, render


@dataclass
class Process:
    """What a holder needs of a child."""

    endpoint: Endpoint
    settings: object


@dataclass
class Root:
    """Answers Children and SettingsRendered as the root does."""

    endpoint: Endpoint
    children: list = field(default_factory=list)
    rendered: list = field(default_factory=list)

    @classmethod
    async def start(cls, directory):
        root = cls(Endpoint("root", directory))
        root.endpoint.on("Children", root.answer)
        root.endpoint.on("SettingsRendered", root.keep)
        await root.endpoint.start()
        return root

    async def answer(self, _body):
        return json.dumps({"children": self.children, "sockets": {"http": "127.0.0.1:1"}}).encode()

    async def keep(self, body):
        self.rendered.append(json.loads(body))
        return b"null"

    def lists(self, name, state="ready"):
        self.children.append({"id": name, "pid": 1, "state": state, "restarts": 0})


def process(directory, name, schema, layers=None):
    """A process that starts with what ``layers`` render to."""
    return Process(Endpoint(name, directory), render(schema, layers or Layers()))


async def until(condition):
    """Wait, a loop turn at a time, until ``condition()`` holds."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)
