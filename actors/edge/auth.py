"""Scoped bearer tokens in 0600 files, and the file where sensors find url and token.

Files are created once, atomically, and kept across restarts: whoever reads one reads a whole token. Two processes that
start at the same time agree on the token of the first. Runs at start only, blocking file I/O of a few hundred bytes.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hmac import compare_digest
from pathlib import Path

__all__ = ["Scope", "Tokens", "load_tokens", "token_file", "write_sensor_file"]

_log = logging.getLogger(__name__)

PREFIX = "tw_"
MIN_CHARS = 32


class Scope(StrEnum):
    """What a token may do. ``operator`` may do everything."""

    SENSOR = "sensor"
    ROUTER = "router"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Tokens:
    """The tokens of this daemon by scope."""

    by_scope: Mapping[Scope, str]

    def scope_of(self, presented: str) -> Scope | None:
        """Return the scope of a presented token, or None; takes the same time for every wrong one."""
        found = None
        given = presented.encode()
        for scope, token in self.by_scope.items():
            if compare_digest(given, token.encode()):
                found = scope
        return found


def token_file(state_dir: Path, scope: Scope) -> Path:
    """Return where the token of ``scope`` lives."""
    return state_dir / "tokens" / f"{scope}.token"


def load_tokens(state_dir: Path) -> Tokens:
    """Read the tokens, making those that are not there. Raises OSError when the directory cannot be written."""
    directory = state_dir / "tokens"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Tokens({scope: _load_or_make(token_file(state_dir, scope)) for scope in Scope})


def write_sensor_file(runtime_dir: Path, url: str, token: str, version: str) -> Path:
    """Write RUNTIME_DIR/sensor.json, 0600, whole or not at all."""
    path = runtime_dir / "sensor.json"
    body = json.dumps({"url": url, "token": token, "version": version}) + "\n"
    os.replace(_written_aside(path, body), path)
    return path


def _load_or_make(path: Path) -> str:
    token = _read(path)
    if token is not None:
        return token
    aside = _written_aside(path, PREFIX + secrets.token_urlsafe(32) + "\n")
    try:
        os.link(aside, path)  # fails when another process was first: its token counts
    except FileExistsError:
        if _read(path) is None:
            os.replace(aside, path)
    aside.unlink(missing_ok=True)
    token = _read(path)
    if token is None:
        raise OSError(f"{path} holds no token and could not be replaced")
    return token


def _read(path: Path) -> str | None:
    """Return the token, or None where there is none or one so short that it could be guessed."""
    try:
        token = path.read_text("ascii").strip()
        if path.stat().st_mode & 0o077:
            _log.warning("%s was readable by others; made it 0600", path)
            path.chmod(0o600)
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return token if len(token) >= MIN_CHARS else None


def _written_aside(path: Path, text: str) -> Path:
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return aside
