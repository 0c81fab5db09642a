"""Status and settings over a real control socket, with a root and two processes on a real bus."""

import asyncio
import os

import pytest

from actors.knobs import Knobs
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import RemoteError
from supervisor.control.operations import Operations, peers
from supervisor.control.server import application
from supervisor.settings.apply import Applier
from supervisor.settings.holder import Holder
from supervisor.settings.render import Layers
from tests.unit.control.sockets import served
from tests.unit.settings import processes


class Journal:
    """Keeps versions in memory."""

    def __init__(self):
        self.rows = []
        self.error = None

    async def save(self, rendered, overrides, author):
        if self.error is not None:
            raise self.error
        self.rows.append((rendered.version, overrides, author))

    def latest(self):
        return self.rows[-1][:2] if self.rows else None


class World:
    async def start(self, directory):
        self.root = await processes.Root.start(directory)
        self.control = Endpoint("control", directory)
        await self.control.start()
        process = processes.process(directory, "a", Knobs)
        self.a = Holder(process, Knobs)
        await process.endpoint.start()
        self.root.lists("a")
        self.endpoints = [self.root.endpoint, self.control, process.endpoint]
        self.journal = Journal()
        applier = Applier(self.control, Knobs, Layers(), 0, lambda: peers(self.control), retry_every_s=0.001)
        self.operations = Operations(self.control, applier, self.journal, self.extra)
        return self

    async def extra(self, root):
        return {"url": root.get("sockets", {}).get("http")}


def play(directory, case):
    async def whole():
        world = await World().start(directory)
        try:
            async with served(application(world.operations.routes()), directory / "http.sock") as client:
                await case(world, client)
        finally:
            for endpoint in world.endpoints:
                await endpoint.stop()

    asyncio.run(whole())


def test_status_shows_roots_children_and_what_the_application_adds(tmp_path):
    async def case(_world, client):
        found = (await client.get("/v1/status")).json()
        assert found["children"] == [{"id": "a", "pid": 1, "state": "ready", "restarts": 0}]
        assert found["url"] == "127.0.0.1:1"
        assert found["settings_version"] == 0

    play(tmp_path, case)


def test_status_root_that_does_not_answer_is_said(tmp_path):
    async def case(world, client):
        await world.root.endpoint.stop()
        found = (await client.get("/v1/status")).json()
        assert found["children"] == []
        assert "does not answer" in found["root"]

    play(tmp_path, case)


def test_settings_show_values_and_sources_with_their_version(tmp_path):
    async def case(_world, client):
        answer = await client.get("/v1/settings")
        assert answer.headers["etag"] == '"0"'
        assert answer.json()["values"]["progress"]["window"] == 60
        assert answer.json()["sources"]["progress.window"] == "default"

    play(tmp_path, case)


def test_patch_applies_and_records_who_did_it(tmp_path):
    async def case(world, client):
        body = {"overrides": {"progress.window": 90}, "note": "for tonight"}
        answer = await client.patch("/v1/settings", json=body, headers={"If-Match": '"0"'})
        change = {"path": "progress.window", "before": 60, "after": 90, "hot": True}
        assert answer.json() == {"version": 1, "applied": True, "changes": [change]}
        assert world.a.current.progress.window == 90
        ((version, overrides, author),) = world.journal.rows
        assert (version, overrides) == (1, {"progress.window": 90})
        assert (author.uid, author.note) == (os.getuid(), "for tonight")

    play(tmp_path, case)


def test_patch_dry_run_only_shows_the_difference(tmp_path):
    async def case(world, client):
        body = {"overrides": {"progress.window": 90}, "dry_run": True}
        answer = await client.patch("/v1/settings", json=body)
        assert answer.json()["applied"] is False
        assert answer.json()["changes"][0]["after"] == 90
        assert world.a.current.progress.window == 60
        assert world.journal.rows == []

    play(tmp_path, case)


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        ({"overrides": {"progress.mode": "no"}}, {}, 400, 'progress.mode = "no" must be one of warn'),
        ({"overrides": {"progress.moed": "warn"}}, {}, 400, "progress.moed is not a knob"),
        ({"overrides": {}, "dryrun": True}, {}, 400, "dryrun"),
        ({}, {}, 400, "overrides"),
        ({"overrides": {"progress.window": 90}}, {"If-Match": '"7"'}, 412, "at version 0, not 7"),
        ({"overrides": {"progress.window": 90}}, {"If-Match": "x"}, 400, "If-Match = x must be a version"),
    ],
)
def test_patch_what_is_wrong_is_named_and_nothing_changes(tmp_path, body, headers, status, words):
    async def case(world, client):
        answer = await client.patch("/v1/settings", json=body, headers=headers)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]
        assert world.a.current.progress.window == 60
        assert world.journal.rows == []

    play(tmp_path, case)


def test_patch_full_disk_changes_nothing_and_says_so(tmp_path):
    async def case(world, client):
        world.journal.error = RemoteError("storage", "disk is full")
        answer = await client.patch("/v1/settings", json={"overrides": {"progress.window": 90}})
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "nothing was changed: disk is full"
        assert world.a.current.progress.window == 60

    play(tmp_path, case)


def test_patch_takes_over_a_version_whose_answer_was_lost(tmp_path):
    async def case(world, client):
        world.journal.rows.append((1, {"progress.window": 80}, None))
        answer = await client.patch("/v1/settings", json={"overrides": {"progress.stall_turns": 26}})
        assert answer.json()["version"] == 2
        assert (world.a.current.progress.window, world.a.current.progress.stall_turns) == (80, 26)

    play(tmp_path, case)
