"""What the rules look at: figures of one conversation since its last reset, taken from counters in O(1)."""

from __future__ import annotations

from typing import NamedTuple

from actors.knobs import Progress
from actors.messages import Evidence
from actors.tree.state import Conversation

__all__ = ["Signals", "evidence_of", "signals_of"]


class Signals(NamedTuple):
    """Counts since the last landing; shares 0..1; dollars. ``places`` of ``spans`` calls are distinct (P008)."""

    read_only: bool
    turns: int
    usd: float
    calls: int
    injected: int
    window_calls: int
    dup_share: float
    fail_streak: int
    top_repeat: int
    session_repeat: int
    target_fail_streak: int
    places: int
    spans: int


def signals_of(conversation: Conversation, knobs: Progress) -> Signals:
    """Read the counters of one conversation."""
    window = conversation.window
    return Signals(
        conversation.agent in knobs.read_only_agents,
        conversation.turns_since,
        round(conversation.usd_since, 9),  # ten times $0.10 is a dollar
        conversation.calls_since,
        conversation.injected_since,
        window.since,
        window.dup_share,
        conversation.failures.top,
        window.slices.top,
        conversation.repeats.top,
        conversation.target_failures.top,
        len(window.places),
        min(window.since, window.span),
    )


def evidence_of(conversation: Conversation, knobs: Progress) -> Evidence:
    """Freeze the signals for a person to read; O(window) for the top target."""
    signals = signals_of(conversation, knobs)
    return Evidence(
        turns_since_landed=signals.turns,
        usd_since_landed=round(signals.usd, 6),
        calls_since_landed=signals.calls,
        injected_since_landed=signals.injected,
        window_calls=signals.window_calls,
        dup_share=round(signals.dup_share, 4),
        fail_streak=signals.fail_streak,
        top_repeat=signals.top_repeat,
        session_repeat=signals.session_repeat,
        target_fail_streak=signals.target_fail_streak,
        distinct_targets=signals.places,
        read_only=signals.read_only,
        context_tokens=conversation.context_tokens,
        top_target=conversation.window.top_target(),
    )
