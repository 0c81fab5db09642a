"""The same scenario in our words, and our answers in OTP's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from supervisor import requests
from supervisor.requests import Answer, Counts, Done, Listed, No, Refusal, Request
from supervisor.spec import AutoShutdown, ChildSpec, ChildType, Restart, Strategy, SupervisorSpec
from tests.conformance.generate import Child, Scenario, Sup

__all__ = ["answer", "counts", "failure", "request", "rows", "shown", "supervisor", "supervisors_of"]

STRATEGIES = {"simple_one_for_one": Strategy.DYNAMIC}

TRAITS = ("manner", "fail_first", "fail_again", "ignore", "hold")

Labels = Callable[[int], str]


def supervisor(sup: Sup) -> SupervisorSpec:
    """Return the spec of a supervisor: plain OTP, nothing of ours switched on."""
    return SupervisorSpec(
        id=sup.id,
        strategy=STRATEGIES.get(sup.strategy) or Strategy(sup.strategy),
        intensity=sup.intensity,
        period_s=float(sup.period),
        children=tuple(child(each) for each in sup.children),
        auto_shutdown=AutoShutdown(sup.auto),
    )


def child(each: Child) -> ChildSpec:
    """Return the spec of a child."""
    nested = supervisor(each.kind) if each.kind is not None else None
    return ChildSpec(
        id=each.id,
        start="" if nested else "tests.conformance.worker:main",
        args={"traits": {name: getattr(each, name) for name in TRAITS}},
        restart=Restart(each.restart),
        shutdown=each.shutdown,  # type: ignore[arg-type]
        type=ChildType.SUPERVISOR if nested else ChildType.WORKER,
        significant=each.significant,
        nested=nested,
    )


def supervisors_of(scenario: Scenario) -> Iterator[Sup]:
    """Yield every supervisor that may ever exist."""
    yield from _below(scenario.root)
    for event in scenario.events:
        what = event[2][1] if event[0] == "call" and len(event[2]) > 1 else None
        if isinstance(what, Child) and what.kind is not None:
            yield from _below(what.kind)
        elif isinstance(what, Sup):
            yield from _below(what)


def _below(sup: Sup) -> Iterator[Sup]:
    yield sup
    for each in sup.children:
        if each.kind is not None:
            yield from _below(each.kind)


def shown(key: Any) -> str:
    """Return how a child is called in a label."""
    return key if isinstance(key, str) else f"{key[0]}#{key[1]}"


def request(asked: tuple[Any, ...], instances: dict[Any, tuple[str, int]]) -> Request | None:
    """Return a request in our words; None when it names a dynamic child that never came to life."""
    kind = asked[0]
    what = asked[1] if len(asked) > 1 else None
    if kind == "start_child":
        assert isinstance(what, Child)
        return requests.StartChild(child(what))
    if kind == "update":
        assert isinstance(what, Sup)
        return requests.Update(supervisor(what))
    if kind == "start_dynamic":
        return requests.StartDynamic({"k": what})
    if kind in ("which_children", "count_children"):
        return requests.WhichChildren() if kind == "which_children" else requests.CountChildren()
    if isinstance(what, str):
        return _BY_ID[kind](what)
    return requests.TerminateChild(*instances[what]) if what in instances else None


_BY_ID: dict[str, Callable[[str], Request]] = {
    "terminate_child": requests.TerminateChild,
    "restart_child": requests.RestartChild,
    "delete_child": requests.DeleteChild,
}


def answer(asked: tuple[Any, ...], given: Answer, label: Labels, *, dynamic: bool) -> str:
    """Return our answer as the Erlang side prints OTP's."""
    if isinstance(given, Listed):
        return rows(given, label, dynamic=dynamic)
    if isinstance(given, Counts):
        return counts(given, active=not dynamic)
    if isinstance(given, Done):
        return _done(asked, given, label)
    assert isinstance(given, No)
    if given.refusal is Refusal.GONE:
        return "gone"
    if given.refusal is Refusal.ALREADY_STARTED:
        return f"error already_started {label(int(given.detail.removeprefix('run ')))}"
    return f"error {given.refusal}" + (f" {failure(given.detail)}" if given.refusal is Refusal.START_FAILED else "")


def _done(asked: tuple[Any, ...], given: Done, label: Labels) -> str:
    if given.run:
        return f"ok {label(given.run)}"
    return "ok ignored" if asked[0] in ("start_child", "start_dynamic", "restart_child") else "ok"


def failure(reason: str) -> str:
    """Return the reason of a failed start: which children it went through, and boom."""
    head, _, rest = reason.partition(": ")
    return f"{head}: {failure(rest)}" if head.startswith("failed to start child ") else "boom"


def rows(given: Listed, label: Labels, *, dynamic: bool) -> str:
    """Print which_children; OTP lists the children of a dynamic supervisor in no order and without ids."""
    texts = []
    for row in given.children:
        if row.run:
            texts.append(f"{label(row.run)}/{row.type}")
        elif dynamic:
            texts.append(f"restarting/{row.type}")
        else:
            texts.append(f"{row.id}={'restarting' if row.restarting else 'undefined'}/{row.type}")
    return " ".join(sorted(texts) if dynamic else texts)


def counts(given: Counts, *, active: bool = True) -> str:
    """Print count_children; why not always ``active`` is told in otp/conformance.erl."""
    now = f" active={given.active}" if active else ""
    return f"specs={given.specs}{now} supervisors={given.supervisors} workers={given.workers}"
