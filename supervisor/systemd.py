"""What root says to systemd and gets from it. Never raises, never blocks; without systemd it does nothing.

Status texts are made ASCII: sdnotify encodes as latin-1 and swallows what fails, so the whole datagram would be lost.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

import sdnotify  # type: ignore[import-untyped]

__all__ = ["FIRST_FD", "Adopted", "Systemd"]

FIRST_FD = 3
_MAX_STATUS_CHARS = 600
_PRIVATE = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)


@dataclass(frozen=True, slots=True)
class Adopted:
    """A listening socket that systemd bound. Its name is the socket unit's, or that unit's FileDescriptorName."""

    name: str
    socket: socket.socket


class Systemd:
    """Takes everything of systemd out of ``environment``, so that no child ever speaks in root's name."""

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        taken = {name: variables.pop(name, "") for name in _PRIVATE}
        self._notifier = _notifier(taken["NOTIFY_SOCKET"])
        self._pid = str(os.getpid())
        self._taken = taken
        self._status = ""

    @property
    def watchdog_s(self) -> float | None:
        """The watchdog's timeout, None when there is none for this process."""
        usec, pid = self._taken["WATCHDOG_USEC"], self._taken["WATCHDOG_PID"]
        if not usec.isdigit() or int(usec) == 0 or pid not in ("", self._pid):
            return None
        return int(usec) / 1e6

    @property
    def present(self) -> bool:
        """Whether somebody listens to what is said here."""
        return self._notifier is not None

    def adopt(self) -> list[Adopted]:
        """Return the listening sockets that systemd handed over. Call it once."""
        count = self._taken["LISTEN_FDS"]
        if not count.isdigit() or self._taken["LISTEN_PID"] != self._pid:
            return []
        given = self._taken["LISTEN_FDNAMES"].split(":")
        names = given + [""] * (int(count) - len(given))
        found = [(name, _adopt(FIRST_FD + index)) for index, name in enumerate(names[: int(count)])]
        return [Adopted(name, listener) for name, listener in found if listener is not None]

    def passed_on(self, sockets: Sequence[str]) -> dict[str, str]:
        """Return the environment for this process executing itself, with these sockets on ``FIRST_FD`` and after."""
        own = {name: value for name, value in self._taken.items() if value and not name.startswith("LISTEN_")}
        given = {"LISTEN_FDS": str(len(sockets)), "LISTEN_PID": self._pid, "LISTEN_FDNAMES": ":".join(sockets)}
        return own | given

    def ready(self, status: str) -> None:
        """Say that everything serves."""
        self._status = status
        self._say(f"READY=1\nSTATUS={_ascii(status)}")

    def status(self, text: str) -> None:
        """Show a line in `systemctl status`; saying the same again costs nothing."""
        if text != self._status:
            self._status = text
            self._say(f"STATUS={_ascii(text)}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._say("WATCHDOG=1")

    def reloading(self) -> None:
        """Say that a reload has begun; ``ready`` ends it, whatever came of it.

        Type=notify-reload wants both fields in one datagram, and the time no older than its own SIGHUP.
        """
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        """Say that the stop has begun."""
        self._say(f"STOPPING=1\nSTATUS={_ascii(status)}")

    def _say(self, state: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(state)


def _adopt(fd: int) -> socket.socket | None:
    try:
        os.set_inheritable(fd, False)
        found = socket.socket(fileno=fd)
    except OSError:
        return None  # a FIFO, say, or nothing at all: root binds its own
    if found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return found
    found.close()
    return None


def _notifier(address: str) -> sdnotify.SystemdNotifier | None:
    if not address:
        return None
    # The library reads the variable in its constructor only.
    os.environ["NOTIFY_SOCKET"] = address
    try:
        return sdnotify.SystemdNotifier()
    finally:
        del os.environ["NOTIFY_SOCKET"]


def _ascii(text: str) -> str:
    """One line, cut short: a datagram that is too large would be lost with the READY=1 in it."""
    line = " ".join(text.split()).encode("ascii", "replace").decode("ascii")
    return line if len(line) <= _MAX_STATUS_CHARS else f"{line[: _MAX_STATUS_CHARS - 4]} ..."
