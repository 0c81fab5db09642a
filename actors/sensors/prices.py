"""List prices of models, for transcripts that hold tokens but no dollars. Pure; an estimate, and said so.

Dollars per million tokens. A model is found by the longest name that its own starts with, after the part before the
last "/" is cut; one that is not here costs nothing that is known.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Price", "price_of"]


class Price(NamedTuple):
    """Dollars per million tokens: fresh input, input read from a cache, input written to a cache, output."""

    input: float
    cached: float
    written: float
    output: float


class Tokens(Protocol):
    """What is counted; ``prompt`` includes ``cached`` and ``written``."""

    @property
    def prompt(self) -> int: ...
    @property
    def cached(self) -> int: ...
    @property
    def written(self) -> int: ...
    @property
    def completion(self) -> int: ...


PRICES: dict[str, Price] = {
    "claude-opus-4-5": Price(5, 0.5, 6.25, 25),
    "claude-opus-4-6": Price(5, 0.5, 6.25, 25),
    "claude-opus": Price(15, 1.5, 18.75, 75),
    "claude-3-opus": Price(15, 1.5, 18.75, 75),
    "claude-sonnet": Price(3, 0.3, 3.75, 15),
    "claude-3-5-sonnet": Price(3, 0.3, 3.75, 15),
    "claude-3-7-sonnet": Price(3, 0.3, 3.75, 15),
    "claude-haiku": Price(1, 0.1, 1.25, 5),
    "claude-3-5-haiku": Price(0.8, 0.08, 1, 4),
    "claude-3-haiku": Price(0.25, 0.03, 0.3, 1.25),
    "gpt-5": Price(1.25, 0.125, 1.25, 10),
    "gpt-5-mini": Price(0.25, 0.025, 0.25, 2),
    "gpt-5-nano": Price(0.05, 0.005, 0.05, 0.4),
    "gpt-4.1": Price(2, 0.5, 2, 8),
    "gpt-4.1-mini": Price(0.4, 0.1, 0.4, 1.6),
    "gpt-4o": Price(2.5, 1.25, 2.5, 10),
    "gpt-4o-mini": Price(0.15, 0.075, 0.15, 0.6),
    "o3": Price(2, 0.5, 2, 8),
    "o4-mini": Price(1.1, 0.275, 1.1, 4.4),
    "codex-mini": Price(1.5, 0.375, 1.5, 6),
    "gemini-2.5-pro": Price(1.25, 0.31, 1.25, 10),
    "gemini-2.5-flash": Price(0.3, 0.075, 0.3, 2.5),
    "gemini-2.5-flash-lite": Price(0.1, 0.025, 0.1, 0.4),
    "gemini-3-pro": Price(2, 0.2, 2, 12),
}
_NAMES = sorted(PRICES, key=len, reverse=True)


def price_of(model: str | None, tokens: Tokens) -> float | None:
    """Return what a request cost by the list, in dollars; None for a model that is not in it."""
    name = (model or "").rpartition("/")[2]
    found = next((PRICES[known] for known in _NAMES if name.startswith(known)), None)
    if found is None:
        return None
    fresh = max(0, tokens.prompt - tokens.cached - tokens.written)
    parts = ((fresh, found.input), (tokens.cached, found.cached), (tokens.written, found.written))
    return (sum(count * usd for count, usd in parts) + tokens.completion * found.output) / 1e6
