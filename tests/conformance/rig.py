"""Runs one scenario through our supervision core and writes the trace that otp/conformance.erl writes for OTP.

The rig holds the tree, takes its commands, keeps the same gates as the Erlang side and names everything the same way
(`root/s2.1/w5.3`: third attempt of w5 in the first incarnation of s2). How children are really run is the business of a
``World``: the core's own world pretends, the others start processes and actors.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from supervisor.events import (
    Boot,
    Call,
    Command,
    Down,
    Ending,
    Event,
    Exited,
    Halt,
    Ignored,
    Ready,
    Reply,
    Report,
    SetTimer,
    Start,
    StartFailed,
    Stop,
    Timer,
    Up,
)
from supervisor.requests import CountChildren, Counts, WhichChildren
from supervisor.spec import ChildSpec
from supervisor.tree import Tree
from tests.conformance import words
from tests.conformance.generate import Scenario

__all__ = ["Life", "Rig", "World"]

ENDINGS = {
    Ending.NORMAL: "normal",
    Ending.SHUTDOWN: "shutdown",
    Ending.SHUTDOWN_WITH: "{shutdown}",
    Ending.KILLED: "killed",
    Ending.ABNORMAL: "crash",
}
HOUR_S = 3600.0


@dataclass(eq=False)
class Life:
    """One run of one worker: where it is, and what its gates are waiting for."""

    run: int
    id: str
    key: Any
    label: str
    group: str
    manner: str
    outcome: str
    held: bool
    shutdown: int | str
    state: str = "gate"

    @property
    def name(self) -> str:
        return self.label.rpartition("/")[2]


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
        self.lines: list[str] = []
        self.down = False
        self._records: list[tuple[str, str]] = []
        self._paths = {"root": "root"}
        self._attempts: Counter[tuple[str, Any]] = Counter()
        self._labels: dict[int, str] = {}
        self._ends: dict[int, str] = {}
        self._up: set[str] = {"root"}
        self._killed: list[str] = []
        self._strategies = {sup.id: sup.strategy for sup in words.supervisors_of(scenario)}
        self._instances: dict[Any, tuple[str, int]] = {}
        self._newest: dict[Any, int] = {}
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
        return self.lines

    # Between tree and world

    def feed(self, event: Event) -> None:
        """Give the tree an event and perform what it commands."""
        self._note(event)
        for command in self.tree.handle(event, self.world.now()):
            self._perform(command)

    def _note(self, event: Event) -> None:
        if isinstance(event, Ready | StartFailed | Ignored | Exited) and event.run in self.lives:
            life = self.lives[event.run]
            if isinstance(event, Ready):
                life.state = "up"
                self._newest[life.key] = life.run
                self._instances[life.key] = (life.id, life.run)
                self._record(life.group, f"start {life.name} ok")
                return
            del self.lives[event.run]
            if isinstance(event, Exited):
                self._ends[life.run] = ENDINGS[event.ending]
                self._record(life.group, f"end {life.name} {ENDINGS[event.ending]}")
            elif life.state != "aborted":
                self._record(life.group, f"start {life.name} {'ignore' if isinstance(event, Ignored) else 'error'}")

    def _perform(self, command: Command) -> None:
        if isinstance(command, Start):
            self.world.begin(self.lives[command.run], command)
        elif isinstance(command, Stop):
            life = self.lives.get(command.run)
            if life is None:  # a nested supervisor that has gone down already: its end is held, or being released
                self._release(command.id)
                return
            if life.state == "gate":
                life.state = "aborted"
            elif command.shutdown != "brutal_kill" and life.manner in ("slow", "stubborn"):
                life.state = "stopping"
            self.world.stop(life, command)
        elif isinstance(command, SetTimer) and command.after_s * 1000 <= self.scenario.short_ms:
            self.world.timer(command.after_s, lambda: self._budget_is_over(command.key))
        elif isinstance(command, Reply):
            self._answered(command)

    def _budget_is_over(self, key: Any) -> None:
        _purpose, name, run = key
        if self.tree.run_of(name) == run:
            self._killed.append(self._paths[name] + "/")
        self.feed(Timer(key))

    # What the tree says

    def _observe(self, supervisor: str, command: Command) -> None:
        path = self._paths[supervisor]
        if isinstance(command, Start):
            assert command.spec is not None
            self._name(path, command, command.spec)
        elif isinstance(command, Report):
            self._record(path, f"report {command.context} {self._reason(command)} {self._key_of(command)}")
        elif isinstance(command, Stop) and command.id in self._paths and command.shutdown == "brutal_kill":
            self._killed.append(self._paths[command.id] + "/")
        elif isinstance(command, Up) and supervisor != "root":
            self._up.add(path)
            self._record(*_in_parent(path, "start {} ok"))
        elif isinstance(command, Down):
            self._is_down(supervisor, path, command)

    def _is_down(self, supervisor: str, path: str, command: Down) -> None:
        run = self.tree.run_of(supervisor)
        text = words.failure(command.reason) if command.reason.startswith("failed") else ENDINGS[command.ending]
        self._ends[run] = text
        if supervisor == "root":
            self.down = True
            self._record("", f"down {text}")
        elif path in self._up:
            self._record(*_in_parent(path, f"end {{}} {text}"))
        else:
            self._record(*_in_parent(path, "start {} error"))

    def _name(self, path: str, command: Start, spec: ChildSpec) -> None:
        key: Any = command.id
        if "k" in spec.args:
            key = (command.id.rpartition("-")[0], spec.args["k"])
        self._attempts[path, key] += 1
        name = words.shown(key)
        label = f"{path}/{name}.{self._attempts[path, key]}"
        self._labels[command.run] = label
        if spec.nested is not None:
            self._paths[command.id] = label
            return
        traits = spec.args["traits"]
        attempt = self._attempts[path, key]
        self.lives[command.run] = Life(
            command.run,
            command.id,
            key,
            label,
            path,
            traits["manner"],
            self._outcome(label, traits, attempt),
            self._draw("hold:" + label) < traits["hold"],
            spec.shutdown,
        )

    def _outcome(self, label: str, traits: Any, attempt: int) -> str:
        fail = traits["fail_first"] if attempt == 1 else traits["fail_again"]
        lot = self._draw(label)
        if lot < fail:
            return "error"
        return "ignore" if lot < fail + traits["ignore"] else "ok"

    def _draw(self, text: str) -> int:
        return zlib.crc32(f"{self.scenario.seed}:{text}".encode()) % 100

    def _key_of(self, report: Report) -> str:
        label = self._labels.get(report.run, report.offender)
        return re.sub(r"[#.].*", "", label.rpartition("/")[2])

    def _reason(self, report: Report) -> str:
        if report.context == "start_error":
            return words.failure(report.reason)
        return self._ends[report.run] if report.context != "shutdown" else report.reason

    def _record(self, group: str, text: str) -> None:
        if not any(f"{group}/".startswith(prefix) for prefix in self._killed):
            self._records.append((group, text))

    # Script

    def _apply(self, event: tuple[Any, ...]) -> None:
        if event[0] == "wait":
            self.world.skip(4.1)
        elif event[0] == "die":
            life = self.lives.get(self._newest.get(event[1], 0))
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
        dynamic = self._strategies[supervisor] == "simple_one_for_one"
        self._answer(reply.ref, words.answer(request, reply.answer, self._short_label, dynamic=dynamic))

    def _answer(self, number: int, text: str) -> None:
        self._record("~calls", f"{number:03} {text}")

    def _short_label(self, run: int) -> str:
        return self._labels[run].rpartition("/")[2]

    async def _settle(self) -> None:
        while True:
            await self.world.settle()
            gates: dict[str, Callable[[], None]] = {self._paths[n]: partial(self._release, n) for n in self.tree.held}
            for life in self.lives.values():
                if life.state == "gate" and not life.held:
                    gates[life.label] = partial(self._grant, life)
            if not gates:
                return
            gates[min(gates)]()

    async def _finale(self) -> None:
        self.feed(Halt())
        await self._settle()
        while not self.down:
            gates = sorted((x.label, x.run) for x in self.lives.values() if x.state == "gate")
            stopping = sorted((x.label, x.run) for x in self.lives.values() if x.state == "stopping")
            if gates:
                self._grant(self.lives[gates[0][1]])
            else:
                self.world.die(self.lives[stopping[0][1]], "kill")
            await self._settle()

    # What a step prints

    def _step(self) -> None:
        records, self._records = self._records, []
        for group in sorted({group for group, _text in records}):
            texts = [text for each, text in records if each == group]
            if group == "~calls":
                texts.sort()
            self.lines += [f"{group}\t{text}" for text in texts]
        for path, name in sorted((self._paths[name], name) for name in self.tree.supervisors()):
            if not self.down:
                self.lines.append(f"{path}\tview {self._view(name)}")
        self.lines.append("-")

    def _view(self, name: str) -> str:
        if self.tree.supervisors()[name]:
            return "busy"
        self.feed(Call(-1, name, WhichChildren()))
        self.feed(Call(-2, name, CountChildren()))
        dynamic = self._strategies[name] == "simple_one_for_one"
        rows = words.rows(self._views[-1], self._short_label, dynamic=dynamic)
        return f"{rows}; {words.counts(self._views[-2])}"


def _in_parent(path: str, text: str) -> tuple[str, str]:
    group, _, name = path.rpartition("/")
    return group, text.format(name)
