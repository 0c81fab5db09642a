"""What the pattern rules are worth on sources and kinds that their thresholds were not chosen on.

    python -m tests.corpus.cross_validation

For every fold (one source, or one kind of stuck session, of all three corpora) the thresholds are chosen on the rest
alone: a quarter above the second highest peak that a working conversation reaches, plus one, never below four (rounds
of a cycle: three), and for repeats that wait never below thrice what is chosen for those that do not. The fold is
judged with them. Peaks come from the real step. The rules of the specification and the ceilings keep their knobs; what
they flag counts, too.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.judge_knobs import Patterns
from actors.knobs import Progress
from actors.messages import ProgressEvent, Verdict
from actors.sensors.replay import stamped
from actors.tree.judge import rank
from actors.tree.routing import Router
from actors.tree.signals import Signals, latest, signals_of
from actors.tree.state import TreeState, new_tree
from actors.tree.step import merge, step

__all__ = ["FILES", "HERE", "KNOBS", "Case", "cases", "chosen", "flagged", "folds", "main", "shipped"]

HERE = Path(__file__).parent
FILES = ("sessions.jsonl.gz", "native.jsonl.gz", "scenarios.jsonl")
KNOBS = (
    "repeat_run", "cycle_rounds", "exact_repeat", "same_outcome", "known_outcomes", "nothing_new", "failure_points",
    "same_failure", "provider_failures", "edit_run", "idle_edits", "refused_done", "injected_run", "compaction_run",
    "text_run", "wait_repeat",
)  # fmt: skip
_KEPT = {"loop_factor", "pause_s", "silent_after_s", "waiting_tools"}
_OFF = dict.fromkeys(Patterns.model_fields.keys() - _KEPT, 10_000) | {"nothing_new": 13, "idle_edits": 13}
SPECIFICATION = Progress.model_validate(_OFF)
Thresholds = dict[str, int]


@dataclass(frozen=True)
class Case:
    """One conversation of a corpus: what it is, its peaks by knob, and whether the other rules flag it."""

    name: str
    corpus: str
    source: str
    kind: str
    stuck: bool
    peaks: dict[str, int]
    otherwise: bool


def cases() -> list[Case]:
    """Return every core conversation of the corpora, stepped once."""
    return [_case(name, line) for name in FILES for line in _lines(HERE / name) if line.get("tier", "core") == "core"]


def chosen(training: Iterable[Case]) -> Thresholds:
    """Choose the thresholds on ``training`` alone."""
    rest = list(training)
    found = {}
    for knob in KNOBS:
        working = _sorted(rest, knob, stuck=False)
        found[knob] = max(3 if knob == "cycle_rounds" else 4, 1 + math.ceil(1.25 * working[1]))
    found["wait_repeat"] = max(found["wait_repeat"], 3 * found["exact_repeat"])
    return found


def shipped() -> Thresholds:
    """Return the defaults."""
    return {knob: getattr(Progress(), knob) for knob in KNOBS}


def flagged(case: Case, thresholds: Thresholds) -> bool:
    return case.otherwise or any(case.peaks[knob] >= threshold for knob, threshold in thresholds.items())


def folds(every: list[Case], by: str) -> Iterator[tuple[str, list[Case], list[Case]]]:
    """Yield each value of ``source`` or ``kind`` with its cases and the rest."""
    for value in sorted({getattr(case, by) for case in every} - {""}):
        yield (
            value,
            [one for one in every if getattr(one, by) == value],
            [one for one in every if getattr(one, by) != value],
        )


def main() -> None:
    every = cases()
    _print("shipped defaults", [(case, flagged(case, shipped())) for case in every])
    for by in ("source", "kind"):
        found = []
        for value, held, rest in folds(every, by):
            thresholds = chosen(rest)
            judged = [(case, flagged(case, thresholds)) for case in held]
            found += judged
            wrong = [case.name for case, hit in judged if hit != case.stuck]
            if wrong or (by == "kind" and held[0].corpus == FILES[0]):
                print(f"  without {by} {value:28} {_figures(judged)}  wrong: {' '.join(wrong) or '-'}")
        _print(f"leave one {by} out", found)
    print("highest peaks of working and stuck conversations; the shipped threshold lies between")
    for knob in KNOBS:
        working, stuck = (_sorted(every, knob, stuck=value) for value in (False, True))
        print(f"  {knob:20} working {working[:6]}  stuck {stuck[:3]}  shipped {shipped()[knob]}")


def _sorted(every: Iterable[Case], knob: str, *, stuck: bool) -> list[int]:
    return sorted((case.peaks[knob] for case in every if case.stuck is stuck), reverse=True)


def _figures(judged: list[tuple[Case, bool]]) -> str:
    stuck = [hit for case, hit in judged if case.stuck]
    working = [hit for case, hit in judged if not case.stuck]
    return f"caught {sum(stuck):3}/{len(stuck):3}  false {sum(working):2}/{len(working):3}"


def _print(title: str, judged: list[tuple[Case, bool]]) -> None:
    print(title)
    for name in FILES:
        print(f"  {name:20} {_figures([one for one in judged if one[0].corpus == name])}")


def _lines(path: Path) -> Iterator[dict[str, object]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from map(json.loads, text.splitlines())


def _case(corpus: str, line: dict[str, object]) -> Case:
    events = [ProgressEvent.model_validate(one) for one in line["events"]]  # type: ignore[attr-defined]
    peaks, flag = _peaks(events, at_end=line.get("judge") == "end")
    source, stuck = str(line["source"]), line["label"] == "stuck"
    project = re.split(r" |#|::", source)[0] if corpus.startswith("scenarios") else source
    kind = str(line.get("kind") or project) if stuck else ""
    return Case(str(line["conversation"]), corpus, project, kind, stuck, peaks, flag)


def _peaks(events: list[ProgressEvent], *, at_end: bool) -> tuple[Thresholds, bool]:
    router, trees, peaks, flag = Router(), dict[str, TreeState](), dict.fromkeys(KNOBS, 0), False
    for event in stamped(events):
        routed = router.resolve(event)
        tree = trees.setdefault(routed.tree, new_tree(routed.tree))
        if routed.merge is not None:
            router.merged(routed.merge.old, routed.tree)
            if routed.merge.old in trees:
                merge(tree, trees.pop(routed.merge.old), SPECIFICATION, routed.merge.parent)
        step(tree, event, SPECIFICATION)
        now = _counts(signals_of(tree.conversations[event.session_id], SPECIFICATION))
        peaks = now if at_end else {knob: max(count, now[knob]) for knob, count in peaks.items()}
        flag = rank(tree.verdict) > 0 or (flag and not at_end)
    return peaks, flag


def _counts(signals: Signals) -> Thresholds:
    counts = {knob: getattr(signals, knob) for knob in KNOBS if knob not in ("nothing_new", "idle_edits")}
    return counts | {"nothing_new": latest(signals.again, 1), "idle_edits": latest(signals.idle_edits, 1)}


assert rank(Verdict.OK) == 0


if __name__ == "__main__":
    main()
