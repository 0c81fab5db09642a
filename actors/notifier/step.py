"""The notifier's decisions: fold an alert event and route it, look at a key again, sum up what was held back. Pure.

``decide``, ``review`` and ``digest`` change nothing but missing budgets; ``reserve`` takes the messages of a decision
out of the budgets at once, since many decisions are on their way to the store at a time; ``apply`` makes a decision the
state after its commit. A decision whose commit fails is thrown away and made again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from actors.messages import AlertEffect, AlertState, Frozen, Severity
from actors.notifier.alert import RANK, Alert, Outcome, fold
from actors.notifier.memory import Held, NotifierState
from actors.notifier.mute import Moment, silenced_for_s
from actors.notifier.route import HELD, Facts, Routed, Rule, Told, Why, judge

__all__ = ["DIGEST", "Decision", "Digest", "apply", "apply_digest", "decide", "digest", "hold", "reserve", "review"]
__all__ += ["acknowledge", "why_skip"]

DIGEST = "digest"
_LISTED = 20
_SETTLED = (Why.ADMITTED, Why.IN_DIGEST)


class Decision(Frozen):
    """What one event means. ``routed`` is empty unless the outcome is a transition or a review."""

    outcome: Outcome
    effect_id: int
    alert: Alert
    routed: list[Routed] = []

    @property
    def admits(self) -> bool:
        return any(routed.admitted for routed in self.routed)


class Digest(Frozen):
    """One message instead of many: ``alert`` is what the channel gets, ``parts`` what it stands for."""

    channel: str
    alert: Alert
    parts: list[tuple[Alert, AlertState]]


def decide(state: NotifierState, effect_id: int, effect: AlertEffect, rules: Sequence[Rule], now: Moment) -> Decision:
    """Fold ``effect`` and route the transition, if it is one."""
    alert, outcome = fold(state.alert(effect.key), effect_id, effect)
    routed = _route(state, alert, rules, now, opening=outcome is Outcome.OPENED) if outcome.is_transition else []
    return Decision(outcome=outcome, effect_id=effect_id, alert=alert, routed=routed)


def review(state: NotifierState, key: str, rules: Sequence[Rule], now: Moment) -> Decision | None:
    """Judge a key again for all channels; None when nothing is known of it."""
    alert = state.alert(key)
    if alert is None:
        return None
    routed = _route(state, alert, rules, now)
    return Decision(outcome=Outcome.REVIEWED, effect_id=alert.last_effect, alert=alert, routed=routed)


def reserve(state: NotifierState, routed: Iterable[Routed], rules: Iterable[Rule], now: Moment) -> None:
    """Take the admitted messages out of the budgets of their channels."""
    admitted = {one.channel for one in routed if one.admitted}
    for rule in rules:
        if rule.channel in admitted:
            state.bucket(rule, now).take(now.mono)


def apply(state: NotifierState, decision: Decision, now: Moment) -> None:
    """Make ``decision`` the state; call it once the decision is durable."""
    alert = decision.alert
    before = state.alert(alert.key)
    if before is not None and before.last_effect > alert.last_effect:
        return  # a review that was overtaken
    state.hold(alert)
    if decision.outcome.is_transition:
        _note_change(state, decision, now)
    if not (decision.outcome.is_transition or decision.outcome is Outcome.REVIEWED):
        return
    for routed in decision.routed:
        if routed.admitted:
            _tell(state, alert, routed.channel, routed.action)
        elif routed.why is Why.RESOLVE_MESSAGES_OFF:
            state.told.get(alert.key, {}).pop(routed.channel, None)
    hold(state, decision, now)


def hold(state: NotifierState, decision: Decision, now: Moment) -> None:
    """Remember what is held back and when to look again."""
    held = {
        routed.channel: Held(why=routed.why, due=None if routed.again_s is None else now.mono + routed.again_s)
        for routed in decision.routed
        if routed.why in HELD
    }
    if held:
        state.held[decision.alert.key] = held
    else:
        state.held.pop(decision.alert.key, None)


def acknowledge(state: NotifierState, key: str) -> Alert | None:
    """Somebody has taken the open alert ``key`` on: return it as the message that says so, None when none is open."""
    alert = state.open.get(key)
    if alert is None:
        return None
    state.acknowledged[key] = alert.severity
    return alert.model_copy(update={"state": AlertState.ACKNOWLEDGE})


def digest(state: NotifierState, rule: Rule, now: Moment, busy: Container[str] = ()) -> Digest | None:
    """Sum up what the budget of ``rule`` held back, if there is room for a message and two or more are waiting.

    ``busy`` keys are left out: a decision about them is on its way.
    """
    if not (rule.enabled and rule.rate_limit.digest) or state.bucket(rule, now).wait_s(now.mono) > 0:
        return None
    parts: list[tuple[Alert, AlertState]] = []
    for key, held in state.held.items():
        one = held.get(rule.channel)
        alert = state.alert(key)
        if one is None or one.why is not Why.RATE_LIMITED or alert is None or key in busy:
            continue
        routed = judge(alert, rule, state.told.get(key, {}).get(rule.channel), _facts(state, alert, rule, now))
        if routed.admitted:
            parts.append((alert, routed.action))
    if len(parts) < 2:
        return None
    return Digest(channel=rule.channel, alert=_summed_up(rule.channel, parts, now), parts=parts)


def apply_digest(state: NotifierState, made: Digest) -> None:
    """The channel has been told of all parts; call it once the digest is durable."""
    for alert, action in made.parts:
        current = state.alert(alert.key)
        if current is None or current.change != alert.change:
            continue  # it changed meanwhile and was judged anew
        _tell(state, alert, made.channel, action)
        held = state.held.get(alert.key, {})
        held.pop(made.channel, None)
        if not held:
            state.held.pop(alert.key, None)


def why_skip(told: bool, closes: bool, newer_waits: bool, backlogged: bool, enabled: bool) -> Why | None:
    """Say why a queued message need not go out any more, or None to send it.

    ``told``: the channel really shows this alert as open. ``newer_waits``: a later message about the key is queued;
    it replaces this one only under a backlog, so that a storm stays bounded and a quiet day stays complete.
    """
    if not enabled:
        return Why.DISABLED
    if backlogged and newer_waits:
        return Why.SUPERSEDED
    if closes and not told:
        return Why.NOT_TOLD
    return None


def _route(
    state: NotifierState, alert: Alert, rules: Sequence[Rule], now: Moment, *, opening: bool = False
) -> list[Routed]:
    told = state.told.get(alert.key, {})
    return [judge(alert, rule, told.get(rule.channel), _facts(state, alert, rule, now, opening)) for rule in rules]


def _facts(state: NotifierState, alert: Alert, rule: Rule, now: Moment, opening: bool = False) -> Facts:
    acknowledged = None if opening or not alert.is_open else state.acknowledged.get(alert.key)
    return Facts(
        wall=now.wall,
        acknowledged=acknowledged,
        inhibited=state.inhibited(alert),
        silenced_for_s=silenced_for_s(alert, state.live_silences(now.wall), now.wall),
        flapping_for_s=state.flapping_for_s(alert.key, now.mono),
        budget_in_s=state.bucket(rule, now).wait_s(now.mono),
    )


def _note_change(state: NotifierState, decision: Decision, now: Moment) -> None:
    key = decision.alert.key
    state.changed[key] = now.mono
    if decision.outcome is Outcome.OPENED:
        state.opened(key, now.mono)
    if decision.outcome in (Outcome.OPENED, Outcome.RESOLVED):
        state.acknowledged.pop(key, None)


def _tell(state: NotifierState, alert: Alert, channel: str, action: AlertState) -> None:
    told = Told(state=action, severity=alert.severity, change=alert.change)
    state.told.setdefault(alert.key, {})[channel] = told


def _summed_up(channel: str, parts: list[tuple[Alert, AlertState]], now: Moment) -> Alert:
    closed = sum(action is AlertState.RESOLVE for _, action in parts)
    worst = max((alert.severity for alert, _ in parts), key=RANK.__getitem__)
    lines = [f"{action.value}: {alert.title} ({alert.key})" for alert, action in parts[:_LISTED]]
    more = [f"and {len(parts) - _LISTED} more"] if len(parts) > _LISTED else []
    return Alert(
        key=f"{DIGEST}:{channel}",
        severity=worst if closed < len(parts) else Severity.INFO,
        state=AlertState.TRIGGER,
        title=f"{len(parts)} alerts held back: {len(parts) - closed} open, {closed} resolved",
        summary="; ".join([*lines, *more]),
        source=DIGEST,
        opened_at=now.wall,
        changed_at=now.wall,
        last_effect=0,
    )
