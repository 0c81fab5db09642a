"""Whatever happens, in whatever order, each channel's last message about a key agrees with the key's state.

The driver below does what the actor does: decide, reserve, apply, review what is due, send digests. It keeps its own
record of what each channel was sent, and the checks look at that record alone.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.channel_knobs import Quiet, RateLimit
from actors.messages import AlertEffect, AlertState, Severity
from actors.notifier.alert import RANK, Alert
from actors.notifier.memory import Flapping, NotifierState
from actors.notifier.mute import Moment, Silence
from actors.notifier.route import Rule, Why
from actors.notifier.step import acknowledge, apply, apply_digest, decide, digest, hold, reserve, review

KEYS = ("root", "child", "other")
NIGHT = Quiet(start="22:00", end="07:00", zone="Europe/Berlin")
WIDE = RateLimit(burst=1000, every_s=0.1)
RULES = (
    Rule(channel="all", min_severity=Severity.INFO, lifecycle=True, rate_limit=WIDE),
    Rule(channel="night", quiet=NIGHT, rate_limit=WIDE),
    Rule(channel="strict", quiet=NIGHT.model_copy(update={"critical_passes": False}), rate_limit=WIDE),
    Rule(channel="few", rate_limit=RateLimit(burst=2, every_s=60)),
    Rule(channel="drip", rate_limit=RateLimit(burst=1, every_s=60, digest=False)),
    Rule(
        channel="pager",
        min_severity=Severity.CRITICAL,
        resolve_messages=False,
        lifecycle=True,
        silent_close=True,
        quiet=NIGHT,
    ),
    Rule(channel="mute", resolve_messages=False, rate_limit=WIDE),
    Rule(channel="picky", sources=("no-progress",), rate_limit=WIDE),
    Rule(channel="off", enabled=False),
)
NOON = datetime(2026, 3, 28, 11, tzinfo=UTC).timestamp()  # the night that follows is the one that loses an hour
DAY = 86_400.0


class World:
    """Both clocks, the state, and what every channel got: (action, severity, title) by channel and key."""

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self.state = NotifierState(flapping=Flapping(changes=3, window_s=900, settle_s=120))
        self.rules = rules
        self.now = Moment(NOON, 1000.0)
        self.sent: dict[tuple[str, str], list[tuple[AlertState, Severity, int]]] = {}
        self.messages: dict[str, int] = {}
        self.digests: list[Alert] = []
        self._effect = 0

    def pass_time(self, seconds: float, jump: float = 0.0) -> None:
        self.now = Moment(self.now.wall + seconds + jump, self.now.mono + seconds)
        self.look(self.state.due(self.now))

    def raise_alert(self, key: str, state: AlertState, severity: Severity, source: str, title: str) -> None:
        self._effect += 1
        details = {"tree": "root"} if key == "child" else {}
        effect = AlertEffect(
            key=key, state=state, severity=severity, title=title, summary="s", source=source, details=details, t=1.0
        )
        decision = decide(self.state, self._effect, effect, self.rules, self.now)
        self._take(decision)
        if decision.outcome.is_transition:
            self.look(sorted(self.state.groups.get(key, ())))

    def look(self, keys: list[str]) -> None:
        for rule in self.rules:
            made = digest(self.state, rule, self.now)
            if made is not None:
                self.state.bucket(rule, self.now).take(self.now.mono)
                self.digests.append(made.alert)
                self.messages[rule.channel] = self.messages.get(rule.channel, 0) + 1
                for alert, action in made.parts:
                    self._sent(rule.channel, alert, action)
                apply_digest(self.state, made)
        for key in keys:
            decision = review(self.state, key, self.rules, self.now)
            if decision is not None and decision.admits:
                self._take(decision)
            elif decision is not None:
                hold(self.state, decision, self.now)

    def silence(self, **what: object) -> None:
        number = len(self.state.silences) + 1
        self.state.silences[number] = Silence.model_validate({"id": number, **what})

    def end_silences(self) -> None:
        self.state.silences.clear()
        self.look(list(self.state.held))

    def _take(self, decision: object) -> None:
        reserve(self.state, decision.routed, self.rules, self.now)  # type: ignore[attr-defined]
        apply(self.state, decision, self.now)  # type: ignore[arg-type]
        for routed in decision.routed:  # type: ignore[attr-defined]
            if routed.admitted:
                self.messages[routed.channel] = self.messages.get(routed.channel, 0) + 1
                self._sent(routed.channel, decision.alert, routed.action)  # type: ignore[attr-defined]

    def _sent(self, channel: str, alert: Alert, action: AlertState) -> None:
        self.sent.setdefault((channel, alert.key), []).append((action, alert.severity, alert.change))

    # what must hold

    def disagreements(self) -> list[tuple[str, str]]:
        return [(rule.channel, key) for rule in self.rules for key in KEYS if not self._agree(rule, key)]

    def _agree(self, rule: Rule, key: str) -> bool:
        alert, messages = self.state.alert(key), self.sent.get((rule.channel, key), [])
        if not rule.enabled:
            return messages == []
        last_open = bool(messages) and messages[-1][0] is not AlertState.RESOLVE
        if alert is not None and alert.state is not AlertState.RESOLVE and alert.severity is Severity.INFO:
            wanted = rule.min_severity is Severity.INFO and rule.sources in ((), (alert.source,))
            return not wanted or messages[-1:] == [(AlertState.TRIGGER, alert.severity, alert.change)] or last_open
        relevant = (
            alert is not None
            and alert.is_open
            and RANK[alert.severity] >= RANK[rule.min_severity]
            and rule.sources in ((), (alert.source,))
        )
        if relevant and alert is not None:
            acknowledged = self.state.acknowledged.get(key)
            if acknowledged is not None and RANK[acknowledged] >= RANK[alert.severity]:
                return True
            return last_open and messages[-1][1] is alert.severity
        return not last_open or messages[-1][1] is Severity.INFO or not (rule.resolve_messages or rule.lifecycle)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("raise"),
            st.sampled_from(KEYS),
            st.sampled_from([AlertState.TRIGGER, AlertState.ESCALATE, AlertState.RESOLVE]),
            st.sampled_from(Severity),
            st.sampled_from(["no-progress", "model"]),
            st.sampled_from(["one", "two"]),
        ),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 20.0, 61.0, 130.0, 4000.0, 30_000.0])),
        st.tuples(st.just("jump"), st.sampled_from([-DAY, -7200.0, -5.0, 5.0, 7200.0, 40_000.0, DAY])),
        st.tuples(
            st.just("silence"),
            st.sampled_from([None, *KEYS]),
            st.sampled_from([None, "model"]),
            st.sampled_from(Severity),
            st.sampled_from([30.0, 3000.0]),
        ),
        st.tuples(st.just("unsilence")),
        st.tuples(st.just("acknowledge"), st.sampled_from(KEYS)),
    ),
    max_size=40,
)


def play(script: list[tuple]) -> World:  # type: ignore[type-arg]
    world = World()
    for name, *arguments in script:
        if name == "raise":
            world.raise_alert(*arguments)
        elif name == "wait":
            world.pass_time(*arguments)
        elif name == "jump":
            world.pass_time(0.0, *arguments)
        elif name == "silence":
            key, source, severity, length = arguments
            world.silence(key=key, source=source, severity=severity, until=world.now.wall + length)
        elif name == "acknowledge":
            acknowledge(world.state, *arguments)
        else:
            world.end_silences()
    return world


@given(steps)
@settings(max_examples=400, deadline=None)
def test_channels_agree_with_keys_or_say_why_not_yet(script: list[tuple]) -> None:  # type: ignore[type-arg]
    world = play(script)
    world.pass_time(0.0)
    for channel, key in world.disagreements():
        held = world.state.held[key][channel]
        assert held.why is Why.INHIBITED or (held.due is not None and held.due > world.now.mono)


@given(steps)
@settings(max_examples=400, deadline=None)
def test_channels_agree_with_keys_once_everything_that_mutes_is_over(script: list[tuple]) -> None:  # type: ignore[type-arg]
    world = play(script)
    world.end_silences()
    world.raise_alert("root", AlertState.RESOLVE, Severity.INFO, "no-progress", "over")
    world.pass_time(0.0, NOON + 20 * DAY - world.now.wall)
    for _ in range(60):
        world.pass_time(61.0)
    assert world.disagreements() == []
    assert world.state.held == {}


@given(steps)
@settings(max_examples=200, deadline=None)
def test_no_channel_hears_of_an_end_without_a_beginning(script: list[tuple]) -> None:  # type: ignore[type-arg]
    for messages in play(script).sent.values():
        before = AlertState.RESOLVE
        for action, _, _ in messages:
            assert not (action is AlertState.RESOLVE and before is AlertState.RESOLVE)
            before = action


def trigger(world: World, key: str, severity: Severity = Severity.WARNING) -> None:
    world.raise_alert(key, AlertState.TRIGGER, severity, "no-progress", "one")


def resolve(world: World, key: str) -> None:
    world.raise_alert(key, AlertState.RESOLVE, Severity.INFO, "no-progress", "over")


def test_silence_that_ends_tells_at_once() -> None:
    world = World()
    world.silence(key="other", until=NOON + 100)
    trigger(world, "other")
    assert world.sent == {}
    world.pass_time(99)
    assert world.sent == {}
    world.pass_time(1)
    assert [action for action, _, _ in world.sent["all", "other"]] == [AlertState.TRIGGER]


def test_silence_whose_alert_is_over_meanwhile_tells_nothing() -> None:
    world = World()
    world.silence(key="other", until=NOON + 100)
    trigger(world, "other")
    resolve(world, "other")
    world.pass_time(200)
    assert world.sent == {}


def test_quiet_hours_end_at_seven_local_time_across_the_change_of_clocks() -> None:
    world = World()
    world.pass_time(12 * 3600)  # midnight in Berlin; at two it will be three
    trigger(world, "other")
    assert ("night", "other") not in world.sent
    seven = datetime(2026, 3, 29, 5, tzinfo=UTC).timestamp()
    world.pass_time(seven - world.now.wall - 1)
    assert ("night", "other") not in world.sent
    world.pass_time(1)
    assert ("night", "other") in world.sent


def test_quiet_hours_critical_passes_only_where_it_may() -> None:
    world = World()
    world.pass_time(12 * 3600)
    trigger(world, "other", Severity.CRITICAL)
    assert ("night", "other") in world.sent
    assert ("strict", "other") not in world.sent


def test_root_that_is_critical_mutes_the_warnings_of_its_children() -> None:
    world = World()
    trigger(world, "root", Severity.CRITICAL)
    trigger(world, "child")
    assert ("all", "child") not in world.sent
    resolve(world, "root")
    assert ("all", "child") in world.sent


def test_flapping_alert_is_told_a_bounded_number_of_times_and_rightly_at_last() -> None:
    world = World()
    for _ in range(500):
        trigger(world, "other")
        world.pass_time(1)
        resolve(world, "other")
        world.pass_time(1)
    assert len(world.sent["all", "other"]) <= 7
    world.pass_time(200)
    assert world.sent["all", "other"][-1][0] is AlertState.RESOLVE


def test_flapping_critical_alert_is_never_held_back() -> None:
    world = World()
    for _ in range(50):
        trigger(world, "other", Severity.CRITICAL)
        assert world.sent["pager", "other"][-1][0] is not AlertState.RESOLVE
        resolve(world, "other")
        world.pass_time(1)
    assert len(world.sent["pager", "other"]) <= 7


def test_storm_is_a_few_messages_and_a_digest_and_every_critical_one() -> None:
    world = World((Rule(channel="few", rate_limit=RateLimit(burst=5, every_s=60)),))
    for number in range(1000):
        trigger(world, f"k{number}", Severity.CRITICAL if number % 100 == 0 else Severity.WARNING)
    criticals = [key for (_, key), sent in world.sent.items() if sent[-1][1] is Severity.CRITICAL]
    assert len(criticals) == 10
    assert world.messages["few"] <= 5 + 10
    for _ in range(20):
        world.pass_time(60)
    assert len(world.digests) == 1
    assert "alerts held back" in world.digests[0].title
    assert len(world.sent) == 1000
    assert world.state.held == {}


def test_acknowledged_alert_is_told_again_only_when_it_gets_worse() -> None:
    world = World()
    trigger(world, "other")
    said = acknowledge(world.state, "other")
    assert said is not None
    assert said.state is AlertState.ACKNOWLEDGE
    world.raise_alert("other", AlertState.ESCALATE, Severity.WARNING, "no-progress", "two")
    assert len(world.sent["all", "other"]) == 1
    world.raise_alert("other", AlertState.ESCALATE, Severity.CRITICAL, "no-progress", "three")
    assert len(world.sent["all", "other"]) == 2
