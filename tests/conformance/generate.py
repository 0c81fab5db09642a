"""Random scenarios from a seed: a supervision tree, how its children behave, and what happens to them.

A scenario is plain data, the same for OTP and for ours. What a start attempt comes to, and whether it is held until the
script opens it, is a hash of the seed and the attempt's label, so that both sides draw the same lots without talking.

Everything may happen to everything at any time; only this is left out:
- timing at the edge of a period: time passes in jumps of 4 s against periods of 2 s or an hour, because OTP 25 counts
  whole seconds; likewise a budget is either far too long or runs out for certain, never in a race with its child;
- killing a nested supervisor from outside: ours is no process that could be killed (its parent killing it is in);
- a dynamic child whose restart returns `ignore`, and the update of a dynamic supervisor's flags: OTP 25 stores a child
  without a pid and crashes on it later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LONG_MS", "SHORT_MS", "Child", "Scenario", "Sup", "scenario", "to_erlang"]

SHORT_MS = 40
"""A budget that runs out, for a child that does not stop in time for certain."""

LONG_MS = 3_600_000
"""A budget that does not run out, not even while a scenario is parked until many others have got as far."""

HOUR_S = 3600

STRATEGIES = ("one_for_one", "one_for_one", "one_for_all", "rest_for_one", "rest_for_one", "simple_one_for_one")
RESTARTS = ("permanent", "permanent", "transient", "temporary")
REASONS = ("crash", "crash", "kill", "normal", "shutdown", "{shutdown}")


@dataclass
class Child:
    """A child: percentages of attempts that fail, are ignored, are held; and its manner when told to stop."""

    id: str
    kind: Sup | None = None
    restart: str = "permanent"
    shutdown: int | str = LONG_MS
    significant: bool = False
    manner: str = "prompt"
    fail_first: int = 0
    fail_again: int = 0
    ignore: int = 0
    hold: int = 0


@dataclass
class Sup:
    """A supervisor, in OTP's words."""

    id: str
    strategy: str = "one_for_one"
    intensity: int = 1
    period: int = 3600
    auto: str = "never"
    children: list[Child] = field(default_factory=list)


@dataclass
class Scenario:
    """``events`` are tuples: (die, target, reason), (open, target), (call, supervisor, request), (wait,).

    A target is a child id, or ``(template id, k)`` for what the k-th start_dynamic of the scenario started.
    """

    seed: int
    root: Sup
    events: list[tuple[Any, ...]]
    short_ms: int


def scenario(seed: int, short_ms: int = SHORT_MS) -> Scenario:
    """Make the scenario of this seed; ``short_ms`` is the budget that runs out, longer where the world is slower."""
    return _Maker(seed, short_ms).make()


class _Maker:
    def __init__(self, seed: int, short_ms: int) -> None:
        self.seed = seed
        self.short_ms = short_ms
        self.dice = random.Random(seed)
        self.period = HOUR_S
        self.count = 0
        self.dynamic = 0
        self.sups: list[Sup] = []
        self.homes: dict[str, Sup] = {}
        self.known: dict[str, list[Child]] = {}
        self.instances: list[tuple[str, int]] = []
        self.hurry = True

    def make(self) -> Scenario:
        waits = self._chance(6)
        self.period = 2 if waits else HOUR_S
        root = self._sup("root", 1)
        number = self.dice.randint(8, 20) if waits else self.dice.randint(3, 14)
        events = [event for _ in range(number) for event in self._events()]
        for _ in range(self.dice.randint(1, 2) if waits else 0):
            events.insert(self.dice.randrange(len(events) + 1), ("wait",))
        return Scenario(self.seed, root, events, self.short_ms)

    def _chance(self, percent: int) -> bool:
        return self.dice.random() * 100 < percent

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def _sup(self, name: str, depth: int) -> Sup:
        dice = self.dice
        auto = dice.choice(("never", "never", "any_significant", "all_significant", "all_significant"))
        intensity = dice.choice((0, 1, 1, 2, 3, 5) if self.period == HOUR_S else (1, 1, 2))
        sup = Sup(name, dice.choice(STRATEGIES), intensity, self.period, auto)
        self.sups.append(sup)
        self.known[name] = []
        number = 1 if sup.strategy == "simple_one_for_one" else dice.choice((0, 1, 2, 2, 3, 3, 4))
        sup.children = [self._child(sup, depth) for _ in range(number)]
        return sup

    def _child(self, sup: Sup, depth: int, name: str | None = None) -> Child:
        dice = self.dice
        dynamic = sup.strategy == "simple_one_for_one"
        if depth < 3 and not dynamic and name is None and self._chance(35):
            child = self._nested(depth)
        else:
            child = self._worker(name or self._name("t" if dynamic else "w"), dynamic=dynamic)
            self._keep_budget(child)
        child.restart = dice.choice(RESTARTS if sup.auto == "never" else (*RESTARTS, "transient", "transient"))
        may = child.restart != "permanent" and sup.auto != "never"
        child.significant = may and self._chance(60)
        self.homes[child.id] = sup
        self.known[sup.id].append(child)
        return child

    def _keep_budget(self, child: Child) -> None:
        """A budget that runs out stays with its id: both sides know by the id whom to wait for."""
        old = next((each for sup in self.sups for each in self.known[sup.id] if each.id == child.id), child)
        if self.short_ms in (old.shutdown, child.shutdown):
            child.shutdown, child.manner = old.shutdown, old.manner

    def _nested(self, depth: int) -> Child:
        name = self._name("s")
        shutdown = self.dice.choice(("infinity", "infinity", "infinity", LONG_MS, "brutal_kill", self.short_ms))
        outer, self.hurry = self.hurry, self.hurry and shutdown != self.short_ms
        if not outer and shutdown == self.short_ms:
            shutdown = LONG_MS  # one clock at a time
        nested = self._sup(name, depth + 1)
        self.hurry = outer
        return Child(name, nested, shutdown=shutdown)

    def _worker(self, name: str, *, dynamic: bool) -> Child:
        dice = self.dice
        manner = dice.choice(("prompt", "prompt", "prompt", "prompt", "slow", "stubborn", "rude", "plain"))
        budgets: list[int | str] = [LONG_MS, LONG_MS, "infinity", "brutal_kill"]
        if manner in ("slow", "stubborn") and self.hurry:
            budgets += [self.short_ms] * 2
        return Child(
            name,
            shutdown=dice.choice(budgets),
            manner=manner,
            fail_first=dice.choice((0, 0, 0, 0, 0, 10)),
            fail_again=dice.choice((0, 0, 20, 50, 90)),
            ignore=0 if dynamic else dice.choice((0, 0, 0, 15)),
            hold=dice.choice((0, 0, 0, 40)),
        )

    # Events

    def _events(self) -> list[tuple[Any, ...]]:
        return self._crowd() if self._chance(12) else [self._event()]

    def _crowd(self) -> list[tuple[Any, ...]]:
        """Let things happen to a supervisor that waits for the restart of one of its children."""
        held = [child for sup in self.sups for child in self.known[sup.id] if child.hold]
        if not held:
            return [self._event()]
        child = self.dice.choice(held)
        siblings = [each.id for each in self.known[self.homes[child.id].id] if each.kind is None]
        meanwhile = ("die", self.dice.choice(siblings), self.dice.choice(REASONS))
        return [("die", child.id, "crash"), meanwhile, self._event(), ("open", child.id)]

    def _event(self) -> tuple[Any, ...]:
        roll = self.dice.random() * 100
        if roll < 48:
            return ("die", self._target(), self.dice.choice(REASONS))
        if roll < 63:
            return ("open", self._target())
        sup = self.dice.choice(self.sups)
        return ("call", sup.id, self._request(sup))

    def _target(self) -> Any:
        workers = [
            name for name, home in self.homes.items() if home.strategy != "simple_one_for_one" and name[0] != "s"
        ]
        targets: list[Any] = [*workers, *self.instances]
        return self.dice.choice(targets) if targets else "nobody"

    def _request(self, sup: Sup) -> tuple[Any, ...]:
        roll = self.dice.random() * 100
        if sup.strategy == "simple_one_for_one" and roll < 75:
            return self._dynamic_request(sup, roll)
        children = [child.id for child in self.known[sup.id]] + ["nobody"]
        if roll < 22:
            return ("start_child", self._new_child(sup))
        if roll < 44:
            return ("terminate_child", self.dice.choice(children))
        if roll < 62:
            return ("restart_child", self.dice.choice(children))
        if roll < 76:
            return ("delete_child", self.dice.choice(children))
        if roll < 84 and sup.strategy != "simple_one_for_one":
            return ("update", self._updated(sup))
        return (self.dice.choice(("which_children", "count_children")),)

    def _dynamic_request(self, sup: Sup, roll: float) -> tuple[Any, ...]:
        if roll < 50:
            self.dynamic += 1
            self.instances.append((sup.children[0].id, self.dynamic))
            return ("start_dynamic", self.dynamic)
        mine = [ref for ref in self.instances if ref[0] == sup.children[0].id]
        return ("terminate_child", self.dice.choice([*mine, sup.children[0].id]))

    def _new_child(self, sup: Sup) -> Child:
        """Make a child that may be new, or have an id that is or was there; now and then one that is not allowed."""
        old = [child for child in self.known[sup.id] if child.kind is None]
        child = self._child(sup, 3, self.dice.choice(old).id) if old and self._chance(50) else self._child(sup, 2)
        if sup.auto == "never" and child.restart != "permanent" and self._chance(10):
            child.significant = True
        return child

    def _updated(self, sup: Sup) -> Sup:
        dice = self.dice
        strategy = dice.choice(("one_for_one", "one_for_all", "rest_for_one"))
        new = Sup(sup.id, strategy, dice.choice((0, 1, 2, 5)), self.period, sup.auto)
        for child in sup.children:
            if self._chance(75):
                new.children.append(self._changed(child, sup))
        if self._chance(40):
            new.children.insert(dice.randrange(len(new.children) + 1), self._child(sup, 3))
        return new

    def _changed(self, child: Child, sup: Sup) -> Child:
        fresh = Child(**vars(child))
        if self._chance(40):
            fresh.restart = self.dice.choice(RESTARTS)
            fresh.significant = fresh.significant and fresh.restart != "permanent"
        if fresh.shutdown != self.short_ms and fresh.kind is None:
            fresh.shutdown = self.dice.choice((fresh.shutdown, LONG_MS, "infinity", "brutal_kill"))
        return fresh


# As Erlang terms


def to_erlang(item: Scenario) -> str:
    """Write a scenario as the term that otp/conformance.erl reads."""
    events = ", ".join(_event_term(event) for event in item.events)
    return f"{{scenario, {item.seed}, {_sup_term(item.root)}, [{events}]}}.\n"


def _sup_term(sup: Sup) -> str:
    children = ", ".join(_child_term(child) for child in sup.children)
    return f"{{sup, {sup.id}, {sup.strategy}, {sup.intensity}, {sup.period}, {sup.auto}, [{children}]}}"


def _child_term(child: Child) -> str:
    kind = "worker" if child.kind is None else _sup_term(child.kind)
    lots = f"{child.fail_first}, {child.fail_again}, {child.ignore}, {child.hold}"
    significant = str(child.significant).lower()
    return f"{{child, {child.id}, {kind}, {child.restart}, {child.shutdown}, {significant}, {child.manner}, {lots}}}"


def _event_term(event: tuple[Any, ...]) -> str:
    kind = event[0]
    if kind == "wait":
        return "wait"
    if kind == "die":
        reason = "{shutdown, done}" if event[2] == "{shutdown}" else event[2]
        return f"{{die, {_target_term(event[1])}, {reason}}}"
    if kind == "open":
        return f"{{open, {_target_term(event[1])}}}"
    return f"{{call, {event[1]}, {_request_term(event[2])}}}"


def _target_term(target: Any) -> str:
    return target if isinstance(target, str) else f"{{{target[0]}, {target[1]}}}"


def _request_term(request: tuple[Any, ...]) -> str:
    if len(request) == 1:
        return str(request[0])
    what = request[1]
    if isinstance(what, Child):
        return f"{{start_child, {_child_term(what)}}}"
    if isinstance(what, Sup):
        return f"{{update, {_sup_term(what)}}}"
    return f"{{{request[0]}, {_target_term(what) if request[0] != 'start_dynamic' else what}}}"
