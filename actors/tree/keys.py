"""Compact keys: 60-odd-bit integers in place of digests, so that a window of calls stays small (P031, T43).

Pure, deterministic across processes (unlike ``hash``), so that a snapshot made in one is read in another.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["UNKNOWN", "key_of", "pair_key"]

UNKNOWN = 0
_MASK = (1 << 60) - 1
_SHORT = 14


def key_of(text: str | None) -> int:
    """Map a digest to an integer; ``UNKNOWN`` for an absent one. Both ends of a hex digest count, not its middle."""
    if not text:
        return UNKNOWN
    try:
        # the leading 1 keeps "0a" and "a" apart; the length keeps padded counters of different widths apart
        return int("1" + (text if len(text) <= _SHORT else text[:7] + text[-7:]), 16)
    except ValueError:
        return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big") | 1 << 60


def pair_key(first: int, second: int) -> int:
    """Combine two keys into one; ``second`` may be ``UNKNOWN``."""
    return (first * 0x9E3779B97F4A7C15 + second * 0xC2B2AE3D27D4EB4F + 1) & _MASK
