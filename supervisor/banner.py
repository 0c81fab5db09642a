"""What root prints once all children are ready. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping

from supervisor.listeners import Listener
from supervisor.plan import Plan

__all__ = ["banner_lines"]


def banner_lines(plan: Plan, listeners: Mapping[str, Listener]) -> list[str]:
    """Fill the placeholders of the plan's banner; unknown ones stay as they are. The last line says ready."""
    words = _words(plan, listeners)
    return [_fill(line, words) for line in (*plan.banner, f"{plan.name}: all children ready")]


def _words(plan: Plan, listeners: Mapping[str, Listener]) -> dict[str, str]:
    urls = [found.url for found in listeners.values() if found.listen.kind == "tcp"]
    words = {"url": urls[0] if urls else "", "pid": str(os.getpid())}
    words |= {"runtime_dir": str(plan.runtime_dir), "state_dir": str(plan.state_dir)}
    return words | {name: found.url for name, found in listeners.items()}


def _fill(line: str, words: Mapping[str, str]) -> str:
    for key, value in words.items():
        line = line.replace(f"{{{key}}}", value)
    return line
