"""``python -m tests.conformance.mutants``: breaks a copy of the core in many small ways; every one must be found out.

A comparison that cannot fail proves nothing. Each mutant is one replaced line; the same scenarios that pass with the
real core are run with the broken one. The last line is ``N found out, N survived``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.compare import compare, seeds

__all__ = ["MUTANTS", "Mutant", "broken_copy", "differing"]

_REPOSITORY = Path(__file__).parents[2]
_RUN = "import json, sys; from tests.conformance.compare import core_traces; "
_RUN += "json.dump(core_traces(json.load(sys.stdin)), sys.stdout)"


@dataclass(frozen=True)
class Mutant:
    """One way to be wrong."""

    wrong: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant("one restart too few is allowed", "intensity.py", "> self._intensity", ">= self._intensity"),
    Mutant("restarts are never forgotten", "intensity.py", "> self._period_s:", "> 1000 * self._period_s:"),
    Mutant("a failed restart does not count again", "strategy.py", "self.post(TryAgain(child.id))", "pass"),
    Mutant("one_for_all stops in start order", "strategy.py", "in reversed(children):", "in children:"),
    Mutant("rest_for_one takes the elders too", "children.py", "[children.index(child) :]", "[:]"),
    Mutant(
        "temporary siblings come back",
        "strategy.py",
        "self.forget(child)\n        for child in children:",
        "pass\n        for child in children:",
    ),
    Mutant("supervisors shut down in start order", "strategy.py", "list(self.table)[::-1]", "list(self.table)"),
    Mutant("shutdown is no clean end", "events.py", "(Ending.NORMAL, Ending.SHUTDOWN, ", "(Ending.NORMAL, "),
    Mutant(
        "clean ends of permanent children are silent", "strategy.py", "is Restart.PERMANENT or not", "is None or not"
    ),
    Mutant("any_significant waits for all", "strategy.py", "is AutoShutdown.ANY_SIGNIFICANT or", "is None or"),
    Mutant("a restarting significant child is no reason", "strategy.py", "not other.stopped", "other.state.live"),
    Mutant("terminate_child forgets the spec", "calls.py", "supervisor.forget(child)", "supervisor.delete(child)"),
    Mutant("killed at shutdown is no error", "children.py", "ending is asked or", "ending is Ending.KILLED or"),
    Mutant(
        "the youngest message comes first", "machine.py", "_mailbox.append(message)", "_mailbox.appendleft(message)"
    ),
    Mutant("a nested supervisor's budget is not kept", "tree.py", "isinstance(command.shutdown, int)", "False"),
    Mutant("giving up is a crash to the parent", "strategy.py", "else Ending.SHUTDOWN", "else Ending.ABNORMAL"),
    Mutant(
        "a failed start leaves the elders up",
        "strategy.py",
        "() if kill else children",
        "() if 'start child' in reason else children",
    ),
    Mutant(
        "an update keeps the old order",
        "children.py",
        "fresh | {name",
        "{n: fresh.get(n, c) for n, c in old.items()} | fresh | {name",
    ),
)


def broken_copy(mutant: Mutant, directory: Path) -> None:
    """Write the package with this mistake. Raises ValueError when the line is not there (any more) exactly once."""
    shutil.copytree(_REPOSITORY / "supervisor", directory / "supervisor", ignore=shutil.ignore_patterns("__pycache__"))
    path = directory / "supervisor" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.wrong}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.file}; allowed: once"
        )
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def differing(mutant: Mutant, wanted: list[int]) -> int:
    """Return how many of the scenarios go differently with this mistake."""
    with tempfile.TemporaryDirectory(prefix="mutant") as name:
        broken_copy(mutant, Path(name))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([name, str(_REPOSITORY)])}

        def wrong(these: list[int]) -> dict[int, list[str]]:
            command = [sys.executable, "-P", "-c", _RUN]
            text = json.dumps(these)
            done = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=True)
            return {int(seed): lines for seed, lines in json.loads(done.stdout).items()}

        return len(compare(wanted, wrong, again=False).failed)


def main() -> int:
    """Try them all; return 1 when one survives."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    survived = 0
    for mutant in MUTANTS:
        used = count
        found = differing(mutant, seeds(1, used))
        if not found:  # a rare one
            used = 6 * count
            found = differing(mutant, seeds(1, used))
        survived += not found
        print(f"{'found out' if found else 'SURVIVED '} {found:4} of {used}: {mutant.wrong}", flush=True)
    print(f"{len(MUTANTS) - survived} found out, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
