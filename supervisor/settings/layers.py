"""The layers that settings come from, each as a flat table: dotted name -> JSON value.

``read_file`` reads a strict YAML file (a key given twice is refused, dates are text). ``read_environment`` reads
variables such as TREEWARDEN__PROGRESS__MODE. Both name the place of a problem. Only ``read_file`` does I/O.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from supervisor.settings.errors import InvalidSettings
from supervisor.settings.schema import leaves, sections, shown

__all__ = ["flatten", "nest", "parse_scalar", "read_environment", "read_file"]


class _Loader(yaml.SafeLoader):
    """YAML without surprises: no key twice, no dates."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} must be text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str, origin: str) -> Any:
    try:
        # a SafeLoader subclass: only plain data comes out
        return yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidSettings([f"{origin}{line}: {error.problem or error}"]) from error
    except yaml.YAMLError as error:
        raise InvalidSettings([f"{origin}: not YAML: {error}"]) from error


def _unknown(path: str, parent: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(path.rpartition(".")[2], known, n=1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"{path} is not a knob{hint} (allowed in {parent or 'the file'}: {', '.join(known)})"


def flatten(model: type[BaseModel], nested: Any) -> dict[str, Any]:
    """Turn nested settings into dotted names; every unknown name is a problem. An empty section is allowed."""
    known, problems, flat = sections(model), [], {}

    def walk(value: Any, path: str) -> None:
        if path not in known:
            flat[path] = value
            return
        if value is None:
            return
        if not isinstance(value, dict):
            problems.append(f"{path or 'the file'} = {shown(value)} must be a mapping with any of "
                            f"{', '.join(known[path].children)}")  # fmt: skip
            return
        for key, child in value.items():
            name = f"{path}.{key}" if path else str(key)
            if key in known[path].children:
                walk(child, name)
            else:
                problems.append(_unknown(name, path, known[path].children))

    walk(nested, "")
    if problems:
        raise InvalidSettings(problems)
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into nested settings."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, key = path.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    return nested


def read_file(model: type[BaseModel], path: Path) -> dict[str, Any]:
    """Read the YAML file at ``path``. Errors: InvalidSettings, also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings([f"{path}: cannot be read: {error}"]) from error
    try:
        return flatten(model, _parse(text, str(path)))
    except InvalidSettings as error:
        prefix = f"{path}: "
        raise InvalidSettings(
            [text if text.startswith(str(path)) else prefix + text for text in error.problems]
        ) from None


def parse_scalar(text: str, origin: str) -> Any:
    """Read a value from a variable or a command line as YAML: ``5``, ``true``, ``[a, b]``, ``text``."""
    return _parse(text, origin)


def read_environment(model: type[BaseModel], environ: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Read the variables that start with ``prefix`` and two underscores; they name knobs in capitals."""
    by_variable = {path.upper().replace(".", "__"): path for path in leaves(model)}
    flat, problems = {}, []
    for variable in sorted(name for name in environ if name.startswith(f"{prefix}__")):
        path = by_variable.get(variable.removeprefix(f"{prefix}__"))
        if path is None:
            close = difflib.get_close_matches(variable.removeprefix(f"{prefix}__"), by_variable, n=1)
            hint = f", did you mean {prefix}__{close[0]}?" if close else ""
            problems.append(f"{variable} in the environment names no knob{hint}")
        else:
            flat[path] = parse_scalar(environ[variable], variable)
    if problems:
        raise InvalidSettings(problems)
    return flat
