"""A pydantic model of settings as a table of leaves: dotted name, default, doc line, hot or not, what is allowed.

Pure. A leaf is a field that is not itself a section; a list is one leaf. Everything is read from the model's
JSON schema, so that the reference file, the error sentences and the API can never differ from the model.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

__all__ = ["Leaf", "Section", "allowed", "branch", "leaves", "literal_secrets", "node_at", "sections"]

Node = Mapping[str, Any]
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "object": "a mapping",
    "null": "null",
}


@dataclass(frozen=True)
class Leaf:
    """One knob. ``default`` is JSON; ``allowed`` completes the sentence "must be ..."."""

    path: str
    default: Any
    doc: str
    hot: bool
    allowed: str
    node: Node


@dataclass(frozen=True)
class Section:
    """A mapping of knobs; ``path`` is empty for the whole."""

    path: str
    doc: str
    children: tuple[str, ...]


class _Schema:
    def __init__(self, model: type[BaseModel]) -> None:
        self.root = model.model_json_schema()
        self._defs = self.root.get("$defs", {})

    def resolve(self, node: Node) -> Node:
        name = node.get("$ref")
        if name is None:
            return node
        target = self._defs[str(name).rpartition("/")[2]]
        return {**target, **{key: value for key, value in node.items() if key != "$ref"}}

    def expand(self, node: Node) -> Node:
        """Resolve references inside ``node`` as well, so that a leaf describes itself."""
        whole = dict(self.resolve(node))
        if "items" in whole:
            whole["items"] = self.expand(whole["items"])
        if "anyOf" in whole:
            whole["anyOf"] = [self.expand(part) for part in whole["anyOf"]]
        if "oneOf" in whole:
            whole["oneOf"] = [self.expand(part) for part in whole["oneOf"]]
        if "properties" in whole:
            whole["properties"] = {key: self.expand(part) for key, part in whole["properties"].items()}
        return whole


def _walk(schema: _Schema, node: Node, path: str) -> Iterator[Leaf | Section]:
    properties = node.get("properties")
    if properties is None:
        yield Leaf(
            path,
            node.get("default"),
            str(node.get("description", "")),
            bool(node.get("hot", True)),
            allowed(node),
            node,
        )
        return
    yield Section(path, str(node.get("description", "")), tuple(properties))
    for key, child in properties.items():
        yield from _walk(schema, schema.expand(child), f"{path}.{key}" if path else key)


@functools.cache
def leaves(model: type[BaseModel]) -> Mapping[str, Leaf]:
    """List every knob of ``model`` by its dotted name, in the order of the model."""
    schema = _Schema(model)
    found = _walk(schema, schema.resolve(schema.root), "")
    return MappingProxyType({item.path: item for item in found if isinstance(item, Leaf)})


@functools.cache
def sections(model: type[BaseModel]) -> Mapping[str, Section]:
    """List every section of ``model`` by its dotted name; the whole has the empty name."""
    schema = _Schema(model)
    found = _walk(schema, schema.resolve(schema.root), "")
    return MappingProxyType({item.path: item for item in found if isinstance(item, Section)})


def _range(node: Node) -> str:
    words = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("exclusiveMaximum", "below"))
    return "".join(f" {word} {node[key]:g}" if node[key] < 1e6 else f" {word} {node[key]}"
                   for key, word in words if key in node)  # fmt: skip


def allowed(node: Node) -> str:
    """Say what a value may be: the rest of the sentence "must be ..."."""
    if node.get("env_name"):
        return "the name of an environment variable, such as API_KEY"
    if "enum" in node:
        return "one of " + ", ".join(str(value) for value in node["enum"])
    if "const" in node:
        return f"one of {node['const']}"
    if "anyOf" in node or "oneOf" in node:
        said = dict.fromkeys(allowed(part) for part in node.get("anyOf") or node["oneOf"])
        return " or ".join(said)
    if node.get("type") == "array":
        return f"a list, each item {allowed(node.get('items', {}))}"
    if "pattern" in node:
        return f"text like {node['pattern']}"
    return _TYPES.get(str(node.get("type")), "a value") + _range(node)


def node_at(node: Node, path: tuple[str | int, ...]) -> Node:
    """Follow ``path`` (keys and indexes) below the node of a leaf; an unknown step gives an empty node."""
    for step in path:
        node = _below(node, step)
    return node


def _below(node: Node, step: str | int) -> Node:
    """A step into a tagged union may be the tag itself, as pydantic's errors have it."""
    if not isinstance(step, int) and "discriminator" in node:
        return branch(node, step)
    found: Node = (
        node.get("items", {}) if isinstance(step, int) else branch(node, {}).get("properties", {}).get(step, {})
    )
    return found


def branch(node: Node, value: Any) -> Node:
    """Return the part of a union that ``value`` (a mapping, or the tag) belongs to; any other node is its own part."""
    tag = node.get("discriminator", {}).get("propertyName")
    if tag is not None:
        wanted = value.get(tag) if isinstance(value, dict) else value
        parts = (part for part in node["oneOf"] if part["properties"][tag].get("const") == wanted)
        return next(parts, {})
    return next((part for part in node.get("anyOf", ()) if "properties" in part), node)


def literal_secrets(node: Node, value: Any, path: str) -> list[str]:
    """Name every place below ``path`` that must hold the name of an environment variable and does not (P084)."""
    if node.get("env_name"):
        good = value is None or (isinstance(value, str) and _ENV_NAME.fullmatch(value))
        # the value is not shown: it may be the secret itself
        return [] if good else [f"{path} must be {allowed(node)}; a literal secret is refused"]
    if isinstance(value, list):
        items = [literal_secrets(node.get("items", {}), item, f"{path}[{i}]") for i, item in enumerate(value)]
        return [problem for problems in items for problem in problems]
    if isinstance(value, dict):
        known = branch(node, value).get("properties", {})
        parts = [literal_secrets(known.get(key, {}), item, f"{path}.{key}") for key, item in value.items()]
        return [problem for problems in parts for problem in problems]
    return []


def shown(value: Any) -> str:
    """Render a value for an error sentence: JSON, cut after 80 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
