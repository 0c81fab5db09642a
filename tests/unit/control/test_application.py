"""The control process itself, with the other processes as endpoints on a real bus."""

import asyncio
import contextlib
import json
import os
import sys

import httpx

from actors.clients.requests import Sighted
from actors.control import main
from actors.knobs import Knobs
from actors.store.requests import Commit, Committed
from actors.tree.requests import Described, Operate, shard_of
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused, RemoteError
from supervisor.bus.refs import handle
from supervisor.child import Child, RenderedSettings
from supervisor.settings.render import Layers, render
from tests.unit.control.sockets import listener
from tests.unit.settings import processes

SHARDS = 2
FILE = {"progress.window": 70}
REREAD = "import sys; print(open(sys.argv[1]).read())"


class World:
    """Root, keeper, both shards and clients, as far as control talks to them."""

    async def start(self, directory):
        (directory / "bus").mkdir()
        bus = directory / "bus"
        self.root = await processes.Root.start(bus)
        self.root.endpoint.on("Ready", self.ready)
        self.root.lists("control")
        self.commits, self.operated, self.lines = [], [], asyncio.Event()
        self.endpoints = [self.root.endpoint]
        self.keeper = await self.begin(bus, "keeper")
        handle(self.keeper, Commit, self.commit)
        for number in range(SHARDS):
            handle(await self.begin(bus, f"forest-{number}"), Operate, self.operate(f"forest-{number}"))
        self.child = await self.control(directory, bus)
        return self

    async def begin(self, bus, name):
        endpoint = Endpoint(name, bus)
        await endpoint.start()
        self.endpoints.append(endpoint)
        return endpoint

    async def control(self, directory, bus):
        rendered = render(Knobs, Layers(file=FILE))
        return Child(
            name="control",
            endpoint=await self.begin(bus, "control"),
            runtime_dir=directory,
            state_dir=directory,
            args={"shards": SHARDS, "reread": [sys.executable, "-c", REREAD, str(directory / "layers.json")]},
            sockets={"control": listener(directory / "control.sock")},
            settings=RenderedSettings(**rendered.model_dump(), layers={"file": FILE}),
        )

    async def ready(self, _body):
        return b"null"

    async def commit(self, commit):
        self.commits.append(commit)
        return Committed(rows=[0] * len(commit.writes))

    def operate(self, shard):
        async def answer(message):
            self.operated.append((shard, message))
            return Described(found=message.tree != "unknown", view={"verdict": "ok"})

        return answer


@contextlib.asynccontextmanager
async def running(directory):
    world = await World().start(directory)
    serving = asyncio.create_task(main(world.child))
    transport = httpx.AsyncHTTPTransport(uds=str(directory / "control.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://control", timeout=5) as client:
        try:
            yield world, client
        finally:
            world.child.stopping.set()
            await serving
            for endpoint in world.endpoints:
                await endpoint.stop()


def play(directory, case):
    async def whole():
        async with running(directory) as (world, client):
            await case(world, client)

    asyncio.run(whole())


def test_status_needs_nothing_but_root(tmp_path):
    async def case(world, client):
        await world.keeper.stop()
        found = (await client.get("/v1/status")).json()
        assert found["children"][0]["id"] == "control"
        assert found["url"] == "http://127.0.0.1:1"
        assert found["mode"] == "warn"
        assert found["trees"] == {"total": 0, "by_verdict": {"ok": 0, "stalling": 0, "looping": 0}}
        assert found["token_file"] == str(tmp_path / "tokens" / "operator.token")

    play(tmp_path, case)


def test_mode_is_a_settings_change_and_its_audit_in_one_durable_commit(tmp_path):
    async def case(world, client):
        answer = (await client.post("/v1/mode", json={"mode": "auto_recover"})).json()
        assert (answer["mode"], answer["version"]) == ("auto_recover", 1)
        assert "only warns" in answer["note"]
        (commit,) = world.commits
        assert commit.durable
        version, audit = commit.writes
        assert version.op == "settings.add"
        assert version.row["overrides"] == '{"progress.mode": "auto_recover"}'
        assert (audit.op, audit.row["uid"]) == ("audit.add", os.getuid())
        assert (await client.get("/v1/status")).json()["mode"] == "auto_recover"
        settings = (await client.get("/v1/settings")).json()
        assert settings["sources"]["progress.window"] == "file"
        assert settings["sources"]["progress.mode"] == "runtime"

    play(tmp_path, case)


def test_mode_is_not_changed_when_the_keeper_refuses(tmp_path):
    async def case(world, client):
        async def refuse(_commit):
            raise Refused("storage", "disk full")

        handle(world.keeper, Commit, refuse)
        answer = await client.post("/v1/mode", json={"mode": "auto_recover"})
        assert answer.status_code == 503
        assert "disk full" in answer.json()["error"]["message"]
        assert (await client.get("/v1/status")).json()["mode"] == "warn"

    play(tmp_path, case)


def test_mode_of_a_tree_goes_to_its_shard_with_the_uid(tmp_path):
    async def case(world, client):
        await client.post("/v1/mode", json={"mode": "auto_compact", "tree": "t/1"})
        ((shard, message),) = world.operated
        assert shard == shard_of("t/1", SHARDS)
        assert (message.command.action, message.command.value, message.uid) == ("mode", "auto_compact", os.getuid())
        assert world.commits == []

    play(tmp_path, case)


def test_mode_unknown_is_refused(tmp_path):
    async def case(_world, client):
        answer = await client.post("/v1/mode", json={"mode": "auto"})
        assert answer.status_code == 400
        assert "auto_limit_context" in answer.json()["error"]["message"]

    play(tmp_path, case)


def test_resume_goes_to_the_shard_of_an_id_with_any_characters(tmp_path):
    async def case(world, client):
        answer = await client.post("/v1/trees/a%2Fb%3Fc/resume", json={})
        assert answer.json() == {"tree": "a/b?c", "view": {"verdict": "ok"}}
        assert world.operated[0][1].tree == "a/b?c"

    play(tmp_path, case)


def test_resume_unknown_tree_is_not_found(tmp_path):
    async def case(_world, client):
        assert (await client.post("/v1/trees/unknown/resume", json={})).status_code == 404

    play(tmp_path, case)


def test_resume_with_its_shard_down_is_unavailable(tmp_path):
    async def case(world, client):
        for endpoint in world.endpoints:
            if endpoint.name.startswith("forest"):
                await endpoint.stop()
        answer = await client.post("/v1/trees/x/resume", json={})
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "unavailable"

    play(tmp_path, case)


def test_health_process_that_is_down_says_so_beside_the_others(tmp_path):
    async def case(world, client):
        found = (await client.get("/v1/health")).json()
        assert "error" in found["clients"]
        clients = await world.begin(tmp_path / "bus", "clients")
        clients.on("Sightings", answering(Sighted(swept_at=5.0)))
        found = (await client.get("/v1/health")).json()
        assert found["clients"]["swept_at"] == 5.0

    play(tmp_path, case)


def answering(model):
    async def answer(_body):
        return model.model_dump_json().encode()

    return answer


def test_api_of_the_edge_is_served_too(tmp_path):
    async def case(_world, client):
        assert (await client.get("/v1/trees")).json() == {"trees": [], "next": None}
        assert (await client.get("/v1/trees/nope")).status_code == 404

    play(tmp_path, case)


def reloading(world, directory, said):
    """Let root pass a reload on to control, as the real one does; ``said`` is what the reading process prints."""

    async def passed_on(body):
        try:
            return await world.root.endpoint.ask("control", "SettingsReload", body)
        except RemoteError as error:
            raise Refused(error.code, error.detail) from None

    world.root.endpoint.on("Reload", passed_on)
    (directory / "layers.json").write_text(json.dumps(said))


def test_reload_is_a_settings_change_and_its_audit_in_one_durable_commit(tmp_path):
    async def case(world, client):
        said = {"problems": [], "layers": {"file": {"progress.window": 99, "run.port": 1}, "environment": {}}}
        reloading(world, tmp_path, said)
        answer = (await client.post("/v1/settings/reload", json={})).json()
        changes = {change["path"]: change["hot"] for change in answer["changes"]}
        assert (answer["version"], changes) == (1, {"progress.window": True, "run.port": False})
        (commit,) = world.commits
        assert commit.durable
        assert [write.row.get("note") for write in commit.writes] == ["reload", None]
        assert (await client.get("/v1/settings")).json()["values"]["progress"]["window"] == 99

    play(tmp_path, case)


def test_reload_bad_file_changes_nothing_and_names_every_problem(tmp_path):
    async def case(world, client):
        reloading(world, tmp_path, {"problems": ["one", "two"]})
        answer = await client.post("/v1/settings/reload", json={})
        assert answer.status_code == 400
        assert answer.json()["error"]["problems"] == ["one", "two"]
        assert world.commits == []
        assert (await client.get("/v1/settings")).json()["values"]["progress"]["window"] == 70

    play(tmp_path, case)


def test_reload_with_root_not_answering_is_unavailable(tmp_path):
    async def case(world, client):
        async def hang_up(_body):
            await world.root.endpoint.stop()

        world.root.endpoint.on("Reload", hang_up)
        assert (await client.post("/v1/settings/reload", json={})).status_code == 503

    play(tmp_path, case)
