"""Compact keys: 60-odd-bit integers in place of digests, so that a window of calls stays small (P031, T43).

Pure, deterministic across processes (unlike ``hash``), so that a snapshot made in one is read in another.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b, sha256

__all__ = ["SILENT", "UNKNOWN", "key_of", "name_key", "pair_key", "without_arguments"]

UNKNOWN = 0
_MASK = (1 << 60) - 1
_SHORT = 14


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=8192)
def name_key(name: str) -> int:
    """Map a tool's name or a target to an integer."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big") | 1 << 60


@lru_cache(maxsize=1024)
def without_arguments(tool: str) -> frozenset[int]:
    """Return the fingerprints of a call of ``tool`` with no arguments, in the forms that sensors give it."""
    texts = (f"{tool}\n{{}}", f"{tool}\0null", f"{tool}\0{{}}")
    whole = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return frozenset(key_of(digest[:length]) for digest in whole for length in (16, 32, 64))


def _silent() -> frozenset[int]:
    texts = [f"{code}\n{text}" for code in ("", 0, 1) for text in ("", "(no output)")]
    whole = [sha256(text.encode()).hexdigest() for text in ("", *texts)]
    return frozenset(key_of(digest[:length]) for digest in whole for length in (16, 32, 64)) | {_CONVERTED}


# outcomes that say nothing: no output at all, in the forms that sensors give it, and in that of converted transcripts
_CONVERTED = key_of("4b4e83e96cb35891")
SILENT = _silent()
