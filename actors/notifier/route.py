"""Which channel gets what of an alert now, why not, and when to ask again. Pure; a test walks the matrix (P079, P082).

``judge`` compares what a channel was told of a key with what it should know, so it may be asked at any time and as
often as one likes: after a transition, when a silence ends, after a restart. What it holds back is told later as it is
then. A resolve passes silences, for who was told of the beginning must hear of the end.
"""

from __future__ import annotations

from enum import StrEnum

from actors.channel_knobs import Quiet, RateLimit
from actors.messages import AlertState, Frozen, Severity
from actors.notifier.alert import RANK, Alert
from actors.notifier.mute import quiet_for_s

__all__ = ["CHANNEL", "HELD", "Facts", "Routed", "Rule", "Told", "Why", "agrees", "judge"]


class Why(StrEnum):
    """Why a channel gets a message or not; recorded with every delivery."""

    ADMITTED = "admitted"
    KNOWN = "known"
    DISABLED = "disabled"
    ABOUT_ITSELF = "about_itself"
    BELOW_MIN_SEVERITY = "below_min_severity"
    SOURCE_NOT_WANTED = "source_not_wanted"
    NOT_TOLD = "not_told"
    RESOLVE_MESSAGES_OFF = "resolve_messages_off"
    ACKNOWLEDGED = "acknowledged"
    INHIBITED = "inhibited"
    SILENCED = "silenced"
    FLAPPING = "flapping"
    QUIET_HOURS = "quiet_hours"
    RATE_LIMITED = "rate_limited"
    IN_DIGEST = "in_digest"
    SUPERSEDED = "superseded"


CHANNEL = "channel"  # source of alerts about channels, and the beginning of their keys
HELD = frozenset({Why.INHIBITED, Why.SILENCED, Why.FLAPPING, Why.QUIET_HOURS, Why.RATE_LIMITED})


class Rule(Frozen):
    """What routing knows of a channel.

    ``lifecycle``: it can end a message it sent, so it always gets the resolve; ``silent_close``: nobody hears that.
    ``acknowledges``: it can be told that somebody has taken an alert on.
    """

    channel: str
    enabled: bool = True
    min_severity: Severity = Severity.WARNING
    resolve_messages: bool = True
    lifecycle: bool = False
    silent_close: bool = False
    acknowledges: bool = False
    sources: tuple[str, ...] = ()
    quiet: Quiet | None = None
    rate_limit: RateLimit = RateLimit()


class Told(Frozen):
    """The last message that a channel got about a key; ``change`` is that of the alert it was about."""

    state: AlertState
    severity: Severity
    change: int

    @property
    def is_open(self) -> bool:
        return self.state is not AlertState.RESOLVE and self.severity is not Severity.INFO


class Facts(Frozen):
    """What is known at this moment beside alert and channel; None is "not so"."""

    wall: float = 0.0
    acknowledged: Severity | None = None
    inhibited: bool = False
    silenced_for_s: float | None = None
    flapping_for_s: float | None = None
    budget_in_s: float = 0.0


class Routed(Frozen):
    """The decision for one channel. ``action`` is what it is told; ``again_s`` when to ask again, None for no time."""

    channel: str
    why: Why
    action: AlertState
    again_s: float | None = None

    @property
    def admitted(self) -> bool:
        return self.why is Why.ADMITTED


def judge(alert: Alert, rule: Rule, told: Told | None, facts: Facts) -> Routed:
    """Decide what one channel gets now."""
    unwanted = _why_unwanted(alert, rule)
    if unwanted is None:
        action = AlertState.ESCALATE if told is not None and told.is_open else AlertState.TRIGGER
        why, again_s = _why_not_open(alert, rule, told, facts)
    else:
        action = AlertState.RESOLVE if told is not None and told.is_open else alert.state
        why, again_s = _why_not_close(unwanted, rule, told, facts)
    return Routed(channel=rule.channel, why=why or Why.ADMITTED, action=action, again_s=again_s)


def agrees(alert: Alert, rule: Rule, told: Told | None) -> bool:
    """Tell whether the channel's last message says what is the case."""
    if _why_unwanted(alert, rule) is not None:
        return told is None or not told.is_open
    return told is not None and _same(alert, told)


def _same(alert: Alert, told: Told) -> bool:
    """An alert that closed and opened again unheard is, to who was told, still the same."""
    if told.change == alert.change and told.state is not AlertState.RESOLVE:
        return told.severity is alert.severity
    return told.is_open and told.severity is alert.severity and alert.state is AlertState.TRIGGER


Answer = tuple[Why | None, float | None]


def _why_unwanted(alert: Alert, rule: Rule) -> Why | None:
    if alert.state is AlertState.RESOLVE:
        return Why.NOT_TOLD
    if alert.key == f"{CHANNEL}:{rule.channel}":
        return Why.ABOUT_ITSELF
    if rule.sources and alert.source not in rule.sources:
        return Why.SOURCE_NOT_WANTED
    if RANK[alert.severity] < RANK[rule.min_severity]:
        return Why.BELOW_MIN_SEVERITY
    return None


def _why_not_open(alert: Alert, rule: Rule, told: Told | None, facts: Facts) -> Answer:
    critical = alert.severity is Severity.CRITICAL
    if not rule.enabled:
        return Why.DISABLED, None
    if told is not None and _same(alert, told):
        return Why.KNOWN, None
    if facts.acknowledged is not None and RANK[alert.severity] <= RANK[facts.acknowledged]:
        return Why.ACKNOWLEDGED, None
    if facts.inhibited and not critical:
        return Why.INHIBITED, None
    if facts.silenced_for_s is not None:
        return Why.SILENCED, facts.silenced_for_s
    if facts.flapping_for_s is not None and not critical:
        return Why.FLAPPING, facts.flapping_for_s
    quiet_s = quiet_for_s(rule.quiet, facts.wall)
    if quiet_s is not None and not (critical and rule.quiet is not None and rule.quiet.critical_passes):
        return Why.QUIET_HOURS, quiet_s
    if facts.budget_in_s > 0 and not critical:
        return Why.RATE_LIMITED, facts.budget_in_s
    return None, None


def _why_not_close(unwanted: Why, rule: Rule, told: Told | None, facts: Facts) -> Answer:
    """A resolve is judged by who knows of the alert: nobody hears of an end without a beginning."""
    if not rule.enabled:
        return Why.DISABLED, None
    if told is None or not told.is_open:
        return unwanted, None
    if not (rule.resolve_messages or rule.lifecycle):
        return Why.RESOLVE_MESSAGES_OFF, None
    if facts.flapping_for_s is not None:
        return Why.FLAPPING, facts.flapping_for_s
    if rule.silent_close:
        return None, None
    quiet_s = quiet_for_s(rule.quiet, facts.wall)
    if quiet_s is not None:
        return Why.QUIET_HOURS, quiet_s
    if facts.budget_in_s > 0:
        return Why.RATE_LIMITED, facts.budget_in_s
    return None, None
