"""The signals of root: SIGTERM and SIGINT stop it, again they kill; SIGHUP reloads or stops; SIGCHLD reaps strays.

Handlers run on the event loop, between its callbacks, and never block.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from supervisor import linux

if TYPE_CHECKING:
    from supervisor.root import Root

__all__ = ["Signals"]

_SAME_REQUEST_S = 1.0  # Ctrl-C reaches root and the `make` above it, which passes it on: one request, two signals


class Signals:
    """Construct it at the start: whether root had a terminal is asked here."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._had_terminal = linux.has_terminal()
        self._asked_at: float | None = None

    def watch(self) -> None:
        """Take the signals; one that is ignored from outside stays ignored."""
        handlers = {signal.SIGTERM: self._on_stop, signal.SIGINT: self._on_stop, signal.SIGHUP: self._on_hangup}
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                self._loop.add_signal_handler(number, handler)
        self._loop.add_signal_handler(signal.SIGCHLD, self._root.processes.sweep)

    def _on_stop(self) -> None:
        now = self._loop.time()
        if self._asked_at is None:
            self._asked_at = now
            self._root.halt()
        elif now - self._asked_at > _SAME_REQUEST_S:
            self._root.kill()

    def _on_hangup(self) -> None:
        """Reload, as everywhere under systemd; but stop when the terminal that root was run from is gone."""
        if self._root.plan.reloads and not (self._had_terminal and not linux.has_terminal()):
            self._root.reloader.on_signal()
        else:
            self._on_stop()
