"""The notifier's decision about one alert event: fold it, route it. Pure; the actor applies it after the commit.

``decide`` changes nothing: a decision whose commit fails is thrown away and made again when its sender repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.messages import AlertEffect, AlertState, Frozen
from actors.notifier.alert import Alert, Outcome, fold
from actors.notifier.route import Routed, Rule, Why, route

__all__ = ["MAX_CLOSED", "Decision", "NotifierState", "apply", "decide", "why_skip"]

MAX_CLOSED = 10_000
_NOBODY: frozenset[str] = frozenset()


@dataclass
class NotifierState:
    """Alerts by dedup key (closed ones bounded, oldest change first) and the channels addressed since each opened."""

    open: dict[str, Alert] = field(default_factory=dict)
    closed: dict[str, Alert] = field(default_factory=dict)
    addressed: dict[str, frozenset[str]] = field(default_factory=dict)

    def alert(self, key: str) -> Alert | None:
        return self.open.get(key) or self.closed.get(key)

    def hold(self, alert: Alert) -> None:
        """Make ``alert`` the current one of its key."""
        self.open.pop(alert.key, None)
        self.closed.pop(alert.key, None)
        (self.open if alert.is_open else self.closed)[alert.key] = alert
        if len(self.closed) > MAX_CLOSED:
            del self.closed[next(iter(self.closed))]

    def forget(self, key: str) -> None:
        """Drop what is known of ``key``."""
        for part in (self.open, self.closed, self.addressed):
            part.pop(key, None)


class Decision(Frozen):
    """What one event means. ``routed`` is empty unless the outcome is a transition."""

    outcome: Outcome
    effect_id: int
    alert: Alert
    routed: list[Routed] = []


def decide(state: NotifierState, effect_id: int, effect: AlertEffect, rules: Iterable[Rule]) -> Decision:
    """Fold ``effect`` and route the transition, if it is one."""
    alert, outcome = fold(state.alert(effect.key), effect_id, effect)
    routed = route(alert, rules, state.addressed.get(effect.key, _NOBODY)) if outcome.is_transition else []
    return Decision(outcome=outcome, effect_id=effect_id, alert=alert, routed=routed)


def apply(state: NotifierState, decision: Decision) -> None:
    """Make ``decision`` the state; call it once the decision is durable."""
    alert = decision.alert
    state.hold(alert)
    if not alert.is_open:
        state.addressed.pop(alert.key, None)
        return
    admitted = frozenset(routed.channel for routed in decision.routed if routed.admitted)
    state.addressed[alert.key] = state.addressed.get(alert.key, _NOBODY) | admitted


def why_skip(alert: Alert, told: bool, newer_waits: bool, backlogged: bool, enabled: bool) -> Why | None:
    """Say why a queued message need not go out any more, or None to send it.

    ``told``: the channel really showed this alert as open. ``newer_waits``: a later message about the key is queued;
    it replaces this one only under a backlog, so that a storm stays bounded and a quiet day stays complete.
    """
    if not enabled:
        return Why.DISABLED
    if backlogged and newer_waits:
        return Why.SUPERSEDED
    if alert.state is AlertState.RESOLVE and not told:
        return Why.NOT_TOLD
    return None
