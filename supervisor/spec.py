"""What is supervised, as frozen data: child specs and supervisor specs, validated field by field.

Pure: no I/O, clock or process. The names and defaults are OTP's (`supervisor:child_spec()`, `sup_flags()`); what goes
beyond OTP is marked, and off by default: a ``SupervisorSpec`` without ``eager``, ``backoff`` and ``slow_retry`` is
plain OTP. Errors are ``SpecError``, one sentence naming the field, its value and the allowed set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

__all__ = [
    "AutoShutdown",
    "Backoff",
    "ChildSpec",
    "ChildType",
    "OnExcess",
    "Restart",
    "Shutdown",
    "SpecError",
    "Strategy",
    "SupervisorSpec",
]

Shutdown = int | Literal["brutal_kill", "infinity"]


class SpecError(ValueError):
    """A field of a spec has a value that is not allowed."""


class Restart(StrEnum):
    """When a child is restarted: always, after an abnormal exit only, or never."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"

    def wants(self, *, normal: bool) -> bool:
        """Say whether a child that exited normally or abnormally comes back."""
        return self is Restart.PERMANENT or (self is Restart.TRANSIENT and not normal)


class ChildType(StrEnum):
    """A process, or a supervisor nested inside this one."""

    WORKER = "worker"
    SUPERVISOR = "supervisor"


class Strategy(StrEnum):
    """What a death means for the siblings. dynamic is OTP's simple_one_for_one: one template, children on demand."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"
    DYNAMIC = "dynamic"


class AutoShutdown(StrEnum):
    """Whether a supervisor ends when one of its significant children, or the last of them, has ended by itself."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


class OnExcess(StrEnum):
    """More restarts than the intensity allows: OTP escalates; slow_retry is ours (per child, siblings live on)."""

    ESCALATE = "escalate"
    SLOW_RETRY = "slow_retry"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between restarts (beyond OTP). The first failure is never delayed: a killed child serves again at once.

    ``settled_s`` of readiness forgives earlier failures. ``jitter`` is the largest fraction a delay is shortened by.
    """

    base_s: float = 0.1
    cap_s: float = 2.0
    slow_s: float = 5.0
    slow_cap_s: float = 60.0
    settled_s: float = 3.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        for name in ("base_s", "cap_s", "slow_s", "slow_cap_s", "settled_s"):
            _number(f"backoff.{name}", getattr(self, name), 0)
        if not 0 <= self.jitter < 1:
            raise SpecError(f"backoff.jitter is {self.jitter!r}; allowed: a number from 0 to below 1")

    def delay_s(self, failures: int, random: float) -> float:
        """Delay before a restart after ``failures`` earlier failures in a row; ``random`` in [0, 1) is the jitter."""
        return self._spread(self.base_s, self.cap_s, failures - 1, random) if failures > 0 else 0.0

    def slow_delay_s(self, excesses: int, random: float) -> float:
        """Delay of the slow retry after ``excesses`` earlier ones in a row, at most ``slow_cap_s``."""
        return self._spread(self.slow_s, self.slow_cap_s, excesses, random)

    def _spread(self, base_s: float, cap_s: float, doublings: int, random: float) -> float:
        # 2**64 overflows no float and lies above every cap.
        return min(cap_s, base_s * 2.0 ** min(doublings, 64)) * (1 - self.jitter * random)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child. ``start`` is opaque to the core (``module:function``); ``nested`` makes it a supervisor."""

    id: str
    start: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    restart: Restart = Restart.PERMANENT
    shutdown: Shutdown = 5000
    type: ChildType = ChildType.WORKER
    significant: bool = False
    ready_timeout_s: float = 30.0
    heartbeat_deadline_s: float = 20.0
    nested: SupervisorSpec | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.replace("-", "").replace("_", "").isalnum():
            raise SpecError(f"child id is {self.id!r}; allowed: letters, digits, - and _")
        _member(f"{self.id}: restart", self.restart, Restart)
        _member(f"{self.id}: type", self.type, ChildType)
        _shutdown(self.id, self.shutdown)
        _flag(f"{self.id}: significant", self.significant)
        _number(f"{self.id}: ready_timeout_s", self.ready_timeout_s, 0)
        _number(f"{self.id}: heartbeat_deadline_s", self.heartbeat_deadline_s, 0)
        self._check_type()
        if self.significant and self.restart is Restart.PERMANENT:
            raise SpecError(f"{self.id}: significant is True; allowed: only with restart transient or temporary")

    def _check_type(self) -> None:
        if (self.type is ChildType.SUPERVISOR) != (self.nested is not None):
            raise SpecError(
                f"{self.id}: type is {self.type.value!r}; allowed: supervisor with children, worker without"
            )
        if self.nested is None and not self.start:
            raise SpecError(f"{self.id}: start is ''; allowed: module:function")
        if self.nested is not None and self.nested.id != self.id:
            raise SpecError(f"{self.id}: nested.id is {self.nested.id!r}; allowed: {self.id!r}, the child's id")

    def family(self) -> Iterator[ChildSpec]:
        """Yield this child and everything below it."""
        yield self
        if self.nested is not None:
            yield from self.nested.walk()

    def instance(self, number: int, args: Mapping[str, Any]) -> ChildSpec:
        """Return the spec of one child of a dynamic supervisor: every id of the template ends in ``-number``."""
        nested = self.nested.instance(number) if self.nested is not None else None
        return replace(self, id=f"{self.id}-{number}", args={**self.args, **args}, nested=nested)


@dataclass(frozen=True, slots=True)
class SupervisorSpec:
    """A supervisor: ``intensity`` restarts are allowed in ``period_s``; one more trips (see ``OnExcess``).

    Strategy dynamic takes exactly one child, the template, and at most ``max_children`` (beyond OTP, as in Elixir) at a
    time. ``eager`` is beyond OTP: a start that takes its time holds up neither a halt nor, where siblings are
    independent (one_for_one, dynamic), the restart of a sibling. Plain OTP does one thing at a time.
    """

    id: str = "root"
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = 1
    period_s: float = 5.0
    children: tuple[ChildSpec, ...] = ()
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    max_children: int | None = None
    eager: bool = False
    on_excess: OnExcess = OnExcess.ESCALATE
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        _member(f"{self.id}: strategy", self.strategy, Strategy)
        _member(f"{self.id}: auto_shutdown", self.auto_shutdown, AutoShutdown)
        _member(f"{self.id}: on_excess", self.on_excess, OnExcess)
        _count(f"{self.id}: intensity", self.intensity)
        _number(f"{self.id}: period_s", self.period_s, 0, exclusive=True)
        _flag(f"{self.id}: eager", self.eager)
        self._check_dynamic()
        seen = {self.id}
        for child in self.walk():
            if child.id in seen:
                raise SpecError(f"{self.id}: child id {child.id!r} is used twice; allowed: once in the whole tree")
            seen.add(child.id)
        for child in self.children:
            self.check_child(child)

    def _check_dynamic(self) -> None:
        dynamic = self.strategy is Strategy.DYNAMIC
        if dynamic and len(self.children) != 1:
            raise SpecError(f"{self.id}: children are {len(self.children)}; allowed: 1 with dynamic, the template")
        if self.max_children is not None:
            _count(f"{self.id}: max_children", self.max_children)
            if not dynamic:
                raise SpecError(f"{self.id}: max_children is {self.max_children}; allowed: only with strategy dynamic")

    def check_child(self, child: ChildSpec) -> None:
        """Say whether this child may live here. Raises SpecError."""
        if child.significant and self.auto_shutdown is AutoShutdown.NEVER:
            raise SpecError(
                f"{child.id}: significant is True; allowed: only with auto_shutdown any_significant or all_significant"
            )
        # A child that takes so long to stop can be restarted for ever: its restarts never meet in one period.
        limit_ms = 1000 * self.period_s / self.intensity if self.intensity else float("inf")
        if self.extended and isinstance(child.shutdown, int) and child.shutdown >= limit_ms:
            raise SpecError(
                f"{child.id}: shutdown is {child.shutdown}; allowed: below {limit_ms:g} ms,"
                f" which is 1000 * period_s / intensity of {self.id}"
            )

    @property
    def extended(self) -> bool:
        """True when anything beyond OTP is on."""
        return self.eager or self.backoff is not None or self.on_excess is OnExcess.SLOW_RETRY

    def walk(self) -> Iterator[ChildSpec]:
        """Yield every child of the tree, depth first, in start order."""
        for child in self.children:
            yield from child.family()

    def workers(self) -> list[ChildSpec]:
        """Return the processes of the tree in start order; the template of a dynamic supervisor is none."""
        if self.strategy is Strategy.DYNAMIC:
            return []
        return [w for c in self.children for w in ([c] if c.nested is None else c.nested.workers())]

    def instance(self, number: int) -> SupervisorSpec:
        """Return this supervisor below one instance of a template: every id ends in ``-number``."""
        return replace(self, id=f"{self.id}-{number}", children=tuple(c.instance(number, {}) for c in self.children))


def _shutdown(child: str, value: Shutdown) -> None:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not number and value not in ("brutal_kill", "infinity"):
        raise SpecError(f"{child}: shutdown is {value!r}; allowed: milliseconds from 0, brutal_kill, infinity")


def _number(name: str, value: object, least: float, *, exclusive: bool = False) -> None:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or value < least or (exclusive and value == least):  # type: ignore[operator]
        raise SpecError(f"{name} is {value!r}; allowed: a number {'above' if exclusive else 'from'} {least:g}")


def _count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SpecError(f"{name} is {value!r}; allowed: an integer from 0")


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SpecError(f"{name} is {value!r}; allowed: true, false")


def _member(name: str, value: object, allowed: type[StrEnum]) -> None:
    if not isinstance(value, allowed):
        raise SpecError(f"{name} is {value!r}; allowed: {', '.join(item.value for item in allowed)}")
