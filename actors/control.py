"""The control process: process operations, the application's API and operations on trees, over the control socket.

It holds no state that it could lose: settings come from root and the database, everything else from other processes.
Status is answered from root and the database alone, so it works while keeper, forest or edge are down. Database reads
are short and on the loop. A change of settings is durable in the database before any process uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from actors.alert_desk import AlertDesk
from actors.clients.requests import Sighted, Sightings
from actors.crash_watch import CrashWatch
from actors.edge.api.context import Context
from actors.edge.api.routes import routes
from actors.edge.shards import Shards
from actors.knobs import Knobs
from actors.messages import Command, Frozen, Mode
from actors.notifier.requests import Health as ChannelsHealth
from actors.notifier.requests import NotifierHealth
from actors.settings_journal import SettingsJournal
from actors.state_line import headline, state_line
from actors.store.alert_reader import AlertReader
from actors.store.reader import Reader, Unreadable
from actors.store.requests import Commit, Committed, Health, KeeperHealth, Write
from actors.tree.requests import Described, Operate, shard_of
from actors.version import own_version
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref
from supervisor.child import Child
from supervisor.control.operations import Author, Operations, body_as, peers
from supervisor.control.peer import peer_of
from supervisor.control.problem import Problem
from supervisor.control.reload import Reload
from supervisor.control.restart import Restarts
from supervisor.control.server import application, serve
from supervisor.settings.apply import Applier
from supervisor.settings.errors import InvalidSettings
from supervisor.settings.holder import Holder
from supervisor.settings.render import Layers, value_at

__all__ = ["WARN_ONLY", "main"]

_log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 15.0
FIRST_LOOK_S = 10
CRASHES_IN_STATUS = 3
MOST_CRASHES = 200
HEADLINE_EVERY_S = 5
WARN_ONLY = "in this version every mode only warns: recovery is not built yet"


class ModeRequest(BaseModel):
    """The body of POST /v1/mode; without a tree it is the daemon's mode; None clears what was set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode | None
    tree: str | None = None
    note: str = ""


class Application:
    """What treewarden adds to the process operations."""

    def __init__(self, child: Child, knobs: Holder[Knobs], reader: Reader) -> None:
        self._child = child
        self._knobs = knobs
        self._reader = reader
        self.operations: Operations | None = None
        self._changed = asyncio.Event()
        knobs.subscribe(lambda _: self._changed.set())

    def routes(self) -> list[Route]:
        return [
            Route("/v1/mode", self.mode, methods=["POST"]),
            Route("/v1/trees/{id:path}/resume", self.resume, methods=["POST"]),
            Route("/v1/health", self.health, methods=["GET"]),
            Route("/v1/crashes", self.crashes, methods=["GET"]),
        ]

    async def extra(self, root: Mapping[str, Any]) -> dict[str, Any]:
        """What GET /v1/status tells beside what root says; nothing here needs another process."""
        state, runtime = self._child.state_dir, self._child.runtime_dir
        return {
            "version": own_version(),
            "url": f"http://{root['sockets']['http']}" if "sockets" in root else None,
            "control_socket": str(runtime / "control.sock"),
            "token_file": str(state / "tokens" / "operator.token"),
            "sensor_file": str(runtime / "sensor.json"),
            "state_dir": str(state),
            "mode": self._knobs.current.progress.mode,
            "trees": self._trees(),
            "crashes": self._crashes(None, CRASHES_IN_STATUS),
        }

    def _trees(self) -> dict[str, Any]:
        try:
            counts = self._reader.tree_counts_by_verdict()
        except Unreadable as error:
            return {"total": None, "by_verdict": {}, "error": str(error)}
        return {"total": sum(counts.values()), "by_verdict": {"ok": 0, "stalling": 0, "looping": 0} | counts}

    async def audit(self, action: str, detail: dict[str, Any], uid: int) -> None:
        """Note who asked for a process operation; a storage that is away does not stop the operator."""
        row = {"at": time.time(), "uid": uid, "action": action, "detail": json.dumps(detail)}
        try:
            await Ref(self._child.endpoint, "keeper").ask(
                Commit(writes=[Write(op="audit.add", row=row)], durable=True), Committed, timeout_s=2.0
            )
        except BusError as error:
            _log.warning("not audited: %s of %s by uid %d: %s", action, detail, uid, error)

    async def tell(self) -> None:
        """Log one line of state when the clients were looked at first, then each run.line_every_s and on a change."""
        for _ in range(FIRST_LOOK_S):
            await asyncio.sleep(1)
            if (await self._say("clients", Sightings(), Sighted)).get("swept_at"):
                break
        while True:
            seen = await self._say("clients", Sightings(), Sighted)
            _log.info("%s", state_line(self._knobs.current.progress.mode, self._trees(), seen))
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._knobs.current.run.line_every_s):
                    await self._changed.wait()

    async def head(self) -> None:
        """Give root the words for `systemctl status` whenever they differ."""
        said = None
        while True:
            words = headline(self._trees())
            if words != said:
                body = json.dumps({"child": self._child.name, "text": words}).encode()
                with contextlib.suppress(BusError):  # then at the next look
                    await self._child.endpoint.ask("root", "Headline", body)
                    said = words
            await asyncio.sleep(HEADLINE_EVERY_S)

    async def mode(self, request: Request) -> JSONResponse:
        """Change the mode of the daemon (a settings change) or of one tree."""
        asked = await body_as(request, ModeRequest)
        uid = peer_of(request.scope).uid
        if asked.tree is not None:
            view = await self._operate(asked.tree, "mode", uid, asked.mode)
            return JSONResponse(
                {"tree": self._tree_of(asked.tree), "mode": asked.mode, "note": WARN_ONLY, "view": view}
            )
        assert self.operations is not None
        change = {"progress.mode": asked.mode}
        applied = await self.operations.change(change, Author(uid=uid, note=asked.note or "mode"))
        rendered = applied.rendered
        changes = [item.model_dump() for item in applied.changes]
        body = {"mode": rendered.values["progress"]["mode"], "version": rendered.version, "changes": changes}
        return JSONResponse({**body, "note": WARN_ONLY})

    async def resume(self, request: Request) -> JSONResponse:
        """End a tree's flags and reset its counters, as its operator says."""
        tree = request.path_params["id"]
        view = await self._operate(tree, "resume", peer_of(request.scope).uid)
        return JSONResponse({"tree": self._tree_of(tree), "view": view})

    async def _operate(self, tree: str, action: Any, uid: int, value: Mode | None = None) -> dict[str, Any]:
        tree = self._tree_of(tree)
        shard = shard_of(tree, self._child.args["shards"])
        command = Command(t=time.time(), action=action, value=value, by=f"uid:{uid}")
        try:
            answer = await Ref(self._child.endpoint, shard).ask(
                Operate(tree=tree, command=command, uid=uid), Described, timeout_s=COMMIT_TIMEOUT_S
            )
        except BusError as error:
            raise Problem(503, "unavailable", f"{shard} did not do it: {error or type(error).__name__}") from None
        if not answer.found:
            raise Problem(404, "not_found", f"tree {tree} is not known: see treewarden trees")
        return answer.view

    def _tree_of(self, name: str) -> str:
        """Return the tree that is meant: by its id, one of its conversations, or an id from before a merge."""
        try:
            return self._reader.conversation_tree(name) or name
        except Unreadable as error:
            raise Problem(503, "unavailable", str(error)) from None

    async def crashes(self, request: Request) -> JSONResponse:
        """Crash reports, newest first: ``?process=NAME&limit=N``, and how often each process ended of itself."""
        limit = request.query_params.get("limit", "20")
        if not limit.isdigit() or not 1 <= int(limit) <= MOST_CRASHES:
            raise Problem(400, "invalid", f"limit = {limit} must be a number from 1 to {MOST_CRASHES}")
        try:
            deaths = self._reader.death_tally()
        except Unreadable as error:
            raise Problem(503, "unavailable", str(error)) from None
        found = self._crashes(request.query_params.get("process"), int(limit))
        return JSONResponse({"crashes": found, "deaths": deaths})

    def _crashes(self, process: str | None, limit: int) -> list[dict[str, Any]]:
        try:
            found = self._reader.crashes(offender=process, limit=limit)
        except Unreadable:
            return []  # status says already that the database cannot be read
        return [{**one._asdict(), "log": json.loads(one.log)} for one in found]

    async def health(self, _request: Request) -> JSONResponse:
        """What keeper, notifier and clients say of themselves; one that does not answer says {"error"}."""
        asked = (
            ("keeper", KeeperHealth(), Health),
            ("notifier", NotifierHealth(), ChannelsHealth),
            ("clients", Sightings(), Sighted),
        )
        answers = await asyncio.gather(*(self._say(peer, message, reply) for peer, message, reply in asked))
        return JSONResponse(dict(zip((peer for peer, _, _ in asked), answers, strict=True)))

    async def _say(self, peer: str, message: Frozen, reply: type[Frozen]) -> dict[str, Any]:
        try:
            answer = await Ref(self._child.endpoint, peer).ask(message, reply, timeout_s=2.0)
        except BusError as error:
            return {"error": str(error) or type(error).__name__}
        return answer.model_dump(mode="json")


def _applier(child: Child) -> Applier:
    values, sources = child.settings.values, child.settings.sources
    runtime = {path: value_at(values, path) for path, source in sources.items() if source == "runtime"}
    layers = Layers(**child.settings.layers, runtime=runtime)

    async def those() -> Any:
        return await peers(child.endpoint)

    return Applier(child.endpoint, Knobs, layers, child.settings.version, those)


async def main(child: Child) -> None:
    """Serve the control socket until told to stop."""
    reader = AlertReader(child.state_dir / "treewarden.db")
    knobs = Holder(child, Knobs)
    app = Application(child, knobs, reader)
    operations = Operations(child.endpoint, _applier(child), SettingsJournal(child.endpoint, reader), app.extra)
    app.operations = operations
    reload = Reload(child.endpoint, operations, child.args["reread"])
    restarts = Restarts(child.endpoint, app.audit, child.stopping)
    own = [*operations.routes(), *reload.routes(), *restarts.routes(), *app.routes()]
    own += AlertDesk(child.endpoint).routes()
    table = [*own, *_api(child, knobs, reader)]
    serving = asyncio.create_task(
        serve(
            application(table),
            child.sockets["control"],
            child.stopping,
        )
    )
    await child.ready()
    try:
        await operations.catch_up()
    except InvalidSettings as error:
        _log.error("the overrides in the database are not used: %s", error)
    watch = CrashWatch(child.endpoint, reader, time.time)
    beside = [asyncio.create_task(work) for work in (app.tell(), app.head(), watch.run())]
    try:
        await serving
    finally:
        for task in beside:
            task.cancel()


def _api(child: Child, knobs: Holder[Knobs], reader: Reader) -> list[Route]:
    """The API that the edge serves over TCP; here the socket's guard has asked who it is."""
    return routes(
        Context(
            endpoint=child.endpoint,
            reader=reader,
            knobs=lambda: knobs.current,
            shards=Shards(child.endpoint, child.args["shards"]),
            check=lambda _request, _scope: None,
            version=own_version(),
        )
    )
