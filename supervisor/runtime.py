"""The runtime directory of a root: one root at a time, private, and a list of pids to clean up after a killed one.

Everything here happens at start and end, before and after the event loop has work; ``Pids.write`` is one small file.
Crash guarantees: the lock is the kernel's (flock) and goes with the process; a root that is killed takes its children
along (parent-death signal), and what still lives by then (a stopped process, say) is killed by the next start.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import select
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

from supervisor import linux

__all__ = ["BUS_DIRECTORY", "LOCK", "Conflict", "Pids", "lock", "make_private"]

BUS_DIRECTORY = "bus"
LOCK = "root.lock"
_GONE_S = 5.0

_log = logging.getLogger(__name__)


class Conflict(Exception):
    """Something that this root needs is taken or unsafe; says what and what to do."""


def make_private(directory: Path) -> None:
    """Create a directory with mode 0700, or make an existing one of ours so. Raises Conflict."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Conflict(f"runtime directory {directory} is not a directory of user {os.geteuid()}; choose another one")
    if found.st_mode & stat.S_ISVTX:
        raise Conflict(f"runtime directory {directory} is shared (sticky); choose a directory inside it")
    if found.st_mode & 0o077:
        directory.chmod(0o700)


def lock(directory: Path, name: str, what: str = "runtime directory") -> int:
    """Take the lock of a directory; return its descriptor, to be kept open. Raises Conflict."""
    fd = _lock_file(directory)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = _holder(fd)
        os.close(fd)
        raise Conflict(f"another {name} (pid {other}) runs in {directory}; stop it, or choose another {what}") from None
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the pid, which is for people
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
    return fd


def _holder(fd: int) -> str:
    """Return the pid that the holder of the lock wrote into it."""
    try:
        return os.read(fd, 32).decode(errors="replace").strip() or "unknown"
    except IsADirectoryError:
        return "unknown"


def _lock_file(directory: Path) -> int:
    """Open the lock file; where nothing can be written, as it is, or else the directory itself: flock takes both.

    Root owns no data: a state that cannot be written is the keeper's to report, not a reason to let nothing run.
    """
    path, always = directory / LOCK, os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | always, 0o600)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning("%s cannot be written: %s", path, error.strerror)
    return os.open(path if path.exists() else directory, os.O_RDONLY | always)


class Pids:
    """``children.json``: the pids of all children with their start times, which together are unique in one boot."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "children.json"
        self._boot = linux.boot_id()
        self._written: dict[str, int] | None = None
        self._said: str | None = None

    def write(self, living: Mapping[str, int]) -> None:
        """Replace the list atomically; does nothing when it has not changed. Never raises.

        A full disk must not stop supervision: the kernel's parent-death signal is the first line, this the second.
        """
        if living == self._written:
            return
        rows = [{"id": name, "pid": pid, "start": linux.start_time(pid)} for name, pid in living.items()]
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps({"boot": self._boot, "children": rows}), encoding="ascii")
            fresh.replace(self._path)
        except OSError as error:
            if error.strerror != self._said:
                _log.warning("cannot write %s: %s", self._path, error.strerror)
            self._said = error.strerror
            return
        self._said = None
        self._written = dict(living)

    def kill_leftovers(self) -> list[str]:
        """Kill what an earlier root has left alive and wait until it is gone; return the ids."""
        try:
            data = json.loads(self._path.read_text(encoding="ascii"))
            rows = data["children"] if data["boot"] == self._boot else []
            return [row["id"] for row in rows if row["start"] is not None and _kill(row["pid"], row["start"])]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError):
            return []  # cut short by a power loss: then nothing of it lives either


def _kill(pid: int, start: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # With the pidfd open the number cannot pass to another process between the check and the kill.
        if linux.start_time(pid) != start:
            return False
        linux.kill_group(pid)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(_GONE_S * 1000)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True
