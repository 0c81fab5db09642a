"""Which channel gets what of one alert transition, and why not. Pure; a test walks the whole matrix (P079, P082)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from actors.messages import AlertState, Frozen, Severity
from actors.notifier.alert import RANK, Alert

__all__ = ["Routed", "Rule", "Why", "route"]


class Why(StrEnum):
    """Why a channel gets a transition or not; recorded with every delivery."""

    ADMITTED = "admitted"
    DISABLED = "disabled"
    BELOW_MIN_SEVERITY = "below_min_severity"
    NOT_TOLD = "not_told"
    RESOLVE_MESSAGES_OFF = "resolve_messages_off"
    SUPERSEDED = "superseded"


class Rule(Frozen):
    """What routing knows of a channel. ``lifecycle``: it can end a message it sent, so it always gets the resolve."""

    channel: str
    enabled: bool = True
    min_severity: Severity = Severity.WARNING
    resolve_messages: bool = True
    lifecycle: bool = False


class Routed(Frozen):
    """The decision for one channel."""

    channel: str
    why: Why

    @property
    def admitted(self) -> bool:
        return self.why is Why.ADMITTED


def route(alert: Alert, rules: Iterable[Rule], addressed: frozenset[str]) -> list[Routed]:
    """Decide for every channel; ``addressed`` are those that were routed an earlier message of this opening."""
    return [Routed(channel=rule.channel, why=_why(alert, rule, addressed)) for rule in rules]


def _why(alert: Alert, rule: Rule, addressed: frozenset[str]) -> Why:
    if not rule.enabled:
        return Why.DISABLED
    if alert.state is AlertState.RESOLVE:
        return _why_resolve(rule, addressed)
    if RANK[alert.severity] < RANK[rule.min_severity]:
        return Why.BELOW_MIN_SEVERITY
    return Why.ADMITTED


def _why_resolve(rule: Rule, addressed: frozenset[str]) -> Why:
    """A resolve is judged by who knows of the alert, not by severity: nobody hears of an end without a beginning."""
    if rule.channel not in addressed:
        return Why.NOT_TOLD
    if not (rule.resolve_messages or rule.lifecycle):
        return Why.RESOLVE_MESSAGES_OFF
    return Why.ADMITTED
