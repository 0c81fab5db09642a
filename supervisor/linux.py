"""The few Linux calls that the standard library lacks: prctl, process start times, a process's children.

Nothing here blocks. Errors are ``OSError``.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

__all__ = [
    "become_subreaper",
    "boot_id",
    "children_of",
    "die_with_parent",
    "has_terminal",
    "kill_group",
    "name_process",
    "start_time",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int | bytes) -> None:
    value = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """Let orphaned descendants become children of this process instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when ``parent``, the parent of this process, dies; if it is dead already, die now."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # The parent may have died before the line above: then no signal will ever come.
    if os.getppid() != parent:
        os._exit(1)


def has_terminal() -> bool:
    """Say whether this process has a controlling terminal that still exists."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def name_process(name: str) -> None:
    """Set the name that ps and top show (15 bytes)."""
    _prctl(_PR_SET_NAME, name.encode("ascii", "replace")[:15])


def boot_id() -> str:
    """Return the id of this boot of the machine; process start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none. With the pid it is unique."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in field 2 may hold spaces and brackets; field 22 is the 20th after it.
    return int(stat.rpartition(")")[2].split()[19])


def children_of(pid: int) -> list[int]:
    """Return the pids whose parent is ``pid``, zombies included. Threads of ``pid`` are not looked at."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal the process group that ``pid`` leads, or the process alone while it leads none. Gone is fine.

    Call it only while ``pid`` is unreaped (or its pidfd says so), or the number may be another's by now.
    """
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return
