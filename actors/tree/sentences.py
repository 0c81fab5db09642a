"""Why a verdict is what it is, as a sentence an operator understands; its figures are those of the evidence."""

from __future__ import annotations

from actors.messages import Evidence, Reason

__all__ = ["SENTENCES", "sentence_of"]

SENTENCES: dict[Reason, str] = {
    Reason.NONE: "nothing repeats",
    Reason.DUPLICATES: "{dup_share:.0%} of the last {window_calls} calls are duplicates and nothing landed",
    Reason.FAILURES: "one call failed {fail_streak} times in a row and nothing landed",
    Reason.TOP_REPEAT: "one place was looked at {top_repeat} times in the last {window_calls} calls",
    Reason.SESSION_REPEAT: "one call was made {session_repeat} times with nothing landed between",
    Reason.READ_ONLY_REPEAT: "a read-only agent looked at one place {top_repeat} times",
    Reason.READ_ONLY_NOVELTY: "a read-only agent looked at {distinct_targets} places in its last calls",
    Reason.READ_ONLY_FAILURES: "a read-only agent failed at one target {target_fail_streak} times",
    Reason.CEILING: "{turns_since_landed} turns and ${usd_since_landed:.2f} with nothing landed",
    Reason.REPEAT_RUN: "the same call ended the same {repeat_run} times in a row",
    Reason.CYCLE: "the same calls take turns, {cycle_rounds} rounds by now",
    Reason.EXACT_REPEAT: "one call ended the same {exact_repeat} times in the last {window_calls} calls",
    Reason.SAME_OUTCOME: "{same_outcome} calls of one target, however worded, ended the same",
    Reason.KNOWN_OUTCOMES: "{known_outcomes} calls in a row showed only what had been seen before",
    Reason.NOTHING_NEW: "{nothing_new} of the last 12 calls had all been made before with the same outcome",
    Reason.FAILURE_STREAK: "a streak of failures, {failure_points} points by now",
    Reason.SAME_FAILURE: "one target failed alike {same_failure} times, whatever was done in between",
    Reason.PROVIDER_FAILURES: "the provider refused {provider_failures} calls in a row, asked again with no pause",
    Reason.SAME_EDIT: "the same edit was made {edit_run} times in a row",
    Reason.IDLE_EDITS: "{idle_edits} of the last 12 calls were edits that brought back what was there before",
    Reason.REFUSED_DONE: "it said done {refused_done} times and had to go on",
    Reason.INJECTED: "{injected_run} injected turns in a row and nothing landed",
    Reason.COMPACTION_LOOP: "{compaction_run} compactions with hardly a call between them",
    Reason.SAME_TEXT: "it said the same {text_run} times and did nothing new",
    Reason.WAITING: "it waited through {wait_repeat} repeats with no news",
    Reason.LANDED: "a change landed",
    Reason.USER_TURN: "the user spoke",
    Reason.RESUMED: "an operator resumed it",
    Reason.RECOVERED: "it has been doing something new for a whole window",
    Reason.RETIRED: "it has been idle, or has ended",
    Reason.SETTINGS: "the settings changed",
    Reason.MERGED: "it became part of another tree",
}


def sentence_of(reason: Reason, evidence: Evidence) -> str:
    """Fill in the figures."""
    return SENTENCES[reason].format(**evidence.model_dump(exclude={"top_target"}))
