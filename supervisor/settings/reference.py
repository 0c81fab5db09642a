"""A commented YAML file of every knob, generated from the models: what there is, its default and what is allowed.

Every value is commented out, so that a copy of the file changes nothing until a line is uncommented: a mark and a
space explain, a mark alone is a knob. Pure.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from supervisor.settings.schema import Leaf, allowed, branch, leaves, sections

__all__ = ["reference"]

_WIDTH = 110


def reference(model: type[BaseModel], header: str) -> str:
    """Write the reference file; ``header`` is its opening text, without comment marks."""
    lines = [f"# {line}".rstrip() for line in header.strip().splitlines()]
    known = leaves(model)
    for path, section in sections(model).items():
        direct = [known[child] for name in section.children if (child := f"{path}.{name}") in known]
        depth = path.count(".")
        if path:
            lines += [""] if depth == 0 else []
            lines += [f"{'  ' * depth}{path.rpartition('.')[2]}:  # {section.doc}".rstrip()]
        for leaf in direct:
            lines += _knob(leaf, "  " * (depth + 1))
    return "\n".join(lines) + "\n"


def _knob(leaf: Leaf, indent: str) -> list[str]:
    when = "" if leaf.hot else " Used after a restart."
    comment = f"{indent}# {leaf.doc}. Allowed: {leaf.allowed}.{when}"
    name = leaf.path.rpartition(".")[2]
    node = leaf.node.get("items", {})
    if not (branch(node, {}).get("properties") or "discriminator" in node):
        return [*_wrapped(comment, indent), f"{indent}#{name}: {json.dumps(leaf.default)}"]
    blocks = [line for item in leaf.default for line in _item(item, branch(node, item)["properties"], indent)]
    return [*_wrapped(comment, indent), *_kinds(leaf, indent), f"{indent}#{name}:", *blocks]


def _kinds(leaf: Leaf, indent: str) -> list[str]:
    """Say for each kind of a tagged union what it has beside what the default shows."""
    lines: list[str] = []
    node = leaf.node.get("items", {})
    shown = {key for item in leaf.default for key in item}
    for kind in node.get("discriminator", {}).get("mapping", {}):
        properties = branch(node, kind)["properties"]
        own = [f"{key}: {it.get('description', '')} ({allowed(it)})" for key, it in properties.items()
               if key not in shown]  # fmt: skip
        if own:
            lines += _wrapped(f"{indent}# {kind} has also {'; '.join(own)}", indent)
    return lines


def _item(item: dict[str, Any], properties: dict[str, Any], indent: str) -> list[str]:
    marks = ["- ", *["  "] * (len(item) - 1)]
    return [
        f"{indent}#  {mark}{key}: {json.dumps(value)}  # {properties[key].get('description', '')}"
        f" ({allowed(properties[key])})"
        for mark, (key, value) in zip(marks, item.items(), strict=True)
    ]


def _wrapped(comment: str, indent: str) -> list[str]:
    if len(comment) <= _WIDTH:
        return [comment]
    cut = comment.rfind(" ", 0, _WIDTH)
    return [comment[:cut], *_wrapped(f"{indent}# {comment[cut + 1 :]}", indent)]
