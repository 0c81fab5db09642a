"""What a tree's actor finds in its mailbox. Apply, Order, Wake, Put and Merge wait for the next commit and are answered
with an Outcome after it; Look and Leave are answered at once; Settled and Go the actor sends to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.messages import Command, ProgressEvent
from actors.store.requests import Write
from actors.tree.requests import Adopt, Failure

__all__ = ["Apply", "Go", "Leave", "Look", "Merge", "Order", "Put", "Settled", "Wake", "Work"]


@dataclass(frozen=True)
class Apply:
    """Step these events; answered with an Outcome after the commit."""

    events: list[ProgressEvent]


@dataclass(frozen=True)
class Order:
    """An operator's command; answered with an Outcome."""

    command: Command
    uid: int
    audit: Write


@dataclass(frozen=True)
class Wake:
    """Wall time went by: let due timers run. Answered with an Outcome."""


@dataclass(frozen=True)
class Put:
    """Write a snapshot if there is anything new; answered with an Outcome. The actor can be stopped afterwards."""


@dataclass(frozen=True)
class Leave:
    """Stop if everything is written and nobody waits; answered with whether it did."""


@dataclass(frozen=True)
class Merge:
    """Take another tree's history over; answered with an Outcome."""

    request: Adopt


@dataclass(frozen=True)
class Look:
    """Answered with the tree's view at once; it may be ahead of the database by one commit."""


@dataclass(frozen=True)
class Settled:
    """The commit under way ended, well or with the reason of its failure."""

    committed: bool
    failed: Failure = "busy"
    detail: str = ""


@dataclass(frozen=True)
class Go:
    """Perform what waits."""


Work = Apply | Order | Wake | Put | Merge
