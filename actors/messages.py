"""The vocabulary of treewarden: events in, verdicts and effects out. Frozen models, no behaviour, no I/O.

``ProgressEvent`` is wire format v1: one small content-free record of one thing that happened in a conversation.
Digests, counts and coarse targets only; the length limits below are part of that promise. Unknown fields are ignored.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

__all__ = [
    "AlertEffect",
    "AlertState",
    "Command",
    "ErrorClass",
    "Evidence",
    "Kind",
    "Mode",
    "ProgressEvent",
    "Reason",
    "Severity",
    "Status",
    "Tick",
    "Tokens",
    "Transition",
    "Verdict",
]


class Kind(StrEnum):
    """What happened."""

    TOOL = "tool"
    TURN = "turn"
    USER = "user"
    INJECTED = "injected"
    ASSISTANT = "assistant"
    REASONING = "reasoning"
    DONE = "done"
    COMPACTION = "compaction"
    INTERRUPT = "interrupt"
    OPEN = "open"
    CLOSE = "close"
    IDLE = "idle"
    RETRY = "retry"
    REVERTED = "reverted"
    DELETED = "deleted"
    NOTICE = "notice"


class ErrorClass(StrEnum):
    """Class token of a failed call; never its text."""

    INFRA = "infra"
    DENIED = "denied"
    AUTH = "auth"
    NOTFOUND = "notfound"
    EDIT_MISMATCH = "edit_mismatch"
    PARSE = "parse"
    UNKNOWN_TOOL = "unknown_tool"
    PROVIDER = "provider"
    TIMEOUT = "timeout"


class Verdict(StrEnum):
    """Judgement of a conversation; a tree shows the worst of its live ones."""

    OK = "ok"
    STALLING = "stalling"
    LOOPING = "looping"


class Reason(StrEnum):
    """Why a verdict is what it is; every family of rules has its own."""

    NONE = "none"
    DUPLICATES = "duplicates"
    FAILURES = "failures"
    TOP_REPEAT = "top_repeat"
    SESSION_REPEAT = "session_repeat"
    READ_ONLY_REPEAT = "read_only_repeat"
    READ_ONLY_NOVELTY = "read_only_novelty"
    READ_ONLY_FAILURES = "read_only_failures"
    CEILING = "ceiling"
    REPEAT_RUN = "repeat_run"
    CYCLE = "cycle"
    EXACT_REPEAT = "exact_repeat"
    SAME_OUTCOME = "same_outcome"
    KNOWN_OUTCOMES = "known_outcomes"
    NOTHING_NEW = "nothing_new"
    FAILURE_STREAK = "failure_streak"
    SAME_FAILURE = "same_failure"
    PROVIDER_FAILURES = "provider_failures"
    SAME_EDIT = "same_edit"
    IDLE_EDITS = "idle_edits"
    REFUSED_DONE = "refused_done"
    INJECTED = "injected"
    COMPACTION_LOOP = "compaction_loop"
    SAME_TEXT = "same_text"
    WAITING = "waiting"
    LANDED = "landed"
    USER_TURN = "user_turn"
    RESUMED = "resumed"
    RECOVERED = "recovered"
    RETIRED = "retired"
    SETTINGS = "settings"
    MERGED = "merged"


class Status(StrEnum):
    """What a conversation is doing; not a verdict."""

    ACTIVE = "active"
    IDLE = "idle"
    WAITING_USER = "waiting_user"
    RETIRED = "retired"
    SILENT = "silent"


class Mode(StrEnum):
    """What treewarden may do about a detection (P047)."""

    WARN = "warn"
    AUTO_COMPACT = "auto_compact"
    AUTO_LIMIT_CONTEXT = "auto_limit_context"
    AUTO_RECOVER = "auto_recover"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertState(StrEnum):
    TRIGGER = "trigger"
    ESCALATE = "escalate"
    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"


Identifier = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Digest = Annotated[str, StringConstraints(max_length=128)]
Name = Annotated[str, StringConstraints(max_length=200)]
Coarse = Annotated[str, StringConstraints(max_length=400)]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Tokens(Frozen):
    """Usage of one model request, in tokens; ``prompt`` includes ``cached``."""

    prompt: int = Field(0, ge=0)
    cached: int = Field(0, ge=0)
    completion: int = Field(0, ge=0)


class ProgressEvent(Frozen):
    """One progress event, wire format v1. ``t``: epoch seconds at the sensor, absent until the edge stamps receipt."""

    v: Literal[1] = 1
    id: Identifier | None = None
    t: float | None = Field(None, ge=0, allow_inf_nan=False)
    session_id: Identifier
    parent_session_id: Identifier | None = None
    agent: Name | None = None
    kind: Kind = Kind.TOOL
    tool: Name | None = None
    call_id: Name | None = None
    round: Name | None = None
    fingerprint: Digest | None = None
    slice: Digest | None = None
    target: Coarse | None = None
    exit: int | None = None
    result: Digest | None = None
    error: ErrorClass | None = None
    landed: StrictBool = False
    state: Digest | None = None
    said: Digest | None = None
    said_sim: Digest | None = None
    injected: StrictBool = False
    model: Name | None = None
    provider: Name | None = None
    request_id: Name | None = None
    tokens: Tokens | Annotated[int, Field(ge=0)] | None = None
    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    context_tokens: int | None = Field(None, ge=0)
    source: Name | None = None


class Tick(Frozen):
    """The tree's clock moved to ``t`` (epoch seconds of the tree's own clock) without an event."""

    t: float


class Command(Frozen):
    """What an operator asked of one tree. ``value`` is the mode for ``mode`` (None clears the override)."""

    t: float
    action: Literal["resume", "mode"]
    value: Mode | None = None
    by: str = "operator"


class Evidence(Frozen):
    """The signals of one conversation when its verdict changed: counts, shares in 0..1, dollars, coarse target."""

    turns_since_landed: int = 0
    usd_since_landed: float = 0.0
    calls_since_landed: int = 0
    injected_since_landed: int = 0
    window_calls: int = 0
    dup_share: float = 0.0
    fail_streak: int = 0
    top_repeat: int = 0
    session_repeat: int = 0
    target_fail_streak: int = 0
    distinct_targets: int = 0
    repeat_run: int = 0
    cycle_rounds: int = 0
    exact_repeat: int = 0
    same_outcome: int = 0
    known_outcomes: int = 0
    nothing_new: int = 0
    failure_points: int = 0
    same_failure: int = 0
    provider_failures: int = 0
    edit_run: int = 0
    idle_edits: int = 0
    refused_done: int = 0
    injected_run: int = 0
    compaction_run: int = 0
    text_run: int = 0
    wait_repeat: int = 0
    read_only: bool = False
    context_tokens: int | None = None
    top_target: str | None = None


class Transition(Frozen):
    """A conversation's verdict changed. ``index``: the tree's event, from 0; ``tree_verdict``: the tree's after it."""

    index: int
    t: float
    conversation: str
    before: Verdict
    after: Verdict
    reason: Reason
    tree_verdict: Verdict
    evidence: Evidence


class AlertEffect(Frozen):
    """One alert event for the notifier. ``key`` is the dedup key (tree root id)."""

    key: str
    state: AlertState
    severity: Severity
    title: str
    summary: str
    details: dict[str, Any] = {}
    source: str = "no-progress"
    t: float
