"""Runs one scenario through our supervision core and writes the trace that otp/conformance.erl writes for OTP.

The rig holds the tree, takes its commands, and keeps the same gates as the Erlang side. How children are really run is
the business of a ``World``: the core's own world pretends, the others start processes and actors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from supervisor.events import (
    Boot,
    Call,
    Command,
    Ending,
    Event,
    Exited,
    Halt,
    Ignored,
    Ready,
    Reply,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
)
from supervisor.requests import CountChildren, Counts, WhichChildren
from supervisor.tree import Tree
from tests.conformance import words
from tests.conformance.generate import Scenario
from tests.conformance.trace import ENDINGS, Life, Trace

__all__ = ["Rig", "World"]


class GatedTree(Tree):
    """A tree in which a nested supervisor that is up waits until its parent may take notice."""

    held: dict[str, list[Event]]

    def to_parent(self, name: str, event: Event) -> list[tuple[str, Event]]:
        if isinstance(event, Ready):
            self.held[name] = [event]
        elif name not in self.held or (isinstance(event, Exited) and event.ending is Ending.KILLED):
            self.held.pop(name, None)
            return super().to_parent(name, event)
        else:
            self.held[name].append(event)
        return []


class World(Protocol):
    """Runs workers. Everything it makes happen comes back through ``Rig.feed``; ``settle`` waits until it has."""

    def begin(self, life: Life, command: Start) -> None:
        """Begin a start; it goes no further than its gate."""

    def grant(self, life: Life) -> None:
        """Let the start come to its outcome."""

    def stop(self, life: Life, command: Stop) -> None:
        """Tell it to stop."""

    def let_go(self, life: Life) -> None:
        """Open the gate of a slow stop."""

    def die(self, life: Life, reason: str) -> None:
        """Make it die."""

    async def settle(self) -> None:
        """Return when nothing moves any more."""

    def skip(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> float:
        """Tell the monotonic time."""

    def timer(self, after_s: float, fire: Callable[[], None]) -> None:
        """Call back later."""


class Rig:
    """One scenario on its way through one world."""

    def __init__(self, scenario: Scenario, world_of: Callable[[Rig], World]) -> None:
        self.scenario = scenario
        self.lives: dict[int, Life] = {}
        self._trace = Trace(scenario.seed)
        self._dynamic = {s.id for s in words.supervisors_of(scenario) if s.strategy == "simple_one_for_one"}
        self._instances: dict[Any, tuple[str, int]] = {}
        self._asked: dict[int, tuple[str, Any]] = {}
        self._calls = 0
        self._dead_at_gate = ""
        self._views: dict[int, Any] = {}
        self.tree = GatedTree(words.supervisor(scenario.root), jitter=lambda: 0.0, observe=self._observe)
        self.tree.held = {}
        self.world = world_of(self)

    async def run(self) -> list[str]:
        """Run it all; return the trace."""
        self.feed(Boot())
        await self._settle()
        self._step()
        for event in self.scenario.events:
            self._apply(event)
            await self._settle()
            self._step()
        await self._finale()
        self._step()
        return self._trace.lines

    # Between tree and world

    def feed(self, event: Event) -> None:
        """Give the tree an event and perform what it commands."""
        if isinstance(event, Ready | StartFailed | Ignored | Exited) and event.run in self.lives:
            self._note(event, self.lives[event.run])
        for command in self.tree.handle(event, self.world.now()):
            self._perform(command)

    def _note(self, event: Event, life: Life) -> None:
        if isinstance(event, Ready):
            life.state = "up"
            self._instances[life.key] = (life.id, life.run)
            self._trace.record(life.group, f"start {life.name} ok")
            return
        del self.lives[life.run]
        if isinstance(event, Exited):
            self._trace.ends[life.run] = ENDINGS[event.ending]
            self._trace.record(life.group, f"end {life.name} {ENDINGS[event.ending]}")
        elif life.state != "aborted":
            outcome = "ignore" if isinstance(event, Ignored) else "error"
            self._trace.record(life.group, f"start {life.name} {outcome}")

    def _observe(self, supervisor: str, command: Command) -> None:
        self._trace.observe(supervisor, command)
        if isinstance(command, Start):
            assert command.spec is not None
            life = self._trace.attempt(supervisor, command, command.spec)
            if life is not None:
                self.lives[life.run] = life

    def _perform(self, command: Command) -> None:
        if isinstance(command, Start):
            self.world.begin(self.lives[command.run], command)
        elif isinstance(command, Stop):
            self._stop(command)
        elif isinstance(command, SetTimer) and command.after_s * 1000 <= self.scenario.short_ms:
            self.world.timer(command.after_s, lambda: self._budget_is_over(command.key))
        elif isinstance(command, Reply):
            self._answered(command)

    def _stop(self, command: Stop) -> None:
        life = self.lives.get(command.run)
        if life is None:  # a nested supervisor that has gone down already: its end is held, or being released
            self._release(command.id)
            return
        if life.state == "gate":
            life.state = "aborted"
        elif command.shutdown != "brutal_kill" and life.manner in ("slow", "stubborn"):
            life.state = "stopping"
        self.world.stop(life, command)

    def _budget_is_over(self, key: Any) -> None:
        _purpose, name, run = key
        if self.tree.run_of(name) == run:
            self._trace.cut(name)
        self.feed(Timer(key))

    # Script

    def _apply(self, event: tuple[Any, ...]) -> None:
        if event[0] == "wait":
            self.world.skip(4.1)
        elif event[0] == "die":
            life = self.lives.get(self._instances.get(event[1], ("", 0))[1])
            if life is not None:
                self.world.die(life, event[2])
        elif event[0] == "open":
            self._open(event[1])
        else:
            self._call(event[1], event[2])

    def _open(self, key: Any) -> None:
        held = sorted(x.label for x in self.lives.values() if x.key == key and x.state == "gate" and x.held)
        if held:
            self._grant(next(x for x in self.lives.values() if x.label == held[0]))
            return
        for life in list(self.lives.values()):
            if life.key == key and life.state == "stopping" and life.manner == "slow":
                self.world.let_go(life)

    def _grant(self, life: Life) -> None:
        life.state = "starting"
        self.world.grant(life)

    def _release(self, name: str) -> None:
        events = self.tree.held.pop(name, [])
        # count_children asks who is alive right now, past the mailbox: one that has died at this gate is not.
        self._dead_at_gate = self.tree.supervisor_of(name) if len(events) > 1 else ""
        for event in events:
            self.feed(event)
            self._dead_at_gate = ""

    def _call(self, supervisor: str, request: tuple[Any, ...]) -> None:
        self._calls += 1
        asked = words.request(request, self._instances)
        if asked is None:
            self._answer(self._calls, "noref")
            return
        self._asked[self._calls] = (supervisor, request)
        self.feed(Call(self._calls, supervisor, asked))

    def _answered(self, reply: Reply) -> None:
        if reply.ref < 0:
            self._views[reply.ref] = reply.answer
            return
        supervisor, request = self._asked[reply.ref]
        if isinstance(reply.answer, Counts) and supervisor == self._dead_at_gate:
            reply = replace(reply, answer=replace(reply.answer, active=reply.answer.active - 1))
        dynamic = supervisor in self._dynamic
        self._answer(reply.ref, words.answer(request, reply.answer, self._trace.name_of, dynamic=dynamic))

    def _answer(self, number: int, text: str) -> None:
        self._trace.record("~calls", f"{number:03} {text}")

    async def _settle(self) -> None:
        while True:
            await self.world.settle()
            gates: dict[str, Callable[[], None]] = {
                self._trace.paths[n]: partial(self._release, n) for n in self.tree.held
            }
            for life in self.lives.values():
                if life.state == "gate" and not life.held:
                    gates[life.label] = partial(self._grant, life)
            if not gates:
                return
            gates[min(gates)]()

    async def _finale(self) -> None:
        self.feed(Halt())
        await self._settle()
        while not self._trace.down:
            gates = sorted((x.label, x.run) for x in self.lives.values() if x.state == "gate")
            stopping = sorted((x.label, x.run) for x in self.lives.values() if x.state == "stopping")
            if gates:
                self._grant(self.lives[gates[0][1]])
            else:
                self.world.die(self.lives[stopping[0][1]], "kill")
            await self._settle()

    # What a step prints

    def _step(self) -> None:
        down = self._trace.down
        self._trace.step({} if down else {name: self._view(name) for name in self.tree.supervisors()})

    def _view(self, name: str) -> str:
        if self.tree.supervisors()[name]:
            return "busy"
        self.feed(Call(-1, name, WhichChildren()))
        self.feed(Call(-2, name, CountChildren()))
        rows = words.rows(self._views[-1], self._trace.name_of, dynamic=name in self._dynamic)
        return f"{rows}; {words.counts(self._views[-2])}"
