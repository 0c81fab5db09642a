"""The unit files of the service for one installation, as text. ``render`` is pure; ``bundle`` finds the templates.

A template holds words such as @PORT@; lines between #NAMESPACES and #/NAMESPACES can be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from actors.cli.failure import Exit, Failure

__all__ = ["DROP_IN", "MARK", "SERVICE", "SOCKET", "Facts", "Scope", "bundle", "quoted", "render"]

MARK = "Written by treewarden install-service, which overwrites it: make your changes with systemctl edit."
SERVICE = "treewarden.service"
SOCKET = "treewarden.socket"
DROP_IN = "treewarden.service.d/50-notify-reload.conf"
NOTIFY_RELOAD_SINCE = 253

_WORD = re.compile(r"@([A-Z_]+)@")
_BLOCK = re.compile(r"^#NAMESPACES\n(.*?)^#/NAMESPACES\n", re.DOTALL | re.MULTILINE)


class Scope(StrEnum):
    """Whose systemd runs the service."""

    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True)
class Facts:
    """What the units depend on. ``command`` starts this installation; ``version`` is that of systemd."""

    scope: Scope
    command: Sequence[str]
    port: int
    user: str
    uid: int
    home: Path
    state_dir: Path
    version: int
    namespaces: bool = True
    options: Sequence[str] = ()


def bundle() -> Path:
    """Return the directory of the templates: in the wheel under actors/deploy, in a checkout under deploy."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "deploy", package.parent / "deploy"):
        if (root / "systemd" / "user" / SERVICE).is_file():
            return root / "systemd"
    raise Failure(Exit.INVALID, f"the unit files are neither in {package}/deploy nor in {package.parent}/deploy")


def render(templates: Path, facts: Facts) -> dict[str, str]:
    """Return the content of every file, by its path in the directory of units."""
    return {name: _filled(path.read_text(encoding="ascii"), facts) for name, path in _files(templates, facts)}


def _files(templates: Path, facts: Facts) -> Iterator[tuple[str, Path]]:
    yield SERVICE, templates / facts.scope / SERVICE
    yield SOCKET, templates / facts.scope / SOCKET
    if facts.version >= NOTIFY_RELOAD_SINCE:
        yield DROP_IN, templates / "notify-reload.conf"


def _filled(text: str, facts: Facts) -> str:
    words = _words(facts)
    text = _BLOCK.sub(lambda block: block[1] if facts.namespaces else "", text)
    return _WORD.sub(lambda word: words[word[1]], text)


def _words(facts: Facts) -> Mapping[str, str]:
    return {
        "MARK": MARK,
        "TREEWARDEN": " ".join(quoted(part) for part in facts.command),
        "OPTIONS": "".join(f" {quoted(part)}" for part in facts.options),
        "PORT": str(facts.port),
        "USER": facts.user,
        "UID": str(facts.uid),
        "HOME": quoted(str(facts.home)),
        "STATE": quoted(str(facts.state_dir)),
        # root needs its own user in the namespace only, which is no gain, and systemd refuses nothing to it there
        "PRIVATE_USERS": "yes" if facts.uid else "no",
    }


def quoted(text: str) -> str:
    """Write a word of a unit file: % and $ doubled, in quotes where it has spaces (systemd.syntax, systemd.service)."""
    escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    return '"' + escaped.replace('"', '\\"') + '"' if re.search(r"[\s\"'\\;]", text) else escaped
