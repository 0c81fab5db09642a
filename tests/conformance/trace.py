"""The trace of one scenario: what happened in which supervisor, under names that both sides give alike.

`root/s2.1/w5.3` is the third attempt of w5 in the first incarnation of s2. Lines are grouped by supervisor, in order
within each: between supervisors there is no order to compare.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

from supervisor.events import Command, Down, Ending, Report, Start, Stop, Up
from supervisor.spec import ChildSpec
from tests.conformance import words

__all__ = ["ENDINGS", "Life", "Trace"]

ENDINGS = {
    Ending.NORMAL: "normal",
    Ending.SHUTDOWN: "shutdown",
    Ending.SHUTDOWN_WITH: "{shutdown}",
    Ending.KILLED: "killed",
    Ending.ABNORMAL: "crash",
}


@dataclass(eq=False)
class Life:
    """One run of one worker: where it is, and what it will do."""

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
        """Its label without the path."""
        return self.label.rpartition("/")[2]


class Trace:
    """Collects records, and prints them step by step."""

    def __init__(self, seed: int) -> None:
        self.lines: list[str] = []
        self.down = False
        self.paths = {"root": "root"}
        self.ends: dict[int, str] = {}
        self._seed = seed
        self._records: list[tuple[str, str]] = []
        self._attempts: Counter[tuple[str, Any]] = Counter()
        self._labels: dict[int, str] = {}
        self._runs: dict[str, int] = {}
        self._up: set[str] = {"root"}
        self._killed: list[str] = []

    def record(self, group: str, text: str) -> None:
        """Note that something happened."""
        if not any(f"{group}/".startswith(prefix) for prefix in self._killed):
            self._records.append((group, text))

    def cut(self, supervisor: str) -> None:
        """Compare nothing below a killed supervisor any more; the Erlang side says why."""
        self._killed.append(self.paths[supervisor] + "/")

    def name_of(self, run: int) -> str:
        """Return the label of a run without its path."""
        return self._labels[run].rpartition("/")[2]

    def step(self, views: dict[str, str]) -> None:
        """Print what happened since the last step, and how the supervisors look."""
        records, self._records = self._records, []
        for group in sorted({group for group, _text in records}):
            texts = [text for each, text in records if each == group]
            if group == "~calls":
                texts.sort()
            self.lines += [f"{group}\t{text}" for text in texts]
        for path, name in sorted((self.paths[name], name) for name in views):
            self.lines.append(f"{path}\tview {views[name]}")
        self.lines.append("-")

    # What the tree says

    def observe(self, supervisor: str, command: Command) -> None:
        """Take a command of one of the machines."""
        path = self.paths[supervisor]
        if isinstance(command, Report):
            self.record(path, f"report {command.context} {self._reason(command)} {self._offender(command)}")
        elif isinstance(command, Stop) and command.id in self.paths and command.shutdown == "brutal_kill":
            self.cut(command.id)
        elif isinstance(command, Up) and supervisor != "root":
            self._up.add(path)
            self._in_parent(path, "start {} ok")
        elif isinstance(command, Down):
            self._is_down(supervisor, path, command)

    def _is_down(self, supervisor: str, path: str, command: Down) -> None:
        text = words.failure(command.reason) if command.reason.startswith("failed") else ENDINGS[command.ending]
        self.ends[self._runs.get(path, 0)] = text
        if supervisor == "root":
            self.down = True
            self.record("", f"down {text}")
        else:
            self._in_parent(path, f"end {{}} {text}" if path in self._up else "start {} error")

    def _in_parent(self, path: str, text: str) -> None:
        group, _, name = path.rpartition("/")
        self.record(group, text.format(name))

    def _offender(self, report: Report) -> str:
        label = self._labels.get(report.run, report.offender)
        return re.sub(r"[#.].*", "", label.rpartition("/")[2])

    def _reason(self, report: Report) -> str:
        if report.context == "start_error":
            return words.failure(report.reason)
        return self.ends[report.run] if report.context != "shutdown" else report.reason

    # Attempts

    def attempt(self, supervisor: str, command: Start, spec: ChildSpec) -> Life | None:
        """Name a start attempt; return the life of a worker, with its lots drawn."""
        path = self.paths[supervisor]
        key: Any = command.id
        if "k" in spec.args:
            key = (command.id.rpartition("-")[0], spec.args["k"])
        self._attempts[path, key] += 1
        number = self._attempts[path, key]
        label = self._labels[command.run] = f"{path}/{words.shown(key)}.{number}"
        if spec.nested is not None:
            self.paths[command.id] = label
            self._runs[label] = command.run
            return None
        traits = spec.args["traits"]
        held = self._draw("hold:" + label) < traits["hold"]
        outcome = self._outcome(label, traits, number)
        return Life(command.run, command.id, key, label, path, traits["manner"], outcome, held, spec.shutdown)

    def _outcome(self, label: str, traits: dict[str, Any], number: int) -> str:
        fail = traits["fail_first"] if number == 1 else traits["fail_again"]
        lot = self._draw(label)
        if lot < fail:
            return "error"
        return "ignore" if lot < fail + traits["ignore"] else "ok"

    def _draw(self, text: str) -> int:
        return zlib.crc32(f"{self._seed}:{text}".encode()) % 100
