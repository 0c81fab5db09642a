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

from actors.knobs import Progress
from actors.messages import Command, ErrorClass, Kind, Mode, ProgressEvent, Reason, Tick
from actors.tree.alerts import follow_verdict
from actors.tree.keys import key_of, pair_key
from actors.tree.lineage import arrive, touch
from actors.tree.merge import merge
from actors.tree.state import MAX_STATES, Conversation, TreeState
from actors.tree.usage import spent
from actors.tree.verdicts import Effects, Run, advance, clear, notice_knobs, restart, retire, settle
from actors.tree.view import describe, next_wakeup, summarise

__all__ = ["Effects", "describe", "merge", "next_wakeup", "step", "summarise"]

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
    injected = event.injected or event.kind is Kind.INJECTED
    if not injected:
        touch(tree, conversation)
        conversation.idle = event.kind is Kind.IDLE
    for one in tree.lineage(conversation):
        one.turns_since += turns
        one.usd_since += usd
    if injected:
        conversation.injected_since += event.kind in (Kind.INJECTED, Kind.USER)
    elif event.kind is Kind.TOOL:
        _call(run, conversation, event)
    else:
        _other(run, conversation, event)
    called = event.kind is Kind.TOOL and not injected
    for one in tree.lineage(conversation):
        if not one.retired:
            settle(run, one, call=called and one is conversation)


def _other(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    kind = event.kind
    if kind is Kind.USER:
        conversation.questions = 0
        restart(run, conversation, Reason.USER_TURN)
    elif kind is Kind.TURN:
        conversation.questions = 0
    elif kind is Kind.OPEN:
        conversation.questions += event.call_id is None
    elif kind is Kind.DELETED or (kind is Kind.CLOSE and _ends(conversation, event)):
        conversation.questions = 0
        retire(run, conversation)
    elif kind is Kind.CLOSE and event.call_id is None:
        conversation.questions = max(0, conversation.questions - 1)


def _ends(conversation: Conversation, event: ProgressEvent) -> bool:
    return event.call_id is None and event.request_id is None and not conversation.questions


def _call(run: Run, conversation: Conversation, event: ProgressEvent) -> None:
    window, knobs = conversation.window, run.knobs
    if window.limit != knobs.window or window.span != knobs.novelty_calls:
        window.resize(knobs.window, knobs.novelty_calls)
    conversation.calls_since += 1
    fingerprint, slice_key = key_of(event.fingerprint), key_of(event.slice)
    target = sys.intern(event.target) if event.target else None
    call = window.push(fingerprint, key_of(event.result), slice_key, target or slice_key or fingerprint, target)
    if fingerprint:
        conversation.repeats.add(call.exact)
    _outcome(conversation, event, fingerprint, target)
    if event.landed and _is_new(run.tree, event):
        restart(run, conversation, Reason.LANDED)


def _outcome(conversation: Conversation, event: ProgressEvent, fingerprint: int, target: str | None) -> None:
    if event.error in _NOT_ITS_FAULT or (event.exit is None and event.error is None):
        return
    if event.exit or event.error is not None:
        if fingerprint:
            conversation.failures.add(fingerprint)
        if target:
            conversation.target_failures.add(target)
    else:
        conversation.failures.drop(fingerprint)
        if target:
            conversation.target_failures.drop(target)


def _is_new(tree: TreeState, event: ProgressEvent) -> bool:
    """Whether this state of this target has not landed before; without a state every landing is new (T47)."""
    if event.state is None:
        return True
    key = pair_key(key_of(event.target), key_of(event.state))
    known = tree.landed_states.pop(key, False) is None
    tree.landed_states[key] = None
    if len(tree.landed_states) > MAX_STATES:
        del tree.landed_states[next(iter(tree.landed_states))]
    return not known
