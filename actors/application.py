"""The supervision tree of treewarden, as data: children by import path, sockets, preloaded modules. Pure.

Start order as listed, stop order reversed: the keeper first, since everybody writes through it;
control early, so that status answers while the rest starts; the edge last, so that nothing comes in before its
receivers are there. The forest is a supervisor without a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ESSENTIAL", "PRELOAD", "plan", "shards_for"]

# imported once in the fork server: a restarted child is up in milliseconds. Nothing here opens a file or a thread.
PRELOAD = (
    "actors.store.keeper",
    "actors.control",
    "actors.notifier.main",
    "actors.tree.shard",
    "actors.clients.main",
    "actors.edge.main",
)

# without these for give_up_s the root ends, for systemd to start it afresh
ESSENTIAL = ("keeper", "control", "forest", "edge")

LEAST_SHARDS = 2

# above the longest stall of the database: a slow disk must not kill the process that waits for it
KEEPER_DEADLINE_S = 90


def shards_for(configured: int, cores: int | None = None) -> int:
    """Return the number of forest processes: as configured, or one per core, at least two."""
    usable = cores if cores is not None else len(os.sched_getaffinity(0))
    return configured or max(LEAST_SHARDS, usable)


def plan(
    *,
    state_dir: Path,
    runtime_dir: Path,
    port: int,
    shards: int,
    settings: Mapping[str, Any],
    reread: Sequence[str],
    banner: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the plan for root as JSON data (format: supervisor.plan).

    ``settings`` are the rendered ones, with the layers (file, environment) over which control renders changes;
    ``reread`` is the command that control runs on a reload (supervisor.settings.reread).
    """
    args = {"shards": shards}

    def child(name: str, start: str, **more: Any) -> dict[str, Any]:
        return {"id": name, "start": start, "args": {**args, **more}}

    forest = [child(f"forest-{number}", "actors.tree.shard:main", index=number) for number in range(shards)]
    children = [
        {**child("keeper", "actors.store.keeper:main"), "heartbeat_deadline_s": KEEPER_DEADLINE_S},
        child("control", "actors.control:main", reread=list(reread)),
        child("notifier", "actors.notifier.main:main"),
        {"id": "forest", "nested": {"id": "forest", "children": forest}},
        child("clients", "actors.clients.main:main"),
        child("edge", "actors.edge.main:main"),
    ]
    return {
        "name": "treewarden",
        "state_dir": str(state_dir),
        "runtime_dir": str(runtime_dir),
        "supervisor": {"id": "root", "children": children},
        "reloads": "control",
        "essential": list(ESSENTIAL),
        "listen": [
            {"name": "http", "kind": "tcp", "host": "127.0.0.1", "port": port, "for": ["edge"]},
            {"name": "control", "kind": "unix", "path": "control.sock", "for": ["control"]},
        ],
        "preload": list(PRELOAD),
        "settings": dict(settings),
        "banner": list(banner),
    }
