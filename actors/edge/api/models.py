"""What the routes answer, as models: the source of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from actors.messages import Evidence, Reason, Status, Verdict
from actors.sensors.item_errors import ItemError

__all__ = [
    "AlertList",
    "AlertView",
    "DeliveryView",
    "Health",
    "Ingested",
    "SensorList",
    "SensorView",
    "TransitionView",
    "TreeList",
    "TreeSummary",
    "TreeView",
    "WarningList",
    "WarningView",
]


class TreeSummary(BaseModel):
    """One conversation tree. Times are epoch seconds, dollars and turns count since the last landed change."""

    model_config = ConfigDict(extra="allow")

    id: str
    verdict: Verdict
    reason: Reason
    status: Status
    mode: str
    stage: str
    conversations: int = 0
    events: int = 0
    turns_since_landed: int = 0
    usd_since_landed: float = 0.0
    top_target: str | None = None
    last_event_at: float


class TreeList(BaseModel):
    """A page in order of id; ``next`` is the ``after`` of the next one."""

    trees: list[TreeSummary]
    next: str | None = None


class TransitionView(BaseModel):
    """A conversation's verdict changed; ``index`` counts the tree's events."""

    n: int
    index: int
    t: float
    conversation: str
    before: Verdict
    after: Verdict
    reason: Reason
    tree_verdict: Verdict
    evidence: Evidence


class TreeView(BaseModel):
    """One tree with everything that explains its verdict; figures and conversations as its actor sees them now."""

    model_config = ConfigDict(extra="allow")

    id: str
    verdict: Verdict
    reason: Reason
    status: Status
    mode: str
    stage: str
    conversations: list[dict[str, Any]] = []
    evidence: dict[str, Any] = {}
    thresholds: dict[str, Any] = {}
    transitions: list[TransitionView]
    quarantined: int = 0
    last_event_at: float


class WarningView(BaseModel):
    """One conversation that lands nothing now."""

    tree: str
    conversation: str
    agent: str | None = None
    parent: str | None = None
    verdict: Verdict
    reason: Reason
    since: float | None = None
    turns_since_landed: int = 0
    usd_since_landed: float = 0.0
    top_target: str | None = None


class WarningList(BaseModel):
    """All current warnings; ``more`` says that trees beyond the limit were left out."""

    warnings: list[WarningView]
    more: bool = False


class SensorView(BaseModel):
    """A sensor that reported (P113)."""

    source: str
    version: str
    seen_at: float


class SensorList(BaseModel):
    sensors: list[SensorView]


class DeliveryView(BaseModel):
    """One attempt on one channel."""

    key: str = ""
    channel: str
    action: str
    state: str
    attempts: int
    error: str | None = None
    at: float


class AlertView(BaseModel):
    """One entry of the alert log with its deliveries."""

    id: int
    key: str
    severity: str
    state: str
    title: str
    summary: str
    source: str
    at: float
    deliveries: list[DeliveryView] = []


class AlertList(BaseModel):
    """The newest entries first."""

    alerts: list[AlertView]


class Health(BaseModel):
    """``reasons`` says in one sentence each what is wrong."""

    status: str = Field(description="ok or degraded")
    version: str
    reasons: list[str] = []
    sensors: list[SensorView] = []


class Ingested(BaseModel):
    """What became of the items of one request; ``failed`` and ``items`` only in a 503."""

    accepted: int
    duplicates: int
    quarantined: int
    rejected: int
    failed: int | None = None
    ignored_fields: dict[str, int]
    errors: list[ItemError]
    items: list[dict[str, Any]] | None = None
