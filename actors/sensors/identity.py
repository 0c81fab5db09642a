"""Who speaks: identity headers, field aliases and the folding of names. Pure.

Headers are defaults for events that do not say it themselves, never an override: a plugin sends the events of several
conversations in one request.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "AGENT_HEADERS",
    "ALIASES",
    "CONVERSATION_HEADERS",
    "PARENT_HEADERS",
    "SOURCE_HEADERS",
    "Identity",
    "identity_of",
    "slug",
    "unprefixed",
]

# First match wins and the first name is the canonical one (P014, P020, C057); opencode itself sends x-session-id.
CONVERSATION_HEADERS = (b"x-router-conversation", b"x-opencode-session", b"x-omp-session", b"x-session-id")
PARENT_HEADERS = (b"x-router-parent", b"x-parent-session-id")
AGENT_HEADERS = (b"x-router-agent",)
SOURCE_HEADERS = (b"x-treewarden-sensor",)

# alias -> field. The canonical name wins when both are there; the alias then counts as an unknown field.
ALIASES: dict[str, str] = {
    "event_id": "id",
    "eventID": "id",
    "ts": "t",
    "timestamp": "t",
    "session": "session_id",
    "sessionID": "session_id",
    "sessionId": "session_id",
    "conversation": "session_id",
    "conversation_id": "session_id",
    "parent": "parent_session_id",
    "parentID": "parent_session_id",
    "parent_id": "parent_session_id",
    "parentSessionID": "parent_session_id",
    "parentSessionId": "parent_session_id",
    "agent_name": "agent",
    "tool_name": "tool",
    "callID": "call_id",
    "callId": "call_id",
    "exit_code": "exit",
    "exitCode": "exit",
    "model_id": "model",
    "modelID": "model",
    "provider_id": "provider",
    "providerID": "provider",
    "requestID": "request_id",
    "requestId": "request_id",
    "cost": "cost_usd",
    "contextTokens": "context_tokens",
}

NOT_SLUG = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the headers of a request say about its sender."""

    conversation: str | None = None
    parent: str | None = None
    agent: str | None = None
    source: str | None = None


def identity_of(headers: Mapping[bytes, bytes]) -> Identity:
    """Read the identity headers (lower case names); the ``c:`` of P016 is cut."""
    return Identity(
        conversation=_key(_header(headers, CONVERSATION_HEADERS)),
        parent=_key(_header(headers, PARENT_HEADERS)),
        agent=slug(_header(headers, AGENT_HEADERS)),
        source=_header(headers, SOURCE_HEADERS),
    )


def slug(name: str | None) -> str | None:
    """Fold an agent's name (P014): ``Sisyphus (Ultra Worker)`` is ``sisyphus-ultra-worker``; or None."""
    if not name:
        return None
    folded = unicodedata.normalize("NFKC", name).casefold()
    return NOT_SLUG.sub("-", folded).strip("-")[:200] or None


def unprefixed(key: str) -> str:
    """Cut the optional ``c:`` that some routers put before a conversation id (P016)."""
    return key.removeprefix("c:")


def _header(headers: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> str | None:
    for name in names:
        value = headers.get(name, b"").strip()
        if value:
            return _text(value)
    return None


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _key(value: str | None) -> str | None:
    return unprefixed(value) or None if value else None
