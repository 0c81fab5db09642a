"""Digests: equal across sessions and machines, content never leaves (P023). Pure.

The same digests as the opencode plugin's (deploy/opencode-plugin/treewarden/digest.js); shared vectors hold the two
together. Whitespace policy of the fingerprint: in every string CRLF becomes LF, blanks at line ends and around the
whole go; in shell commands a run of blanks outside of quotes is one blank. Keys are sorted, nulls dropped, arguments
that are pure wording too.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from itertools import pairwise
from typing import Any

__all__ = ["canonical", "fingerprint", "said_digests", "sha256", "short"]

WORDING = {"bash": ("description",), "task": ("description",)}
SAID_WORDS = 2000
SAID_CHARACTERS = 40_000  # more than 2000 words of any text; bounds the work
DEPTH = 50

LINE_END = re.compile(r"\r\n?")
TRAILING = re.compile(r"(?<![ \t])[ \t]+$", re.M)  # begins at the run's start only: linear in its length
BLANKS = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|[ \t]+")


def sha256(text: str) -> str:
    """Return the hex digest of a text; lone surrogates, which no UTF-8 has, count as question marks."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def short(text: str) -> str:
    """Return the first half of the digest: 128 bits."""
    return sha256(text)[:32]


def canonical(value: Any, depth: int = 0) -> Any:
    """Return the value as it is compared: tidy strings, sorted keys, no nulls."""
    if isinstance(value, str):
        return _tidy(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if depth > DEPTH:
        return None
    if isinstance(value, list):
        return [canonical(item, depth + 1) for item in value]
    if isinstance(value, dict):
        items = ((str(key), canonical(value[key], depth + 1)) for key in sorted(value, key=str))
        return {key: item for key, item in items if item is not None}
    return value


def fingerprint(tool: str, args: Any) -> str:
    """Return sha256 hex over tool and normalised arguments."""
    plain = canonical({} if args is None else args)
    kept = dict(plain) if isinstance(plain, dict) else {"value": plain}
    for key in WORDING.get(tool, ()):
        kept.pop(key, None)
    command = args.get("command") if isinstance(args, dict) else None
    if isinstance(command, str):
        kept["command"] = _tidy_command(command)
    return sha256(f"{tool}\n{json.dumps(kept, separators=(',', ':'), ensure_ascii=False)}")


def said_digests(text: str) -> dict[str, str]:
    """Return ``said`` and ``said_sim``: digest of the words, 64-bit simhash of their bigrams; none without a letter."""
    words = _words(text)
    if not words:
        return {}
    bigrams = [f"{one} {two}" for one, two in pairwise(words)] or words
    return {"said": short(" ".join(words)), "said_sim": _simhash(bigrams)}


def _tidy(text: str) -> str:
    return TRAILING.sub("", LINE_END.sub("\n", text)).strip()


def _tidy_command(text: str) -> str:
    return BLANKS.sub(lambda match: " " if match[0][0] in " \t" else match[0], _tidy(text))


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text[:SAID_CHARACTERS]).lower()
    return "".join(char if unicodedata.category(char)[0] == "L" else " " for char in folded).split()[:SAID_WORDS]


def _simhash(features: list[str]) -> str:
    votes = [0] * 64
    for feature in features:
        value = int.from_bytes(hashlib.sha256(feature.encode("utf-8", "replace")).digest()[:8], "big")
        for bit in range(64):
            votes[bit] += 1 if value >> (63 - bit) & 1 else -1
    return f"{sum(1 << (63 - bit) for bit, vote in enumerate(votes) if vote > 0):016x}"
