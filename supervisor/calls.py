"""How a supervisor answers requests: OTP's answers, one function a request. Pure, like the machine that calls it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from supervisor.children import Child
from supervisor.events import Ignored
from supervisor.requests import (
    Answer,
    CountChildren,
    Counts,
    Cycle,
    DeleteChild,
    Done,
    GetChildspec,
    Listed,
    No,
    Refusal,
    Request,
    RestartChild,
    Row,
    Spec,
    StartChild,
    StartDynamic,
    TerminateChild,
    Update,
    WhichChildren,
)
from supervisor.spec import ChildType, Restart, SpecError, Strategy, SupervisorSpec

if TYPE_CHECKING:
    from supervisor.strategy import Supervisor

__all__ = ["answer"]

Work = Generator[Child, None, Answer]


def answer(supervisor: Supervisor, request: Request) -> Work:
    """Work on one request; its answer is the return value."""
    dynamic = supervisor.spec.strategy is Strategy.DYNAMIC
    table = _DYNAMIC if dynamic else _STATIC
    return (yield from table[type(request)](supervisor, request))


def _start_child(supervisor: Supervisor, request: StartChild) -> Work:
    try:
        supervisor.spec.check_child(request.spec)
    except SpecError as error:
        return No(Refusal.INVALID, str(error))
    present = supervisor.table.get(request.spec.id)
    if present is not None:
        known = Refusal.ALREADY_STARTED if present.state.live else Refusal.ALREADY_PRESENT
        return No(known, f"run {present.run}" if present.state.live else "")
    child = supervisor.table.new(request.spec)
    supervisor.table.add(child)  # its events have to find it; a failed one leaves again
    return (yield from _start(supervisor, child, keep=request.spec.restart is not Restart.TEMPORARY))


def _start_dynamic(supervisor: Supervisor, request: StartDynamic) -> Work:
    template, limit = supervisor.table.template, supervisor.spec.max_children
    assert template is not None
    if limit is not None and len(supervisor.table) >= limit:
        return No(Refusal.MAX_CHILDREN, str(limit))
    # The number is a run's: never reused in the whole tree, so an old id never means a new child.
    child = supervisor.table.new(template.instance(next(supervisor.runs), request.args))
    supervisor.table.add(child)
    return (yield from _start(supervisor, child, keep=False))


def _start(supervisor: Supervisor, child: Child, *, keep: bool) -> Work:
    """Start a new child; it leaves the table when it fails, and when it has nothing to do unless ``keep``."""
    failed = yield from supervisor.start(child)
    if failed is not None:
        supervisor.delete(child)
        return No(Refusal.START_FAILED, failed.reason)
    if isinstance(child.end, Ignored):
        if not keep:
            supervisor.delete(child)
        return Done()
    return Done(child.id, child.run)


def _terminate_child(supervisor: Supervisor, request: TerminateChild) -> Work:
    child = supervisor.table.get(request.id)
    if child is None:
        return No(Refusal.NOT_FOUND)
    supervisor.leave(child)
    yield from supervisor.stop(child)
    supervisor.forget(child)
    return Done()


def _terminate_dynamic(supervisor: Supervisor, request: TerminateChild) -> Work:
    template = supervisor.table.template
    assert template is not None
    if request.id == template.id:
        return No(Refusal.DYNAMIC)
    child = supervisor.table.get(request.id)
    gone = child is None and _was_ours(template.id, request.id)
    other = child is not None and request.run not in (None, child.served)
    return Done() if gone or other else (yield from _terminate_child(supervisor, request))


def _was_ours(template: str, name: str) -> bool:
    # OTP answers ok for the pid of a child that is gone.
    head, _, number = name.rpartition("-")
    return head == template and number.isdigit()


def _restart_child(supervisor: Supervisor, request: RestartChild) -> Work:
    child = supervisor.table.get(request.id)
    refusal = _not_stopped(child)
    if child is None or refusal is not None:
        return No(refusal or Refusal.NOT_FOUND)
    failed = yield from supervisor.start(child)
    if failed is not None:
        return No(Refusal.START_FAILED, failed.reason)
    return Done() if isinstance(child.end, Ignored) else Done(child.id, child.run)


def _delete_child(supervisor: Supervisor, request: DeleteChild) -> Work:
    child = supervisor.table.get(request.id)
    refusal = _not_stopped(child)
    if child is None or refusal is not None:
        return No(refusal or Refusal.NOT_FOUND)
    supervisor.delete(child)
    return Done()
    yield


def _not_stopped(child: Child | None) -> Refusal | None:
    if child is None:
        return Refusal.NOT_FOUND
    if child.state.restarting:
        return Refusal.RESTARTING
    return None if child.stopped else Refusal.RUNNING


def _cycle(supervisor: Supervisor, request: Cycle) -> Work:
    child = supervisor.table.get(request.id)
    if child is None:
        return No(Refusal.NOT_FOUND)
    supervisor.leave(child)
    yield from supervisor.stop(child)
    failed = yield from supervisor.start(child)
    if failed is None:
        return Done(child.id, child.run)
    supervisor.try_again(child, failed.reason)
    return No(Refusal.START_FAILED, failed.reason)


def _which_children(supervisor: Supervisor, _request: WhichChildren) -> Work:
    return Listed(tuple(_row(child) for child in reversed(list(supervisor.table))))
    yield


def _row(child: Child) -> Row:
    return Row(child.id, child.run if child.state.live else 0, child.state.restarting, child.spec.type)


def _count_children(supervisor: Supervisor, _request: CountChildren) -> Work:
    children = list(supervisor.table)
    template = supervisor.table.template
    supervisors = sum(child.spec.type is ChildType.SUPERVISOR for child in children)
    workers = len(children) - supervisors
    if template is None:
        return Counts(len(children), sum(child.alive for child in children), supervisors, workers)
    # OTP looks at its books here, not at who is alive.
    return Counts(1, sum(not child.state.restarting for child in children), supervisors, workers)
    yield


def _get_childspec(supervisor: Supervisor, request: GetChildspec) -> Work:
    child = supervisor.table.get(request.id)
    spec = child.spec if child is not None else None
    template = supervisor.table.template
    if spec is None and template is not None and request.id == template.id:
        spec = template
    return Spec(spec) if spec is not None else No(Refusal.NOT_FOUND)
    yield


def _update(supervisor: Supervisor, request: Update) -> Work:
    spec = request.spec
    refusal = _cannot_become(supervisor.spec, spec)
    if refusal:
        return No(Refusal.INVALID, refusal)
    supervisor.window = supervisor.window.resized(spec.intensity, spec.period_s)
    supervisor.spec = spec
    supervisor.table.replace(spec)
    return Done()
    yield


def _cannot_become(old: SupervisorSpec, new: SupervisorSpec) -> str:
    if new.id != old.id:
        return f"{old.id}: id is {new.id!r}; allowed: {old.id!r}"
    if (new.strategy is Strategy.DYNAMIC) != (old.strategy is Strategy.DYNAMIC):
        return f"{old.id}: strategy is {new.strategy.value!r}; allowed: no change from or to dynamic while it runs"
    return ""


def _dynamic(_supervisor: Supervisor, _request: Any) -> Work:
    return No(Refusal.DYNAMIC)
    yield


def _static(supervisor: Supervisor, _request: Any) -> Work:
    detail = f"{supervisor.spec.id}: strategy is {supervisor.spec.strategy.value!r}; allowed: dynamic"
    return No(Refusal.INVALID, detail)
    yield


_STATIC: dict[type, Callable[[Supervisor, Any], Work]] = {
    StartChild: _start_child,
    StartDynamic: _static,
    TerminateChild: _terminate_child,
    RestartChild: _restart_child,
    DeleteChild: _delete_child,
    Cycle: _cycle,
    WhichChildren: _which_children,
    CountChildren: _count_children,
    GetChildspec: _get_childspec,
    Update: _update,
}
_DYNAMIC: dict[type, Callable[[Supervisor, Any], Work]] = _STATIC | {
    StartChild: _dynamic,
    StartDynamic: _start_dynamic,
    TerminateChild: _terminate_dynamic,
    RestartChild: _dynamic,
    DeleteChild: _dynamic,
}
