"""What the notifier knows between two events: alerts, who was told what, what is held back, budgets. Pure, in memory.

Everything but budgets and openings comes back from the store after a restart (``outbox.resume``). Closed alerts are
bounded, oldest change first; what hangs on a key goes with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.messages import Frozen, Severity
from actors.notifier.alert import Alert
from actors.notifier.mute import Bucket, Moment, Silence
from actors.notifier.route import Rule, Told, Why

__all__ = ["MAX_CLOSED", "Flapping", "Held", "NotifierState"]

MAX_CLOSED = 10_000
_MAX_OPENINGS = 1000
_JUMP_S = 1.0


class Flapping(Frozen):
    """Knobs of the damping (P081): ``changes`` openings within ``window_s``; calm after ``settle_s``."""

    changes: int = 4
    window_s: float = 900.0
    settle_s: float = 300.0


class Held(Frozen):
    """Why a channel has not been told, and when to look again (monotonic seconds; None: at the next change)."""

    why: Why
    due: float | None


@dataclass
class NotifierState:
    """See the module. ``told`` and ``held`` are by key, then channel."""

    open: dict[str, Alert] = field(default_factory=dict)
    closed: dict[str, Alert] = field(default_factory=dict)
    told: dict[str, dict[str, Told]] = field(default_factory=dict)
    held: dict[str, dict[str, Held]] = field(default_factory=dict)
    silences: dict[int, Silence] = field(default_factory=dict)
    acknowledged: dict[str, Severity] = field(default_factory=dict)
    buckets: dict[str, Bucket] = field(default_factory=dict)
    flapping: Flapping = field(default_factory=Flapping)
    changed: dict[str, float] = field(default_factory=dict)
    openings: dict[str, deque[float]] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    offset: float | None = None

    def alert(self, key: str) -> Alert | None:
        return self.open.get(key) or self.closed.get(key)

    def hold(self, alert: Alert) -> None:
        """Make ``alert`` the current one of its key."""
        self.open.pop(alert.key, None)
        self.closed.pop(alert.key, None)
        (self.open if alert.is_open else self.closed)[alert.key] = alert
        if alert.group != alert.key:
            self.groups.setdefault(alert.group, set()).add(alert.key)
        if len(self.closed) > MAX_CLOSED:
            oldest = next((key for key in self.closed if key not in self.held), next(iter(self.closed)))
            self.forget(oldest)

    def forget(self, key: str) -> None:
        """Drop what the store knows of ``key`` as well."""
        alert = self.alert(key)
        if alert is not None and alert.group != key:
            members = self.groups.get(alert.group, set())
            members.discard(key)
            if not members:
                self.groups.pop(alert.group, None)
        for part in (self.open, self.closed, self.told, self.held, self.acknowledged, self.changed, self.openings):
            part.pop(key, None)

    def opened(self, key: str, mono: float) -> None:
        """Count an opening."""
        self.openings.setdefault(key, deque(maxlen=_MAX_OPENINGS)).append(mono)

    def flapping_for_s(self, key: str, mono: float) -> float | None:
        """Return for how long ``key`` still counts as flapping, None when it does not."""
        openings, changed = self.openings.get(key), self.changed.get(key)
        if openings is None or changed is None:
            return None
        recent = sum(1 for at in openings if at > mono - self.flapping.window_s)
        left = changed + self.flapping.settle_s - mono
        return left if recent >= self.flapping.changes and left > 0 else None

    def bucket(self, rule: Rule, now: Moment) -> Bucket:
        """Return the budget of a channel, with the limits of its rule."""
        limit = rule.rate_limit
        bucket = self.buckets.get(rule.channel)
        if bucket is None:
            bucket = self.buckets[rule.channel] = Bucket.full(limit.burst, limit.every_s, now.mono)
        elif (bucket.burst, bucket.every_s) != (limit.burst, limit.every_s):
            bucket.resize(limit.burst, limit.every_s, now.mono)
        return bucket

    def inhibited(self, alert: Alert) -> bool:
        """Tell whether the alert's tree has a critical alert of its own, which says it all."""
        if alert.group == alert.key:
            return False
        root = self.open.get(alert.group)
        return root is not None and root.severity is Severity.CRITICAL

    def due(self, now: Moment) -> list[str]:
        """Return the keys to look at again: what is due, and everything after the wall clock has jumped."""
        offset = now.wall - now.mono
        jumped = self.offset is not None and abs(offset - self.offset) > _JUMP_S
        self.offset = offset
        return [
            key
            for key, held in self.held.items()
            if jumped or any(one.due is not None and one.due <= now.mono for one in held.values())
        ]

    def next_due(self) -> float | None:
        """Return when the next key is due, in monotonic seconds."""
        return min(
            (one.due for held in self.held.values() for one in held.values() if one.due is not None), default=None
        )

    def live_silences(self, wall: float) -> Iterable[Silence]:
        return (silence for silence in self.silences.values() if silence.until > wall)
