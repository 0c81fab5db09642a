"""The plan of a root, read from JSON: strict, every error names the field, its value and the allowed set.

Pure but for ``read``.

The plan, JSON, strict (an unknown key is an error); ? marks what may be left out, with its default:

    {"supervisor": SUPERVISOR, "runtime_dir": "/abs", "state_dir": "/abs",
     "name"?: "treewarden",            first word of what root prints
     "preload"?: ["module", ...],      imported once by the fork server, shared by all children
     "listen"?: [{"name": "api", "kind"?: "tcp"|"unix", "host"?: "127.0.0.1", "port"?: 0, "path"?: "control.sock",
                  "backlog"?: 1024, "for": ["edge"]}],      a relative path lies in runtime_dir; Unix sockets are 0600
     "settings"?: {},                  opaque, handed to every child; replaced by the message SettingsRendered
     "banner"?: ["API {url}", ...],    printed once all children are ready; {url} is the URL of the first tcp socket,
                                       {NAME} that of the socket NAME, {runtime_dir}, {state_dir}, {pid}
     "reloads"?: "control",            the child that reads the settings anew on SIGHUP and Reload (supervisor.reload)
     "essential"?: ["keeper", "forest"],   a supervisor stands for all its processes
     "give_up_s"?: 300}                how long an essential child may be away before root exits
    SUPERVISOR = {"children": [CHILD, ...], "id"?: "root", "strategy"?: "one_for_one", "intensity"?: 10,
                  "period_s"?: 60, "auto_shutdown"?: "never"|"any_significant"|"all_significant",
                  "max_children"?: null, "eager"?: true, "on_excess"?: "slow_retry"|"escalate",
                  "backoff"?: null or BACKOFF}   strategies: one_for_one, one_for_all, rest_for_one, dynamic; plain OTP:
                  eager false, on_excess escalate, backoff null
    BACKOFF = {"base_s"?: .1, "cap_s"?: 2, "slow_s"?: 5, "slow_cap_s"?: 60, "settled_s"?: 3, "jitter"?: .25}
    CHILD = {"id": "keeper", "start": "module:function", "args"?: {}, "restart"?: "permanent"|"transient"|"temporary",
             "shutdown"?: 5000|"brutal_kill"|"infinity", "ready_timeout_s"?: 30, "heartbeat_deadline_s"?: 20,
             "type"?: "worker"|"supervisor", "significant"?: false,
             "nested"?: SUPERVISOR (then without start; its id is the child's)}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from supervisor.spec import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    ChildType,
    OnExcess,
    Restart,
    SpecError,
    Strategy,
    SupervisorSpec,
)
from supervisor.tree import GIVE_UP_S

__all__ = ["Listen", "Plan", "parse", "read"]

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Listen:
    """A socket that root binds and hands to the children in ``for_children`` at every start. Paths: in runtime_dir."""

    name: str
    kind: str = "tcp"
    host: str = "127.0.0.1"
    port: int = 0
    path: str = ""
    backlog: int = 1024
    for_children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a root is told."""

    supervisor: SupervisorSpec
    runtime_dir: Path
    state_dir: Path
    name: str = "treewarden"
    preload: tuple[str, ...] = ()
    listen: tuple[Listen, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    banner: tuple[str, ...] = ()
    reloads: str = ""
    essential: tuple[str, ...] = ()
    give_up_s: float = GIVE_UP_S


def read(text: str) -> Plan:
    """Parse a plan from JSON text. Raises SpecError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise SpecError(f"plan is no JSON: {error}") from error
    return parse(data)


def parse(data: Any) -> Plan:
    """Build a plan from JSON data. Raises SpecError."""
    row = _keys("plan", data, {f.name for f in fields(Plan)}, {"supervisor", "runtime_dir", "state_dir"})
    supervisor = _supervisor(row["supervisor"], "root")
    workers = {child.id for child in supervisor.workers()}
    return Plan(
        supervisor=supervisor,
        runtime_dir=_directory("runtime_dir", row["runtime_dir"]),
        state_dir=_directory("state_dir", row["state_dir"]),
        name=str(row.get("name", "treewarden")),
        preload=_words("preload", row.get("preload", [])),
        listen=tuple(_listen(item, workers) for item in row.get("listen", [])),
        settings=_object("settings", row.get("settings", {})),
        banner=_words("banner", row.get("banner", [])),
        reloads=_worker("reloads", row.get("reloads", ""), workers),
        essential=_words("essential", row.get("essential", [])),
        give_up_s=float(row.get("give_up_s", GIVE_UP_S)),
    )


def _supervisor(data: Any, default_id: str) -> SupervisorSpec:
    row = _keys(f"supervisor {default_id}", data, {f.name for f in fields(SupervisorSpec)}, {"children"})
    name = str(row.get("id", default_id))
    return SupervisorSpec(
        id=name,
        strategy=_choice(f"{name}: strategy", row.get("strategy", "one_for_one"), Strategy),
        intensity=row.get("intensity", 10),
        period_s=row.get("period_s", 60),
        children=tuple(_child(child) for child in row["children"]),
        auto_shutdown=_choice(f"{name}: auto_shutdown", row.get("auto_shutdown", "never"), AutoShutdown),
        max_children=row.get("max_children"),
        eager=row.get("eager", True),
        on_excess=_choice(f"{name}: on_excess", row.get("on_excess", "slow_retry"), OnExcess),
        backoff=_backoff(name, row.get("backoff", {})),
    )


def _backoff(name: str, data: Any) -> Backoff | None:
    if data is None:
        return None
    return Backoff(**_keys(f"{name}: backoff", data, {f.name for f in fields(Backoff)}, set()))


def _child(data: Any) -> ChildSpec:
    row = _keys("child", data, {f.name for f in fields(ChildSpec)}, {"id"})
    name = row["id"]
    nested = _supervisor(row["nested"], name) if row.get("nested") is not None else None
    row |= {
        "restart": _choice(f"{name}: restart", row.get("restart", "permanent"), Restart),
        "type": _choice(f"{name}: type", row.get("type", "supervisor" if nested else "worker"), ChildType),
        "nested": nested,
    }
    if nested is not None:
        row.setdefault("shutdown", "infinity")
    return ChildSpec(**row)


def _listen(data: Any, workers: set[str]) -> Listen:
    known = {"name", "kind", "host", "port", "path", "backlog", "for"}
    row = _keys("listen", data, known, {"name", "for"})
    name = row["name"]
    children = _words(f"listen {name}: for", row.pop("for"))
    for child in children:
        if child not in workers:
            raise SpecError(f"listen {name}: for is {child!r}; allowed: {', '.join(sorted(workers))}")
    listen = Listen(**row, for_children=children)
    if listen.kind not in ("tcp", "unix"):
        raise SpecError(f"listen {name}: kind is {listen.kind!r}; allowed: tcp, unix")
    if listen.kind == "unix" and not listen.path:
        raise SpecError(f"listen {name}: path is ''; allowed: a path for kind unix")
    if not isinstance(listen.port, int) or not 0 <= listen.port <= 65535:
        raise SpecError(f"listen {name}: port is {listen.port!r}; allowed: 0 (any free one) to 65535")
    return listen


def _keys(what: str, data: Any, known: set[str], required: set[str]) -> dict[str, Any]:
    for key in _object(what, data):
        if key not in known:
            raise SpecError(f"{what}: unknown key {key!r}; allowed: {', '.join(sorted(known))}")
    for key in sorted(required):
        if key not in data:
            raise SpecError(f"{what}: key {key!r} is missing")
    return dict(data)


def _object(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{what} is {value!r}; allowed: an object")
    return value


def _choice(what: str, value: Any, allowed: type[E]) -> E:
    try:
        return allowed(value)
    except ValueError:
        raise SpecError(f"{what} is {value!r}; allowed: {', '.join(item.value for item in allowed)}") from None


def _words(what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SpecError(f"{what} is {value!r}; allowed: a list of strings")
    return tuple(value)


def _worker(what: str, value: Any, workers: set[str]) -> str:
    if value != "" and value not in workers:
        raise SpecError(f"{what} is {value!r}; allowed: {', '.join(sorted(workers))}")
    return str(value)


def _directory(what: str, value: Any) -> Path:
    if not isinstance(value, str) or not Path(value).is_absolute():
        raise SpecError(f"{what} is {value!r}; allowed: an absolute path")
    return Path(value)
