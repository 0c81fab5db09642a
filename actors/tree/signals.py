"""What the rules look at: figures of one conversation since its last reset, taken from counters in O(1)."""

from __future__ import annotations

from typing import NamedTuple

from actors.knobs import Progress
from actors.messages import Evidence
from actors.tree.state import Conversation
from actors.tree.trail import HALF

__all__ = ["Signals", "evidence_of", "latest", "signals_of"]


class Signals(NamedTuple):
    """Counts since the last landing; shares 0..1; dollars. ``places`` of ``spans`` calls are distinct (P008).

    ``again`` and ``idle_edits`` are bits, the latest call's lowest, of the last 24 calls (``trail``).
    """

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
    repeat_run: int
    cycle_rounds: int
    exact_repeat: int
    same_outcome: int
    known_outcomes: int
    again: int
    failure_points: int
    same_failure: int
    provider_failures: int
    edit_run: int
    idle_edits: int
    refused_done: int
    injected_run: int
    compaction_run: int
    text_run: int
    wait_repeat: int


def latest(bits: int, halves: int) -> int:
    """Count the bits of the last ``halves`` times 12 calls."""
    return (bits & ((1 << halves * HALF) - 1)).bit_count()


def signals_of(conversation: Conversation, knobs: Progress) -> Signals:
    """Read the counters of one conversation."""
    window, trail = conversation.window, conversation.trail
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
        trail.run,
        trail.cycle_rounds,
        window.exact.top,
        trail.sights.top,
        trail.known_run,
        trail.again,
        trail.fail_points,
        trail.same_failure,
        trail.storm,
        trail.edit_run,
        trail.idle_edits,
        trail.done_run,
        trail.nudges,
        trail.squeezes,
        trail.text_run,
        trail.waits,
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
        repeat_run=signals.repeat_run,
        cycle_rounds=signals.cycle_rounds,
        exact_repeat=signals.exact_repeat,
        same_outcome=signals.same_outcome,
        known_outcomes=signals.known_outcomes,
        nothing_new=latest(signals.again, 1),
        failure_points=signals.failure_points,
        same_failure=signals.same_failure,
        provider_failures=signals.provider_failures,
        edit_run=signals.edit_run,
        idle_edits=latest(signals.idle_edits, 1),
        refused_done=signals.refused_done,
        injected_run=signals.injected_run,
        compaction_run=signals.compaction_run,
        text_run=signals.text_run,
        wait_repeat=signals.wait_repeat,
        read_only=signals.read_only,
        context_tokens=conversation.context_tokens,
        top_target=conversation.window.top_target(),
    )
