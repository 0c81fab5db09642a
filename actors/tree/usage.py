"""Turns and dollars of one event, never counted twice (P033, P034).

A turn event is one turn. While a conversation has sent none, a new ``round``, or else a tool call, is one, and the
cost on those events counts. From the first turn event on only turn events count. A request id that was seen adds no
turn, and only what its cost grew by.
"""

from __future__ import annotations

from actors.messages import Kind, ProgressEvent, Tokens
from actors.tree.state import Conversation

__all__ = ["spent"]

_REQUESTS = 16
_TOOL, _TURN = Kind.TOOL, Kind.TURN  # at hand: to look one up on its class runs a function on Python 3.11
_CALLS = (Kind.TOOL, Kind.DONE)


def spent(conversation: Conversation, event: ProgressEvent) -> tuple[int, float]:
    """Return the turns and dollars that an event adds; remembers its round, request and context size."""
    is_turn = event.kind is _TURN
    if conversation.sends_turns and not is_turn:
        return 0, 0.0
    if event.tokens is not None or event.context_tokens is not None:
        _note_context(conversation, event)
    turns = 1 if event.round is None and event.kind is _TOOL else _turns(conversation, event, is_turn)
    if is_turn:
        conversation.sends_turns = True
    usd = event.cost_usd or 0.0
    if event.request_id is not None:
        return _joined(conversation, event.request_id, turns, usd)
    return turns, usd


def _turns(conversation: Conversation, event: ProgressEvent, is_turn: bool) -> int:
    if event.round is not None:
        known = event.round == conversation.round
        conversation.round = event.round
        # the first turn event may close a round whose calls counted as a turn already
        return int(not known or (is_turn and conversation.sends_turns))
    return int(is_turn or (event.kind in _CALLS and event.tool is not None) or event.kind is _TOOL)


def _joined(conversation: Conversation, request: str, turns: int, usd: float) -> tuple[int, float]:
    before = conversation.requests.pop(request, None)
    conversation.requests[request] = max(usd, before or 0.0)
    if len(conversation.requests) > _REQUESTS:
        del conversation.requests[next(iter(conversation.requests))]
    return (turns, usd) if before is None else (0, max(0.0, usd - before))


def _note_context(conversation: Conversation, event: ProgressEvent) -> None:
    if event.context_tokens is not None:
        conversation.context_tokens = event.context_tokens
    elif isinstance(event.tokens, Tokens):
        conversation.context_tokens = event.tokens.prompt
    elif event.tokens is not None:
        conversation.context_tokens = event.tokens
