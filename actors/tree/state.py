"""What is known of one tree: plain slotted objects with bounded memory, changed in place by the step alone.

No digest text is kept, only compact keys (``keys``) and coarse targets. Conversations beyond ``MAX_CONVERSATIONS`` are
forgotten, the longest retired childless ones first; states that landed beyond ``MAX_STATES``, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.knobs import Progress
from actors.messages import Mode, Reason, Status, Verdict
from actors.tree.tally import Tally
from actors.tree.trail import Trail
from actors.tree.window import Window

__all__ = ["MAX_CONVERSATIONS", "MAX_STATES", "Conversation", "TreeState", "new_tree"]

MAX_CONVERSATIONS = 512
MAX_STATES = 512
_SESSION_KEYS = 96  # distinct exact calls remembered since the last landing, beyond the window (P130, T43)
_STREAK_KEYS = 32

_OK = Verdict.OK


@dataclass(slots=True)
class Conversation:
    """One conversation. ``*_since`` count since the last reset, descendants included, unless they say ``own``."""

    id: str
    parent: str | None
    window: Window
    agent: str | None = None
    placeholder: bool = True  # named as somebody's parent, not heard of itself yet
    assumed: bool = True  # its parent is a guess until an event names it
    children: int = 0
    verdict: Verdict = Verdict.OK
    reason: Reason = Reason.NONE
    quiet: int = 0  # calls in a row that no longer support the verdict
    retired: bool = False
    idle: bool = False
    questions: int = 0
    open_calls: int = 0
    ends_turns: bool = False  # its sensor says when a turn is over, so that an open one is known to be open
    busy: bool = False  # compacting, or its provider is being asked again
    alive_at: float = 0.0
    reset_at: float = 0.0
    events: int = 0
    turns: int = 0
    usd: float = 0.0
    turns_since: int = 0
    usd_since: float = 0.0
    calls_since: int = 0  # own
    injected_since: int = 0  # own
    sends_turns: bool = False
    round: str | None = None
    context_tokens: int | None = None
    requests: dict[str, float] = field(default_factory=dict)
    repeats: Tally = field(default_factory=lambda: Tally(_SESSION_KEYS))
    failures: Tally = field(default_factory=lambda: Tally(_STREAK_KEYS))
    target_failures: Tally = field(default_factory=lambda: Tally(_STREAK_KEYS))
    trail: Trail = field(default_factory=Trail)

    def status_at(self, now: float, silent_after_s: float) -> Status:
        """Return the status at ``now``: an active one is silent when its turn is open and nothing has come for long.

        The clock stands still while a call is open, a question, a compaction or a retry (T01).
        """
        at_work = self.ends_turns and not self.open_calls and not self.busy
        silent = self.status is Status.ACTIVE and at_work and now - self.alive_at >= silent_after_s
        return Status.SILENT if silent else self.status

    @property
    def status(self) -> Status:
        if self.questions:  # however long it has been open: nobody works, and nobody forgot (T02)
            return Status.WAITING_USER
        if self.retired:
            return Status.RETIRED
        return Status.IDLE if self.idle or self.placeholder else Status.ACTIVE

    def reset(self, now: float, *, landed: bool = False) -> None:
        """Start counting anew: something landed, the user spoke, or an operator resumed."""
        if landed:
            self.trail.clear_since()
        else:
            self.trail.clear()
        self.reset_at = now
        self.quiet = self.turns_since = self.calls_since = self.injected_since = 0
        self.usd_since = 0.0
        self.window.reset()
        self.repeats.clear()
        self.failures.clear()
        self.target_failures.clear()


@dataclass(slots=True)
class TreeState:
    """One tree: conversations in order of appearance; ``now`` is event time, ``alerted`` what the open alert says."""

    id: str
    conversations: dict[str, Conversation] = field(default_factory=dict)
    mode: Mode | None = None
    seq: int = 0
    now: float = 0.0
    last_event_at: float | None = None
    stalling: int = 0
    looping: int = 0
    alerted: Verdict = Verdict.OK
    ignored_links: int = 0
    forgotten: int = 0
    oldest_alive: float | None = None  # no live conversation was last alive before this
    landed_states: dict[int, None] = field(default_factory=dict)
    judged_by: Progress | None = None  # not saved: spares looking at every value on every event
    knobs_key: int | None = None
    limits: tuple[Any, ...] = ()  # not saved, either: the thresholds of ``judged_by`` at hand (``judge.calm``)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the live conversations; a retired one is ok."""
        if self.looping:
            return Verdict.LOOPING
        return Verdict.STALLING if self.stalling else _OK

    def lineage(self, conversation: Conversation) -> Iterator[Conversation]:
        """Yield the conversation, then its ancestors up to the root."""
        current: Conversation | None = conversation
        while current is not None:
            yield current
            current = self.conversations.get(current.parent) if current.parent is not None else None


def new_tree(tree_id: str) -> TreeState:
    """Return the state of a tree that nothing has been heard of."""
    return TreeState(id=tree_id)
