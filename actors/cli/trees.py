"""treewarden trees: the conversation trees, the newest or worst first."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from actors.cli.options import Json, RuntimeDir, colour, emit_json
from actors.cli.table import ago, columns, usd

__all__ = ["trees"]

_HEAD = ("TREE", "VERDICT", "REASON", "STATUS", "TURNS", "USD", "EVENTS", "TOP TARGET", "LAST EVENT")
_ORDER = {"looping": 0, "stalling": 1, "ok": 2}
_PAGE = 500


def trees(
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Most trees to show.")] = 50,
) -> None:
    """List the trees, the worst first: turns and dollars since something landed, top repeated target."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        found = _all(control, limit)
    found.sort(key=lambda tree: (_ORDER.get(tree["verdict"], 3), -(tree.get("last_event_at") or 0)))
    if json_output:
        emit_json({"trees": found})
    else:
        typer.echo("\n".join(_screen(found)))


def _all(control: Any, limit: int) -> list[dict[str, Any]]:
    """Follow the pages until there are ``limit`` trees or no more."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    while len(found) < limit:
        params: dict[str, str | int] = {"limit": min(_PAGE, limit - len(found))}
        page = control.get("/v1/trees", **params, **({} if after is None else {"after": after}))
        found += page["trees"]
        after = page.get("next")
        if not after:
            break
    return found


def _screen(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["no trees yet: connect a client (treewarden install-plugin opencode) or try treewarden demo"]
    now = time.time()
    head, *lines = columns(_HEAD, [_row(tree, now) for tree in found])
    return [head, *(_coloured(line, tree["verdict"]) for line, tree in zip(lines, found, strict=True))]


def _coloured(line: str, verdict: str) -> str:
    return line if verdict == "ok" else colour(line, verdict)


def _row(tree: dict[str, Any], now: float) -> tuple[Any, ...]:
    return (
        tree["id"],
        tree["verdict"],
        tree["reason"],
        tree["status"],
        tree.get("turns_since_landed"),
        usd(tree.get("usd_since_landed")),
        tree.get("events"),
        tree.get("top_target"),
        ago(tree.get("last_event_at"), now),
    )
