"""The pure step of a tree: one event, tick or command in, transitions and alerts out.

Deterministic and total: it reads no clock and raises for no valid input. The state is changed in place; a caller that
cannot commit the effects must discard the state and load it again. Events of one tree must come in one order;
trees do not know of each other.

``open`` and ``close`` carry three things, told apart by their ids: with ``call_id`` a call began or ended; without it
``open`` is a question or permission put to the user, and ``close`` its answer when it carries a ``request_id`` or when
one is open; any other ``close`` is the end of the conversation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from actors.knobs import Progress
from actors.messages import Command, ErrorClass, Kind, Mode, ProgressEvent, Reason, Tick
from actors.tree.alerts import follow_verdict
from actors.tree.keys import SILENT, UNKNOWN, key_of, name_key, pair_key, without_arguments
from actors.tree.lineage import arrive, touch
from actors.tree.merge import merge
from actors.tree.state import MAX_STATES, Conversation, TreeState
from actors.tree.trail import Trail
from actors.tree.usage import spent
from actors.tree.verdicts import Effects, Run, advance, clear, notice_knobs, restart, retire, settle
from actors.tree.view import describe, next_wakeup, summarise

__all__ = ["Effects", "describe", "merge", "next_wakeup", "step", "summarise"]

# members at hand: to look one up on its class runs a function on Python 3.11
_TOOL, _IDLE, _INJECTED = Kind.TOOL, Kind.IDLE, Kind.INJECTED
_SPOKEN = (Kind.INJECTED, Kind.USER)
_BUSY = (Kind.COMPACTION, Kind.RETRY)
# the provider's or the machine's fault, not the agent's (T10-T23)
_NOT_ITS_FAULT = (ErrorClass.INFRA, ErrorClass.PROVIDER)


def step(tree: TreeState, event: ProgressEvent | Tick | Command, knobs: Progress) -> tuple[TreeState, Effects]:
    """Take in one event; return the same state object and the effects in the order they came about."""
    run = Run(tree, knobs)
    notice_knobs(run)
    if isinstance(event, ProgressEvent):
        _progress(run, event)
    else:
        advance(run, event.t)
        if isinstance(event, Command):
            _operate(run, event)
    follow_verdict(run)
    return tree, run.out


def _operate(run: Run, command: Command) -> None:
    if command.action == "mode":
        run.tree.mode = Mode(command.value) if command.value is not None else None
        return
    for conversation in run.tree.conversations.values():
        clear(run, conversation, Reason.RESUMED)


def _progress(run: Run, event: ProgressEvent) -> None:
    tree = run.tree
    advance(run, tree.now if event.t is None else event.t)
    tree.seq += 1
    tree.last_event_at = tree.now
    conversation = arrive(run, event)
    conversation.events += 1
    turns, usd = spent(conversation, event)
    conversation.turns += turns
    conversation.usd += usd
    kind = event.kind
    injected = event.injected or kind is _INJECTED
    lineage = (conversation,) if conversation.parent is None else tuple(tree.lineage(conversation))
    if not injected:
        touch(tree, lineage)
        conversation.idle = kind is _IDLE
        conversation.busy = kind in _BUSY
    for one in lineage:
        one.turns_since += turns
        one.usd_since += usd
    if injected:
        if kind in _SPOKEN:
            conversation.injected_since += 1
            if not conversation.questions:  # whoever waits for an answer is right to do nothing (T02)
                conversation.trail.nudge()
    elif kind is _TOOL:
        _call(run, conversation, event)
    elif kind in _OTHERS:
        _OTHERS[kind](run, conversation, event)
    called = kind is _TOOL and not injected
    for one in lineage:
        if not one.retired:
            settle(run, one, call=called and one is conversation)


def _user(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.questions = 0
    restart(run, conversation, Reason.USER_TURN)


def _turn(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.questions = 0


def _said(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    if event.said is not None:
        conversation.trail.say(key_of(event.said), _simhash(event.said_sim))


def _done(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.trail.done()


def _compacted(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.trail.squeeze()


def _idled(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.ends_turns, conversation.open_calls = True, 0


def _opened(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.questions += event.call_id is None
    conversation.open_calls += event.call_id is not None


def _closed(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    if event.call_id is not None:
        conversation.open_calls = max(0, conversation.open_calls - 1)
    elif event.request_id is None and not conversation.questions:
        retire(run, conversation)
    else:
        conversation.questions = max(0, conversation.questions - 1)


def _deleted(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.questions = 0
    retire(run, conversation)


_OTHERS: dict[Kind, Callable[[Run, Conversation, ProgressEvent], None]] = {
    Kind.USER: _user,
    Kind.TURN: _turn,
    Kind.ASSISTANT: _said,
    Kind.REASONING: _said,
    Kind.DONE: _done,
    Kind.COMPACTION: _compacted,
    Kind.IDLE: _idled,
    Kind.OPEN: _opened,
    Kind.CLOSE: _closed,
    Kind.DELETED: _deleted,
}


def _simhash(text: str | None) -> int:
    """Read a 64-bit simhash; 0 for an absent or a foreign one."""
    try:
        return int(text, 16) if text and len(text) <= 16 else 0
    except ValueError:
        return 0


def _call(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    conversation.calls_since += 1
    conversation.trail.calls += 1
    if event.error is not None and event.error in _NOT_ITS_FAULT:
        if event.error is ErrorClass.PROVIDER:
            conversation.trail.refused(run.tree.now, run.knobs.pause_s)
    else:
        _judged_call(run, conversation, event)
    conversation.trail.last_t = run.tree.now


def _judged_call(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    window, knobs, trail = conversation.window, run.knobs, conversation.trail
    if window.limit != knobs.window or window.span != knobs.novelty_calls:
        window.resize(knobs.window, knobs.novelty_calls)
    fingerprint, outcome, slice_key = _fingerprint(event), key_of(event.result), key_of(event.slice)
    target = sys.intern(event.target) if event.target else None
    target_key = name_key(target) if target else slice_key
    passed, failed = _outcome(event)
    exact = pair_key(fingerprint, outcome) if fingerprint else UNKNOWN
    seen = conversation.repeats.counts.get(exact, 0)
    if not seen:
        trail.keep_pace(run.tree.now)
    waited = seen > 0 and _waits(run, trail, event, outcome, passed=passed)
    call = window.push(fingerprint, outcome, slice_key, target or slice_key or fingerprint, target, waited=waited)
    if passed:
        _passed(conversation, event, fingerprint, target_key)
    elif failed and not waited:
        _failed(conversation, event, fingerprint, target_key, seen)
    if event.landed and _landed(run, conversation, event, fingerprint, target_key):
        return
    if waited:
        trail.waits, trail.text_run = trail.waits + 1, 0  # whoever waits may say so each time
        return
    if fingerprint:
        exact = call.exact  # the same number: one object in every counter
        conversation.repeats.add(exact)
    trail.call(exact, seen, outcome, target_key, passed=passed, failed=failed, landed=event.landed)


def _waits(run: Run, trail: Trail, event: ProgressEvent, outcome: int, *, passed: bool) -> bool:
    """Whether a repeat waits: it is silent, or it passed after a pause or by a tool that is there for waiting."""
    if outcome in SILENT:
        return True
    paused = trail.paused(run.tree.now, run.knobs.pause_s)
    return passed and (paused or (event.tool or "").lower() in run.knobs.waiting_tools)


def _outcome(event: ProgressEvent) -> tuple[bool, bool]:
    """Return whether a call passed and whether it failed; neither where the sensor does not know."""
    if event.exit or event.error is not None:
        return False, True
    return event.exit == 0, False


def _fingerprint(event: ProgressEvent) -> int:
    """Return the exact key; a call that names no arguments and no outcome says nothing about repeats."""
    fingerprint = key_of(event.fingerprint)
    if event.result is None and event.tool and fingerprint in without_arguments(event.tool):
        return UNKNOWN
    return fingerprint


def _place(event: ProgressEvent, target_key: int) -> int:
    return pair_key(name_key(event.tool or ""), target_key)


def _passed(conversation: Conversation, event: ProgressEvent, fingerprint: int, target_key: int) -> None:
    trail = conversation.trail
    if conversation.failures.counts:
        conversation.failures.drop(fingerprint)
    if conversation.target_failures.counts and event.target:
        conversation.target_failures.drop(event.target)
    trail.storm = 0
    if trail.fail_points:
        trail.recover()
    if trail.stubborn:
        trail.mend(_place(event, target_key))


def _failed(conversation: Conversation, event: ProgressEvent, fingerprint: int, target_key: int, seen: int) -> None:
    if fingerprint:
        conversation.failures.add(fingerprint)
    if event.target:
        conversation.target_failures.add(sys.intern(event.target))
    batch = event.error is None or event.error is ErrorClass.EDIT_MISMATCH
    place = _place(event, target_key)
    conversation.trail.failed(key_of(event.result), place, target_key, repeated=seen > 0, batch=batch)


def _landed(run: Run, conversation: Conversation, event: ProgressEvent, fingerprint: int, target_key: int) -> bool:
    """Note an accepted edit; start counting anew and return True if it brought something new (T47)."""
    outcome = key_of(event.result)
    idle = conversation.trail.land(fingerprint, outcome, _place(event, target_key))
    exact = pair_key(fingerprint, outcome) if fingerprint and outcome else UNKNOWN
    if idle or not _is_new(run.tree, event, exact):
        return False
    restart(run, conversation, Reason.LANDED)
    return True


def _is_new(tree: TreeState, event: ProgressEvent, exact: int) -> bool:
    """Whether this landed for the first time (T47): the state of its target, or else the same edit with this outcome.

    Where neither is known it is taken as new.
    """
    key = exact if event.state is None else pair_key(key_of(event.target), key_of(event.state))
    if key == UNKNOWN:
        return True
    known = tree.landed_states.pop(key, False) is None
    tree.landed_states[key] = None
    if len(tree.landed_states) > MAX_STATES:
        del tree.landed_states[next(iter(tree.landed_states))]
    return not known
