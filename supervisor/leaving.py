"""How something supervised says why it ends, in a process and in an actor alike."""

from __future__ import annotations

from supervisor.events import Ending

__all__ = ["Leave", "NothingToDo"]


class Leave(Exception):
    """Raise it to end on purpose, by default as OTP's `{shutdown, Reason}`: a transient child stays down then."""

    def __init__(self, reason: str = "", ending: Ending = Ending.SHUTDOWN_WITH) -> None:
        super().__init__(reason)
        if not ending.clean:
            raise ValueError(f"ending is {ending.value!r}; allowed: normal, shutdown, shutdown_with")
        self.ending = ending


class NothingToDo(Exception):
    """Raise it while starting: the child is not needed now; `ignore` in OTP."""
