"""How long a channel is tried and how long it is left alone. Pure but for the jitter of tenacity's waits.

The table (P083): a channel on this machine gets a few attempts, a network channel goes on with backoff
until its time is up, longer for what is critical and for the end of an alert. A service without idempotency gets, after
an attempt of which nobody knows whether it arrived, one more that says so, and no third.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenacity import RetryCallState, stop_after_attempt, stop_after_delay, wait_random_exponential

from actors.messages import AlertState, Severity
from actors.notifier.alert import Alert

__all__ = ["MOST_DOUBTS", "Circuit", "Limits", "backoff_s", "is_urgent", "spent"]

MOST_DOUBTS = 2
MAX_WAIT_S = 60.0
MAX_ASKED_S = 3600.0
_backoff = wait_random_exponential(multiplier=0.5, max=MAX_WAIT_S)


@dataclass(frozen=True)
class Limits:
    """``retries`` are attempts after the first one, None where only time counts."""

    timeout_s: float
    retries: int | None
    retry_for_s: float = 3600.0
    retry_urgent_for_s: float = 86_400.0
    circuit_after: int = 5


def is_urgent(alert: Alert) -> bool:
    """Critical alerts are tried longer; so is an end, or its beginning would stand for ever."""
    return alert.severity is Severity.CRITICAL or alert.state is AlertState.RESOLVE


def spent(alert: Alert, limits: Limits, attempts: int, age_s: float) -> bool:
    """Tell whether a message that failed ``attempts`` times and is ``age_s`` old is given up."""
    state = _state(attempts, age_s)
    if limits.retries is not None:
        return stop_after_attempt(limits.retries + 1)(state)
    return stop_after_delay(limits.retry_urgent_for_s if is_urgent(alert) else limits.retry_for_s)(state)


def backoff_s(attempts: int, asked_s: float | None) -> float:
    """Return the wait before the next attempt; what the service asked for comes first (Retry-After)."""
    if asked_s is not None:
        return min(max(asked_s, 0.0), MAX_ASKED_S)
    return _backoff(_state(attempts, 0.0))


def _state(attempts: int, age_s: float) -> RetryCallState:
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = attempts
    state.start_time, state.outcome_timestamp = 0.0, age_s
    return state


class Circuit:
    """Counts failed attempts in a row: ``down`` from ``after`` of them until one works."""

    def __init__(self) -> None:
        self.failures = 0
        self.since: float | None = None

    def down(self, after: int) -> bool:
        return self.failures >= after

    def failed(self, at: float) -> None:
        self.failures += 1
        if self.since is None:
            self.since = at

    def worked(self) -> None:
        self.failures, self.since = 0, None
