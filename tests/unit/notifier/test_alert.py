"""How alert events fold into alerts: a table of cases."""

from __future__ import annotations

import pytest

from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.alert import Alert, Outcome, fold

WORDS = {
    "t": (AlertState.TRIGGER, Severity.WARNING),
    "T": (AlertState.TRIGGER, Severity.CRITICAL),
    "i": (AlertState.TRIGGER, Severity.INFO),
    "e": (AlertState.ESCALATE, Severity.WARNING),
    "E": (AlertState.ESCALATE, Severity.CRITICAL),
    "r": (AlertState.RESOLVE, Severity.INFO),
}


def effect(word: str, t: float, title: str = "title") -> AlertEffect:
    state, severity = WORDS[word]
    return AlertEffect(key="k", state=state, severity=severity, title=title, summary="s", t=t)


def play(words: str) -> tuple[Alert | None, list[str]]:
    alert, outcomes = None, []
    for number, word in enumerate(words, 1):
        alert, outcome = fold(alert, number, effect(word, float(number)))
        outcomes.append(outcome.value)
    return alert, outcomes


@pytest.mark.parametrize(
    ("words", "outcomes"),
    [
        ("t", ["opened"]),
        ("e", ["opened"]),
        ("tt", ["opened", "repeated"]),
        ("tT", ["opened", "escalated"]),
        ("tE", ["opened", "escalated"]),
        ("tEE", ["opened", "escalated", "repeated"]),
        ("Tt", ["opened", "repeated"]),
        ("Te", ["opened", "repeated"]),
        ("tr", ["opened", "resolved"]),
        ("trr", ["opened", "resolved", "not_open"]),
        ("trt", ["opened", "resolved", "opened"]),
        ("r", ["not_open"]),
        ("rt", ["not_open", "opened"]),
        ("iti", ["opened", "opened", "repeated"]),
        ("ii", ["opened", "opened"]),
    ],
)
def test_fold_sequence_gives_outcomes(words: str, outcomes: list[str]) -> None:
    assert play(words)[1] == outcomes


def test_fold_thousand_triggers_open_once() -> None:
    alert, outcomes = play("t" * 1000)
    assert outcomes.count("opened") == 1
    assert alert is not None
    assert alert.last_effect == 1000


def test_fold_escalation_keeps_opening_time_and_never_lowers_severity() -> None:
    alert, _ = play("tEt")
    assert alert is not None
    assert (alert.opened_at, alert.changed_at, alert.severity) == (1.0, 2.0, Severity.CRITICAL)


def test_fold_escalate_with_new_words_at_same_severity_is_news() -> None:
    alert, _ = fold(None, 1, effect("E", 1.0))
    assert fold(alert, 2, effect("E", 2.0, title="recovery started"))[1] is Outcome.ESCALATED
    assert fold(alert, 2, effect("e", 2.0, title="recovery started"))[1] is Outcome.REPEATED


def test_fold_old_or_equal_effect_id_is_duplicate() -> None:
    alert, _ = play("tr")
    for number in (1, 2):
        assert fold(alert, number, effect("t", 9.0)) == (alert, Outcome.DUPLICATE)


def test_fold_trigger_overtaken_by_its_resolve_does_not_open() -> None:
    alert, outcome = fold(None, 2, effect("r", 2.0))
    assert outcome is Outcome.NOT_OPEN
    assert fold(alert, 1, effect("t", 1.0))[1] is Outcome.DUPLICATE
