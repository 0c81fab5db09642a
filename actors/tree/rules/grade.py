"""How a count becomes a verdict, the same for every pattern: the knob stalls, ``loop_factor`` times the knob loops."""

from __future__ import annotations

from actors.knobs import Progress
from actors.messages import Verdict

__all__ = ["grade"]


def grade(count: int, warn: int, knobs: Progress) -> Verdict:
    """Return what ``count`` of a pattern is, once it has reached ``warn``."""
    return Verdict.LOOPING if count >= warn * knobs.loop_factor else Verdict.STALLING
