"""What can go wrong on the bus.

BusError
 +-- PeerUnavailable   nobody listens there, or it died before it answered
 +-- AskTimeout        the peer did not answer in time; the work may still be done
 +-- QueueFull         the peer takes nothing more at the moment
 +-- RemoteError       the peer answered no: ``code`` and ``detail``
Refused                raised inside a handler for an expected no; reaches the asker as RemoteError
"""

from __future__ import annotations

from typing import Any

__all__ = ["AskTimeout", "BusError", "PeerUnavailable", "QueueFull", "Refused", "RemoteError"]


class BusError(Exception):
    """Any failure of a tell or an ask."""


class PeerUnavailable(BusError):
    """The peer is not there, or its connection broke before the answer."""


class AskTimeout(BusError):
    """No answer within the timeout."""


class QueueFull(BusError):
    """The bounded queue to the peer stayed full for the whole timeout."""


class RemoteError(BusError):
    """The peer's handler refused (its own code) or crashed (code ``crashed``)."""

    def __init__(self, code: str, detail: Any = None) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class Refused(Exception):
    """Raise in a handler to answer no with a code that the asker can act on."""

    def __init__(self, code: str, detail: Any = None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
