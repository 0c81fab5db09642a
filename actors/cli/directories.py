"""Where treewarden keeps things: state, runtime files and configuration. Only looks; ``prepared`` makes directories.

Each is the option, or else the first of: TREEWARDEN_STATE_DIR / TREEWARDEN_RUNTIME_DIR / TREEWARDEN_CONFIG, what
systemd says (STATE_DIRECTORY, RUNTIME_DIRECTORY), the XDG place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from actors.cli.failure import Exit, Failure

__all__ = ["config_file", "prepared", "runtime_dir", "state_dir"]

NAME = "treewarden"
SYSTEM_RUNTIME_DIR = f"/run/{NAME}"
MAX_SOCKET_PATH_BYTES = 107  # a Unix socket's path has 108 bytes, one of them ends it
_LONGEST_SOCKET = "bus/forest-99.sock"


def state_dir(option: Path | None, env: Mapping[str, str]) -> Path:
    """Return the directory of the database and the tokens."""
    home = env.get("XDG_STATE_HOME") or str(_home(env) / ".local" / "state")
    return _first(option, env.get("TREEWARDEN_STATE_DIR"), env.get("STATE_DIRECTORY"), f"{home}/{NAME}")


def runtime_dir(option: Path | None, env: Mapping[str, str]) -> Path:
    """Return the directory of the sockets and of sensor.json."""
    base = env.get("XDG_RUNTIME_DIR")
    default = f"{base}/{NAME}" if base else f"/tmp/{NAME}-{os.getuid()}"  # noqa: S108 - its owner and mode are checked
    # a service of the system that runs as us, or that we may look at as root
    if not os.path.exists(f"{default}/control.sock") and os.path.exists(f"{SYSTEM_RUNTIME_DIR}/control.sock"):
        default = SYSTEM_RUNTIME_DIR
    return _first(option, env.get("TREEWARDEN_RUNTIME_DIR"), env.get("RUNTIME_DIRECTORY"), default)


def config_file(option: Path | None, env: Mapping[str, str]) -> Path | None:
    """Return the configuration file; the XDG place only when there is one."""
    named = option or env.get("TREEWARDEN_CONFIG")
    if named:
        return Path(named).expanduser().absolute()
    home = env.get("XDG_CONFIG_HOME") or str(_home(env) / ".config")
    default = Path(home) / NAME / f"{NAME}.yaml"
    return default if default.exists() else None


def prepared(directory: Path, what: str) -> Path:
    """Make ``directory`` private to us if it is not there, and check that it is ours. Errors: Failure."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise Failure(Exit.INVALID, f"{what} {directory} cannot be made: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise Failure(Exit.INVALID, f"{what} {directory} must be a directory, not a link or a file")
    if found.st_uid != os.getuid():
        raise Failure(Exit.DENIED, f"{what} {directory} belongs to user {found.st_uid}, must be {os.getuid()}")
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise Failure(Exit.DENIED, f"{what} {directory} has mode {mode:04o}: others may write (fix: chmod 700)")
    return directory


def checked_length(directory: Path) -> Path:
    """Refuse a runtime directory whose sockets' paths would not fit. Errors: Failure."""
    size = len(os.fsencode(directory / _LONGEST_SOCKET))
    if size > MAX_SOCKET_PATH_BYTES:
        most = MAX_SOCKET_PATH_BYTES - len(_LONGEST_SOCKET) - 1
        raise Failure(
            Exit.INVALID,
            f"runtime directory {directory} has {len(os.fsencode(directory))} bytes, must have at most {most}: "
            "a Unix socket's path has 108 bytes (fix: a shorter path: --runtime-dir, or TMPDIR for demo)",
        )
    return directory


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or Path.home())


def _first(*candidates: Path | str | None) -> Path:
    # systemd gives a list with colons; ours is the first
    found = next(candidate for candidate in candidates if candidate)
    text = str(found).split(":")[0] if isinstance(found, str) else str(found)
    return Path(text).expanduser().absolute()
