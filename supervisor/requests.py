"""What may be asked of a supervisor while it runs, and its answers; the names are those of OTP's `supervisor` module.

Pure data. Requests wait their turn with everything else that the supervisor has to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from supervisor.spec import ChildSpec, ChildType, SupervisorSpec

__all__ = [
    "Answer",
    "CountChildren",
    "Counts",
    "Cycle",
    "DeleteChild",
    "Done",
    "GetChildspec",
    "Listed",
    "No",
    "Refusal",
    "Request",
    "RestartChild",
    "Row",
    "Spec",
    "StartChild",
    "StartDynamic",
    "TerminateChild",
    "Update",
    "WhichChildren",
]


class Refusal(StrEnum):
    """Why not. Those beyond OTP: max_children (Elixir), id_taken (ids are unique in the whole tree), gone."""

    ALREADY_STARTED = "already_started"
    ALREADY_PRESENT = "already_present"
    RUNNING = "running"
    RESTARTING = "restarting"
    NOT_FOUND = "not_found"
    DYNAMIC = "simple_one_for_one"
    START_FAILED = "start_failed"
    INVALID = "invalid"
    MAX_CHILDREN = "max_children"
    ID_TAKEN = "id_taken"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StartChild:
    """Add a child and start it: Done, or already_started, already_present, invalid, start_failed (not added then)."""

    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class StartDynamic:
    """Start a child of a dynamic supervisor from its template, with ``args`` laid over the template's."""

    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TerminateChild:
    """Stop a child and keep its spec (a temporary or dynamic one is deleted): Done or not_found.

    A dynamic child keeps its id over restarts; with ``run`` only this incarnation of it is meant, as with a pid in OTP.
    """

    id: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class RestartChild:
    """Start a stopped child again: Done, or running, restarting, not_found, start_failed (it stays stopped then)."""

    id: str


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Delete a stopped child's spec: Done, or running, restarting, not_found."""

    id: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """Beyond OTP: stop a child and start it again, whatever its state; a failed start goes the way of every restart."""

    id: str


@dataclass(frozen=True, slots=True)
class WhichChildren:
    """List the children: Listed, the youngest first."""


@dataclass(frozen=True, slots=True)
class CountChildren:
    """Count the children: Counts."""


@dataclass(frozen=True, slots=True)
class GetChildspec:
    """Return a child's spec: Spec or not_found."""

    id: str


@dataclass(frozen=True, slots=True)
class Update:
    """Replace flags and child specs in place, as OTP's code_change does: nothing is started or stopped by it.

    Children that are in both keep running under their new spec, new ones are added stopped, and those that are missing
    stay, behind the new ones in start order.
    """

    spec: SupervisorSpec


Request = (
    StartChild
    | StartDynamic
    | TerminateChild
    | RestartChild
    | DeleteChild
    | Cycle
    | WhichChildren
    | CountChildren
    | GetChildspec
    | Update
)


@dataclass(frozen=True, slots=True)
class Done:
    """It is done; ``id`` and ``run`` of the child where one was started (run 0: it had nothing to do)."""

    id: str | None = None
    run: int = 0


@dataclass(frozen=True, slots=True)
class No:
    """It is not done."""

    refusal: Refusal
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One child of `which_children`; ``run`` is 0 while it is stopped."""

    id: str
    run: int
    restarting: bool
    type: ChildType


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to WhichChildren."""

    children: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """The answer to CountChildren."""

    specs: int
    active: int
    supervisors: int
    workers: int


@dataclass(frozen=True, slots=True)
class Spec:
    """The answer to GetChildspec."""

    spec: ChildSpec


Answer = Done | No | Listed | Counts | Spec
