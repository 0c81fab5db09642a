"""SWE-agent's trajectories: ``.traj``, one JSON document. They have no times and no exit codes.

An action is a line of shell, or one of the agent's own commands (open, edit, create, str_replace_editor). Dollars are
told for the whole run only; each step gets its share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from actors.messages import Kind
from actors.sensors.normalise import Call, Session, Usage
from actors.sensors.readers.records import Origin, Problem, Record, World, world_of
from actors.sensors.readers.shapes import arguments, dollars, joined, mapping, mappings, text

__all__ = ["read", "recognises"]

SOURCE = "swe-agent"
REFUSED = re.compile(
    r"^Your proposed edit has introduced new syntax error|^No replacement was performed|^Invalid|^Error:|^ERROR:"
    r"|^Usage: |^Text to replace not found|^usage: |was not found in|^No edit was performed"
    r"|^The command .{0,200} timed out",
    re.M,
)
HEAD = 4000
OPEN_FILE = re.compile(r"^\[File: (\S+) ", re.M)


def recognises(record: Any) -> bool:
    """Whether a decoded document is of this format."""
    steps = mapping(record).get("trajectory")
    return isinstance(steps, list) and all("action" in mapping(step) for step in steps[:3])


def read(origin: Origin, records: Iterable[Record | Problem]) -> Iterator[World | Problem]:
    """Yield a world per trajectory."""
    for record in records:
        if isinstance(record, Problem):
            yield record
        elif not recognises(record.value):
            yield Problem(record.where, "not a trajectory (trajectory with actions)")
        else:
            one = record.value
            stem = PurePath(origin.name).name.removesuffix(".gz").removesuffix(".traj")
            name = text(one.get("instance_id")) or text(one.get("environment")) or stem
            session = Session(stem if name == "main" else name, agent="swe-agent", home=origin.home)
            _add(session, list(mappings(one["trajectory"])), mapping(one.get("info")))
            yield from world_of(SOURCE, [session])


def _add(session: Session, steps: list[dict[str, Any]], info: dict[str, Any]) -> None:
    total = dollars(mapping(info.get("model_stats")).get("instance_cost"))
    share = total / len(steps) if total is not None and steps else None
    session.prompt(None, "")
    opened = ""
    for index, step in enumerate(steps):
        round_ = f"turn-{index}"
        action, observation = text(step.get("action")).strip(), joined(step.get("observation"))
        session.said(None, round_, text(step.get("thought")) or text(step.get("response")))
        if action == "submit" or action.startswith("submit "):
            session.mark(None, Kind.DONE, round=round_)
        elif action:
            tool, args = _plain(action, opened)
            outcome = _outcome(tool, observation)
            session.call(Call(tool, args, round=round_, **outcome))
        session.turn(None, round_, Usage(usd=share))
        opened = _opened(step, observation) or opened


def _opened(step: dict[str, Any], observation: str) -> str:
    state = arguments(step.get("state"))
    found = OPEN_FILE.search(observation[:HEAD])
    named = text(state.get("open_file")) or (found[1] if found else "")
    return "" if named == "n/a" else named


def _plain(action: str, opened: str) -> tuple[str, dict[str, Any]]:
    verb, _, rest = action.partition(" ")
    words = rest.split()
    if verb == "edit" and opened:
        return "edit", {"filePath": opened, "patch": action}
    if verb == "create" and words:
        return "write", {"filePath": words[0], "content": ""}
    if verb == "insert" and opened:
        return "edit", {"filePath": opened, "patch": action}
    if verb == "open" and words:
        return "read", {"filePath": words[0], "offset": words[1] if len(words) > 1 else 0}
    if verb in ("goto", "scroll_down", "scroll_up") and opened:
        return "read", {"filePath": opened, "offset": f"{verb} {rest}"}
    if verb == "str_replace_editor" and len(words) > 1:
        return _editor(words[0], words[1], rest)
    return "bash", {"command": action}


def _editor(what: str, file: str, rest: str) -> tuple[str, dict[str, Any]]:
    if what == "view":
        return "read", {"filePath": file, "offset": " ".join(rest.split()[2:])}
    if what == "create":
        return "write", {"filePath": file, "content": rest}
    return "edit", {"filePath": file, "patch": rest}


def _outcome(tool: str, observation: str) -> dict[str, Any]:
    if tool == "bash":
        return {"exit": None, "output": observation}
    if REFUSED.search(observation[:HEAD]):
        return {"failure": observation}
    return {"exit": 0, "output": observation}
