"""The edge process: HTTP on loopback TCP.

Start: subscribe to the shards' rows, then read the store, then serve; so no row is missed. An edge that restarts finds
its listening socket, its tokens and its map again and refuses no connection meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time

from actors.edge.admission import Admission
from actors.edge.api.context import Context
from actors.edge.app import api_application, application, checked_by
from actors.edge.auth import Scope, load_tokens, write_sensor_file
from actors.edge.body import ASGI
from actors.edge.directory import MAX_CONVERSATIONS, Directory
from actors.edge.guard import Guard
from actors.edge.hot import Hot, HotParts
from actors.edge.ingest import Ingestion
from actors.edge.lanes import Lanes
from actors.edge.metrics import Metrics
from actors.edge.server import serve
from actors.edge.shards import Shards
from actors.edge.sightings import SensorsSeen
from actors.knobs import Knobs
from actors.store.alert_reader import AlertReader
from actors.store.reader import Unreadable
from actors.tree.requests import TreeRow
from actors.version import own_version
from supervisor.bus.refs import handle
from supervisor.child import Child
from supervisor.settings.holder import Holder

__all__ = ["Edge", "main", "url_of"]

_log = logging.getLogger(__name__)

SOCKET = "http"
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}  # noqa: S104 - rewritten, not bound


async def main(child: Child) -> None:
    """Serve until the child is asked to stop."""
    edge = Edge(child)
    edge.load()
    tokens = edge.tokens
    listening = child.sockets[SOCKET]
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it; 40 ms an answer else
    url = url_of(*listening.getsockname()[:2])

    async def started() -> None:
        write_sensor_file(child.runtime_dir, url, tokens.by_scope[Scope.SENSOR], edge.version)
        await child.ready()
        _log.info("serving on %s", url)

    try:
        await serve(edge.app, [listening], child.stopping, started)
    finally:
        edge.close()


class Edge:
    """Everything that one edge process is made of."""

    def __init__(self, child: Child) -> None:
        self.version = own_version()
        self.tokens = load_tokens(child.state_dir)
        holder = Holder(child, Knobs)
        self.reader = AlertReader(child.state_dir / "treewarden.db")
        shards = Shards(child.endpoint, int(child.args["shards"]))
        self.directory = Directory(self.reader.conversation_tree)
        self.lanes = Lanes(shards, self._moved)
        self.admission = Admission(self._tree_of, lambda: holder.current.progress.mode.value)
        handle(child.endpoint, TreeRow, self.admission.update)
        self.metrics = self._measured()
        guard = Guard(self.tokens)
        ingestion = Ingestion(self.directory, self.lanes, lambda: holder.current.ingest.commit_deadline_s)
        parts = HotParts(
            guard,
            ingestion,
            self.admission,
            SensorsSeen(shards, time.time),
            self.metrics,
            lambda: holder.current,
        )
        context = Context(
            child.endpoint,
            self.reader,
            lambda: holder.current,
            shards,
            checked_by(guard),
            self.version,
            self.metrics.text,
        )
        self.app: ASGI = application(Hot(parts).routes, api_application(context))
        child.on_probe(self._probe)

    def load(self) -> None:
        """Read map and table from the store; what cannot be read now is read when it is asked for."""
        try:
            newest = self.reader.all_conversations(MAX_CONVERSATIONS // 2)
            self.directory.load((found.id, found.tree) for found in reversed(newest))
            self.admission.load(self.reader)
        except Unreadable as error:
            _log.error("starting without the store: %s", error)

    def close(self) -> None:
        """Give up what waits and let go of the database."""
        self.lanes.stop()
        self.reader.close()

    def _measured(self) -> Metrics:
        metrics = Metrics(self.version)
        self.admission.on_verdict(metrics.judged)
        metrics.gauge("treewarden_trees", "Trees by verdict", "state", self.admission.states)
        metrics.gauge(
            "treewarden_waiting_events",
            "Events that wait for their commit",
            "place",
            lambda: {"lanes": self.lanes.events},
        )
        return metrics

    def _moved(self, old: str, into: str) -> None:
        self.directory.moved(old, into)
        self.admission.forget(old)

    def _tree_of(self, conversation: str) -> str | None:
        try:
            return self.directory.tree_of(conversation)
        except Unreadable:  # admission fails open
            return None

    async def _probe(self) -> None:
        await asyncio.sleep(0)


def url_of(host: str, port: int) -> str:
    """Return the URL that clients use; wildcard addresses become loopback (C063)."""
    host = WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
