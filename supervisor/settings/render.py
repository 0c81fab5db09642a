"""Layers in, one valid set of settings out, with the source of every value. Pure.

Order, weakest first: default, file, environment, runtime. Values are checked strictly (the text "5" is no number).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from supervisor.settings.errors import InvalidSettings
from supervisor.settings.layers import nest
from supervisor.settings.schema import Leaf, allowed, branch, leaves, literal_secrets, node_at, shown

__all__ = ["Change", "Layers", "Rendered", "Source", "diff", "render", "validate", "value_at"]

Source = Literal["default", "file", "environment", "runtime"]
_ORIGIN: dict[Source, str] = {
    "default": "a default",
    "file": "from the file",
    "environment": "from the environment",
    "runtime": "from the runtime overrides",
}
_ABSENT = object()
_VALUE_ERRORS = ("value_error", "assertion_error")


class Layers(BaseModel):
    """What each layer says: dotted name -> JSON value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    runtime: dict[str, Any] = {}

    def in_order(self) -> list[tuple[Source, dict[str, Any]]]:
        """List the layers, weakest first."""
        return [("file", self.file), ("environment", self.environment), ("runtime", self.runtime)]


class Rendered(BaseModel):
    """Settings as they travel to the processes: version, nested values, and the source of every leaf."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 0
    values: dict[str, Any]
    sources: dict[str, Source]


class Change(BaseModel):
    """One knob whose value differs. ``hot`` false: the new value is used after a restart of the daemon."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    before: Any
    after: Any
    hot: bool


def _leaf_of(loc: tuple[str | int, ...], known: Mapping[str, Leaf]) -> tuple[Leaf | None, tuple[str | int, ...]]:
    for end in range(len(loc), 0, -1):
        leaf = known.get(".".join(str(step) for step in loc[:end]))
        if leaf is not None:
            return leaf, loc[end:]
    return None, ()


def _name(leaf: Leaf, rest: tuple[str | int, ...]) -> str:
    """The tag of a union, which pydantic puts behind an index, is no part of the name."""
    steps = [step for place, step in enumerate(rest) if not _is_tag(leaf, rest[:place])]
    return leaf.path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _is_tag(leaf: Leaf, before: tuple[str | int, ...]) -> bool:
    return "discriminator" in node_at(leaf.node, before)


def _sentence(error: Mapping[str, Any], known: Mapping[str, Leaf]) -> str:
    """Say one validation error in one line: field, value, what is allowed."""
    leaf, rest = _leaf_of(error["loc"], known)
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if leaf is None:
        return message if error["type"] in _VALUE_ERRORS else f"{'.'.join(map(str, error['loc']))}: {message}"
    name = _name(leaf, rest)
    if error["type"] == "extra_forbidden":
        keys = ", ".join(branch(node_at(leaf.node, rest[:-1]), {}).get("properties", {}))
        return f"{name} is not a knob (allowed: {keys})"
    if error["type"] == "union_tag_invalid":
        return f"{name}.type = {shown(error['ctx']['tag'])} must be one of {_tags(error)}"
    if error["type"] == "union_tag_not_found":
        return f"{name}.type is missing"
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] in _VALUE_ERRORS:
        return f"{name} = {shown(error['input'])} {message}"
    return f"{name} = {shown(error['input'])} must be {allowed(node_at(leaf.node, rest))}"


def _tags(error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["expected_tags"]).replace("'", "")


def _from(sentence: str, sources: Mapping[str, Source]) -> str:
    path = sentence.split(" ", 1)[0].split("[", 1)[0]
    source = sources.get(path, "default")
    return sentence if source == "default" else f"{sentence} ({_ORIGIN[source]})"


def validate(
    model: type[BaseModel], values: Mapping[str, Any], sources: Mapping[str, Source] | None = None
) -> BaseModel:
    """Check nested ``values`` strictly and give the model. Errors: InvalidSettings, a sentence per problem."""
    known = leaves(model)
    flat = {path: value for path, leaf in known.items() if (value := value_at(values, path, _ABSENT)) is not _ABSENT}
    problems = [text for path, value in flat.items() for text in literal_secrets(known[path].node, value, path)]
    if problems:
        raise InvalidSettings(problems)
    try:
        return model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        texts = [_sentence(item, known) for item in error.errors(include_url=False)]
        raise InvalidSettings([_from(text, sources or {}) for text in texts]) from None


def value_at(values: Mapping[str, Any], path: str, missing: Any = None) -> Any:
    """Return the value of the dotted ``path`` in nested ``values``, or ``missing``."""
    place: Any = values
    for key in path.split("."):
        if not isinstance(place, Mapping) or key not in place:
            return missing
        place = place[key]
    return place


def render(model: type[BaseModel], layers: Layers, version: int = 0) -> Rendered:
    """Lay the layers over the defaults. Errors: InvalidSettings, which names the layer of every bad value."""
    known = leaves(model)
    sources: dict[str, Source] = dict.fromkeys(known, "default")
    flat: dict[str, Any] = {}
    for source, layer in layers.in_order():
        unknown = sorted(layer.keys() - known.keys())
        if unknown:
            raise InvalidSettings([f"{path} is not a knob ({_ORIGIN[source]})" for path in unknown])
        flat.update(layer)
        sources.update(dict.fromkeys(layer, source))
    checked = validate(model, nest(flat), sources)
    return Rendered(version=version, values=checked.model_dump(mode="json"), sources=sources)


def diff(model: type[BaseModel], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """List the knobs whose values differ between two nested sets of values."""
    pairs = ((leaf, value_at(before, path), value_at(after, path)) for path, leaf in leaves(model).items())
    return [Change(path=leaf.path, before=old, after=new, hot=leaf.hot) for leaf, old, new in pairs if old != new]
