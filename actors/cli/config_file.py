"""Changing values in a settings file (YAML) without losing its comments; all or nothing.

A line that sets the knob, or that shows it commented out, is replaced; else one is added to its section. The result is
checked before it replaces the file, so a file that this cannot edit stays as it was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.cli.failure import Exit, Failure
from actors.cli.table import plain

__all__ = ["write_knobs"]


def write_knobs(path: Path, values: Mapping[str, Any]) -> None:
    """Set knobs of the form ``section.name`` in the file, which is made if it is not there. Errors: Failure."""
    from actors.knobs import Knobs
    from supervisor.settings.errors import InvalidSettings
    from supervisor.settings.layers import read_file
    from supervisor.settings.render import Layers, render

    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for name, value in values.items():
            section, _, knob = name.partition(".")
            _set(lines, section, knob, value)
        beside = path.with_name(f".{path.name}.new")
        beside.write_text("\n".join([*lines, ""]), encoding="utf-8")
        try:
            found = read_file(Knobs, beside)
            if any(found.get(name) != value for name, value in values.items()):
                raise Failure(Exit.INVALID, f"{plain(path)}: its layout cannot be edited; nothing was changed")
            render(Knobs, Layers(file=found))
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except InvalidSettings as error:
        raise Failure(Exit.INVALID, f"nothing was changed: {error}") from error
    except OSError as error:
        raise Failure(Exit.DENIED, f"{plain(path)} cannot be written: {error.strerror}") from error


def _set(lines: list[str], section: str, knob: str, value: Any) -> None:
    first = next((at for at, line in enumerate(lines) if re.match(rf"#?\s*{section}:\s*(?:#.*)?$", line)), None)
    if first is None:
        lines += [f"{section}:", f"  {knob}: {value}"]
        return
    lines[first] = f"{section}:"
    pattern = re.compile(rf"^(\s+)#?\s*{knob}:")
    for at in range(first + 1, len(lines)):
        if re.match(r"\w+:", lines[at]):
            break
        found = pattern.match(lines[at])
        if found:
            lines[at] = f"{found[1]}{knob}: {value}"
            return
    lines.insert(first + 1, f"  {knob}: {value}")
