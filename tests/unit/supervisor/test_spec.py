from __future__ import annotations

from typing import Any

import pytest

from supervisor.plan import parse
from supervisor.spec import Backoff, ChildSpec, Restart, SpecError, SupervisorSpec

WORKER = {"id": "a", "start": "m:f"}


def plan(**changes: Any) -> dict[str, Any]:
    return {"supervisor": {"children": [WORKER]}, "runtime_dir": "/r", "state_dir": "/s"} | changes


def child(**changes: Any) -> dict[str, Any]:
    return plan(supervisor={"children": [WORKER | changes]})


BAD_PLANS = {
    "unknown key": (plan(colour="red"), "plan: unknown key 'colour'; allowed: banner, essential, give_up_s, listen"),
    "missing key": ({"supervisor": {"children": []}, "runtime_dir": "/r"}, "plan: key 'state_dir' is missing"),
    "relative directory": (plan(runtime_dir="r"), "runtime_dir is 'r'; allowed: an absolute path"),
    "no object": (plan(settings=[]), "settings is []; allowed: an object"),
    "restart": (child(restart="often"), "a: restart is 'often'; allowed: permanent, transient, temporary"),
    "shutdown": (child(shutdown=-1), "a: shutdown is -1; allowed: milliseconds from 0, brutal_kill, infinity"),
    "shutdown bool": (child(shutdown=True), "a: shutdown is True; allowed: milliseconds from 0, brutal_kill, infinity"),
    "id": (child(id="a/b"), "child id is 'a/b'; allowed: letters, digits, - and _"),
    "start": (child(start=""), "a: start is ''; allowed: module:function"),
    "ready timeout": (child(ready_timeout_s="1"), "a: ready_timeout_s is '1'; allowed: a number from 0"),
    "significant": (
        child(significant=True),
        "a: significant is True; allowed: only with restart",
    ),
    "nested id": (
        child(nested={"id": "b", "children": []}),
        "a: nested.id is 'b'; allowed: 'a', the child's id",
    ),
    "worker with children": (
        child(type="worker", nested={"children": []}),
        "a: type is 'worker'; allowed: supervisor with children, worker without",
    ),
    "twice": (
        plan(supervisor={"children": [WORKER, WORKER]}),
        "root: child id 'a' is used twice; allowed: once in the whole tree",
    ),
    "intensity": (
        plan(supervisor={"children": [], "intensity": -1}),
        "root: intensity is -1; allowed: an integer from 0",
    ),
    "period": (plan(supervisor={"children": [], "period_s": 0}), "root: period_s is 0; allowed: a number above 0"),
    "strategy": (
        plan(supervisor={"children": [], "strategy": "none"}),
        "root: strategy is 'none'; allowed: one_for_one",
    ),
    "auto_shutdown": (
        plan(supervisor={"children": [], "auto_shutdown": "some"}),
        "root: auto_shutdown is 'some'; allowed: never, any_significant, all_significant",
    ),
    "significant without auto_shutdown": (
        child(significant=True, restart="transient"),
        "a: significant is True; allowed: only with auto_shutdown any_significant or all_significant",
    ),
    "dynamic without template": (
        plan(supervisor={"children": [], "strategy": "dynamic"}),
        "root: children are 0; allowed: 1 with dynamic, the template",
    ),
    "max_children": (
        plan(supervisor={"children": [WORKER], "strategy": "dynamic", "max_children": -1}),
        "root: max_children is -1; allowed: an integer from 0",
    ),
    "max_children without dynamic": (
        plan(supervisor={"children": [WORKER], "max_children": 1}),
        "root: max_children is 1; allowed: only with strategy dynamic",
    ),
    "eager": (plan(supervisor={"children": [], "eager": "yes"}), "root: eager is 'yes'; allowed: true, false"),
    "immortal child": (
        child(shutdown=6000),
        "a: shutdown is 6000; allowed: below 6000 ms, which is 1000 * period_s / intensity of root",
    ),
    "listen for": (plan(listen=[{"name": "x", "for": ["b"]}]), "listen x: for is 'b'; allowed: a"),
    "listen kind": (
        plan(listen=[{"name": "x", "for": [], "kind": "udp"}]),
        "listen x: kind is 'udp'; allowed: tcp",
    ),
    "listen port": (plan(listen=[{"name": "x", "for": [], "port": 70000}]), "listen x: port is 70000; allowed: 0 "),
    "listen path": (plan(listen=[{"name": "x", "for": [], "kind": "unix"}]), "listen x: path is ''; allowed: a path"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_plan_with_bad_field_names_field_value_and_allowed_set(name: str) -> None:
    data, sentence = BAD_PLANS[name]
    with pytest.raises(SpecError) as caught:
        parse(data)
    assert str(caught.value).startswith(sentence)


def test_plain_supervisor_takes_any_budget_as_otp_does() -> None:
    spec = SupervisorSpec(children=(ChildSpec("a", "m:f", shutdown=60_000),), intensity=5, period_s=1)
    assert spec.extended is False


def test_plan_with_nested_supervisor_is_a_supervisor_child_that_stops_without_limit() -> None:
    found = parse(plan(supervisor={"children": [{"id": "forest", "nested": {"children": [WORKER]}}]}))
    forest = found.supervisor.children[0]
    assert (forest.type, forest.shutdown, [w.id for w in found.supervisor.workers()]) == (
        "supervisor",
        "infinity",
        ["a"],
    )


@pytest.mark.parametrize(
    ("restart", "normal", "wanted"),
    [
        (Restart.PERMANENT, True, True),
        (Restart.PERMANENT, False, True),
        (Restart.TRANSIENT, True, False),
        (Restart.TRANSIENT, False, True),
        (Restart.TEMPORARY, True, False),
        (Restart.TEMPORARY, False, False),
    ],
)
def test_restart_type_after_exit_decides(restart: Restart, normal: bool, wanted: bool) -> None:
    assert restart.wants(normal=normal) is wanted


def test_backoff_first_failure_is_immediate_then_doubles_to_the_cap() -> None:
    backoff = Backoff(base_s=0.1, cap_s=0.5)
    assert [backoff.delay_s(n, 0.0) for n in range(5)] == [0.0, 0.1, 0.2, 0.4, 0.5]


def test_backoff_slow_retry_is_at_most_a_minute_apart() -> None:
    assert [Backoff().slow_delay_s(n, 0.0) for n in (0, 1, 2, 3, 4, 999)] == [5, 10, 20, 40, 60, 60]


def test_backoff_jitter_shortens_by_at_most_its_fraction() -> None:
    assert Backoff(slow_s=8, jitter=0.25).slow_delay_s(0, 1.0) == 6


def test_supervisor_defaults_are_otps() -> None:
    spec, worker = SupervisorSpec(), ChildSpec("a", "m:f")
    assert (spec.strategy, spec.intensity, spec.period_s, spec.on_excess) == ("one_for_one", 1, 5, "escalate")
    assert (worker.restart, worker.shutdown, worker.type, worker.significant) == ("permanent", 5000, "worker", False)
