"""One line for a person at the terminal: how the trees are and what of the clients is seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["headline", "state_line"]


def state_line(mode: str, trees: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Say it. ``trees`` is that of the status, ``seen`` a dumped Sighted or {"error"}."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in trees["by_verdict"].items())
    total = "unknown" if trees["total"] is None else trees["total"]
    return f"mode {mode}; trees {total} ({counts or trees.get('error', 'none')}); {_clients(seen)}"


def headline(trees: Mapping[str, Any]) -> str:
    """Say in a few words how the trees are: ``12 trees, 1 stalling``."""
    if trees["total"] is None:
        return "trees unknown"
    flagged = [f"{count} {verdict}" for verdict, count in trees["by_verdict"].items() if count and verdict != "ok"]
    return ", ".join([f"{trees['total']} tree{'' if trees['total'] == 1 else 's'}", *flagged])


def _clients(seen: Mapping[str, Any]) -> str:
    if "error" in seen:
        return f"clients does not answer: {seen['error']}"
    servers = [server["url"] for server in seen["servers"] if server["ok"]]
    stores = [store["kind"] for store in seen["stores"]]
    parts = (
        f"opencode servers: {', '.join(servers) or 'none'}",
        f"stores: {', '.join(stores) or 'none'}",
        f"plugin: {_plugins(seen['plugins'])}",
    )
    return "; ".join(parts)


def _plugins(plugins: list[Mapping[str, Any]]) -> str:
    if not plugins:
        return "none has reported (treewarden install-plugin opencode)"
    return ", ".join(
        f"{plugin['source']} {plugin['version']}{' (stale)' if plugin['stale'] else ''}" for plugin in plugins
    )
