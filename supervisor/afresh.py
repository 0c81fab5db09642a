"""Root starts over in place: the same process executes itself with its plan, the listening sockets stay open.

Clients of a TCP socket wait in its backlog meanwhile. A Unix socket is bound anew, its path may be what is gone; one
that systemd bound goes along while its path is there. Settings that were rendered since the start are in the plan that
is passed on. Crash guarantees: by then all children are gone, and a process killed in between leaves nothing. It cannot
loop: more than ``MOST`` times in ``PERIOD_S`` are refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from supervisor.listeners import Listener
from supervisor.systemd import FIRST_FD, Systemd

__all__ = ["AGAIN", "MOST", "PERIOD_S", "Afresh"]

AGAIN = -1
"""What root's run returns instead of an exit code when it shall start over."""

MOST = 3
PERIOD_S = 600.0
_VARIABLE = "SUPERVISOR_STARTED_OVER"


class Afresh:
    """Knows when this process has started over (CLOCK_MONOTONIC, through its environment) and does it again.

    ``settings`` are those that the children get from then on; ``why`` is why this image of root began, or empty.
    """

    def __init__(self, plan_text: str, systemd: Systemd) -> None:
        self.settings: Any = {}
        self._plan_text = plan_text
        self._systemd = systemd
        now = time.monotonic()
        told = _told(os.environ.pop(_VARIABLE, ""))
        self.why: str = told["why"]
        self._past = [at for at in told["at"] if 0 <= now - at < PERIOD_S]

    @property
    def allowed(self) -> bool:
        """False when it has happened too often."""
        return len(self._past) < MOST

    def start_over(self, listeners: Mapping[str, Listener]) -> NoReturn:
        """Execute this process anew. Raises OSError."""
        passed = {name: found for name, found in listeners.items() if found.stays}
        text = json.dumps({**json.loads(self._plan_text), "settings": self.settings})
        plan_fd = _memory(text)
        first_free = FIRST_FD + len(passed) + 1
        # first out of the way of each other, then to where they belong; all else is closed by exec
        moved = [fcntl.fcntl(found.socket.fileno(), fcntl.F_DUPFD, first_free) for found in passed.values()]
        moved.append(fcntl.fcntl(plan_fd, fcntl.F_DUPFD, first_free))
        for target, fd in enumerate(moved, FIRST_FD):
            os.dup2(fd, target)
            os.set_inheritable(fd, False)
        told = json.dumps({"why": self.why, "at": [*self._past, time.monotonic()]})
        environment = {**os.environ, **self._systemd.passed_on(tuple(passed)), _VARIABLE: told}
        command = [sys.executable, "-m", "supervisor.root", "--plan-fd", str(FIRST_FD + len(passed))]
        os.execve(sys.executable, command, environment)  # noqa: S606 - our own interpreter and module, no shell


def _told(text: str) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(text)
        return {"why": str(told["why"]), "at": [float(at) for at in told["at"]]}
    except (ValueError, KeyError, TypeError):
        return {"why": "", "at": []}  # an ordinary start


def _memory(text: str) -> int:
    fd = os.memfd_create("plan")
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        file.write(text)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
