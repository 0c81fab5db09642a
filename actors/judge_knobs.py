"""Knobs of the pattern rules: how often something must come again before the judge speaks of it (P042).

Every count is the one at which a conversation is stalling; ``loop_factor`` times as many are looping. The defaults lie
between what working sessions reach and what stuck ones soon pass; ``tests/corpus/cross_validation.py`` prints both.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StringConstraints

from actors.section import Section, knob, seconds

__all__ = ["Patterns"]

Tool = Annotated[str, StringConstraints(min_length=1, max_length=200, to_lower=True)]


def _times(default: int, doc: str, least: int = 2) -> Any:
    return knob(default, doc, ge=least, le=10_000)


class Patterns(Section):
    """Counts of the pattern rules."""

    loop_factor: float = knob(
        2.0,
        "looping needs this many times the count of a pattern that is stalling",
        ge=1.25,
        le=20,
        allow_inf_nan=False,
    )
    repeat_run: int = _times(5, "equal calls with equal outcomes back to back")
    cycle_rounds: int = _times(3, "rounds of a cycle of 2 to 8 calls, back to back (T22)")
    exact_repeat: int = _times(6, "equal calls with equal outcomes in the window, wherever they are")
    session_repeat_spent: int = _times(
        8, "equal calls in the whole conversation once loop_turns or loop_usd are gone with nothing landed"
    )
    same_outcome: int = _times(8, "calls of one target with one outcome in a row of nothing landed, however worded")
    known_outcomes: int = _times(7, "successful calls in a row whose outcome had been seen at least twice before")
    nothing_new: int = knob(
        6, "of 12 calls, those made with one outcome at least twice before; 13 is never", ge=4, le=13
    )
    failure_points: int = _times(
        12, "points of a streak of failures: 1 for a new kind of failure, 2 for one that the streak has seen"
    )
    same_failure: int = _times(6, "times that one target fails alike with no success of it, whatever is edited between")
    provider_failures: int = _times(12, "calls in a row that the provider refused, repeated with no pause")
    edit_run: int = _times(5, "times that the same edit is made with no other edit between")
    idle_edits: int = knob(
        6, "of 12 calls, accepted edits that brought nothing but a state seen before; 13 is never", ge=3, le=13
    )
    refused_done: int = _times(5, "times that the agent says done and has to go on within 12 calls")
    injected_run: int = _times(4, "injected turns in a row that led to nothing landed and hardly anything new (P005)")
    compaction_run: int = _times(4, "compactions in a row with fewer than 4 calls between")
    text_run: int = _times(4, "assistant texts in a row that say what one of the 5 before said (S014-S019)")
    wait_repeat: int = _times(
        30, "repeats that wait: the call was silent, or of a waiting tool, or a pause lay before it"
    )
    silent_after_s: float = seconds(
        120,
        "seconds without an event inside an open turn after which a conversation shows as silent",
        least=1,
        most=3600,
    )
    waiting_tools: tuple[Tool, ...] = knob(
        ("bashoutput", "command_status", "sleep", "taskoutput", "wait", "wait_for", "write_stdin"),
        "tools, in lower case, whose repeats with no news wait",
    )
    pause_s: float = seconds(
        30,
        "seconds before a repeated call that make it waiting, if calls are usually three times as quick",
        least=1,
        most=3600,
    )
