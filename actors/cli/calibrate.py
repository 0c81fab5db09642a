"""treewarden calibrate: propose thresholds from recorded sessions, and put them into force on request (P042).

Reads only, but for ``--apply``: that changes the daemon's settings as ``config set`` does, or the file of ``--config``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.histories import files_of, read_all
from actors.cli.options import ConfigOption, Json, RuntimeDir, emit_json
from actors.cli.replay import FormatOption, PathsArgument, chosen_format, knobs_of
from actors.cli.table import columns, plain

if TYPE_CHECKING:
    from actors.sensors.calibration import Candidate, Proposal, Recorded, Score

__all__ = ["calibrate"]

NAMES = 3  # sessions that a row of the table names
HEAD = ("KNOB", "NOW", "TRIED", "WORKING FLAGGED", "STUCK CAUGHT", "DIFFERENCE")


def calibrate(  # noqa: PLR0917 - typer makes options of them
    paths: PathsArgument = None,
    stuck: Annotated[
        list[str] | None,
        typer.Option("--stuck", metavar="CONVERSATION", help="This one was stuck; may be given often."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Put the proposal into force.")] = False,
    json_output: Json = False,
    format_: FormatOption = "auto",
    config: ConfigOption = None,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Propose thresholds that leave your working sessions alone; sessions without a label count as working."""
    from actors.sensors.calibration import propose

    chosen_format(format_)
    knobs = knobs_of(config, runtime_dir)
    recorded = list(_recorded(files_of(paths or []), format_, tuple(stuck or ())))
    if not recorded:
        raise Failure(Exit.INVALID, "no conversation could be read")
    with _bar() as step:
        proposal = propose(recorded, knobs, step)
    overrides = {f"progress.{one.knob}": one.after for one in proposal.changes}
    if json_output:
        emit_json(_document(recorded, proposal, overrides))
    else:
        typer.echo("\n".join(_screen(recorded, proposal, overrides, applied=apply)))
    if apply and overrides:
        _apply(overrides, config, runtime_dir, quiet=json_output)


def _recorded(files: list[Path], format_: str, stuck: tuple[str, ...]) -> Iterator[Recorded]:
    from actors.sensors.calibration import Recorded

    names: set[str] = set()
    for world in read_all(files, format_, bar=True):
        if not world.events:
            continue
        own = world.conversation or world.events[0].session_id
        name = own if own not in names else f"{own} ({len(names)})"
        names.add(name)
        yield Recorded(name, world, world.label == "stuck" or (bool(stuck) and own.startswith(stuck)))


@contextmanager
def _bar() -> Iterator[Callable[[], None]]:
    """How often all thresholds are tried is not known beforehand: the bar only shows that it goes on."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("trying thresholds", total=None)
        yield lambda: progress.advance(task)


def _screen(recorded: list[Recorded], proposal: Proposal, overrides: dict[str, Any], *, applied: bool) -> list[str]:
    stuck = sum(one.stuck for one in recorded)
    working = len(recorded) - stuck
    labelled = sum(one.world.label is not None for one in recorded)
    lines = [
        f"{len(recorded)} sessions: {stuck} stuck, {working} working ({labelled} by their label, the rest assumed)",
        f"now flagged: {_counts(proposal.before, stuck, working)}",
        *(f"  working, flagged for {reason}: {plain(name)}" for name, reason in _some(proposal.before.working)),
        "",
    ]
    rows = [_cells(one, proposal.before, stuck, working) for one in proposal.tried]
    lines += [*columns(HEAD, rows), ""] if rows else []
    if not proposal.changes:
        return [*lines, "nothing to propose: no single threshold would do better on these sessions"]
    lines += [
        "proposed:",
        *(f"  progress.{one.knob}: {one.before} -> {one.after}" for one in proposal.changes),
        f"then flagged: {_counts(proposal.after, stuck, working)}",
    ]
    if not applied:
        pairs = " ".join(f"{name}={value}" for name, value in overrides.items())
        lines.append(f"put it into force: treewarden calibrate --apply, or treewarden config set {pairs}")
    return lines


def _counts(score: Score, stuck: int, working: int) -> str:
    return f"{len(score.working)} of {working} working, {len(score.stuck)} of {stuck} stuck"


def _some(names: dict[str, str]) -> list[tuple[str, str]]:
    return list(names.items())[:20]


def _cells(one: Candidate, before: Score, stuck: int, working: int) -> list[Any]:
    flagged, caught = f"{len(one.score.working)} of {working}", f"{len(one.score.stuck)} of {stuck}"
    return [one.knob, one.before, one.after, flagged, caught, _difference(one.score, before)]


def _difference(score: Score, before: Score) -> str:
    parts = []
    for word, old, new in (("working", before.working, score.working), ("stuck", before.stuck, score.stuck)):
        for sign, names in (("-", set(old) - set(new)), ("+", set(new) - set(old))):
            if names:
                shown = ", ".join(plain(name) for name in sorted(names)[:NAMES])
                parts.append(f"{sign}{len(names)} {word} ({shown}{', ...' if len(names) > NAMES else ''})")
    return "; ".join(parts)


def _document(recorded: list[Recorded], proposal: Proposal, overrides: dict[str, Any]) -> dict[str, Any]:
    def shown(score: Score) -> dict[str, Any]:
        return {"working": score.working, "stuck": score.stuck}

    return {
        "sessions": {"stuck": sum(one.stuck for one in recorded), "working": sum(not one.stuck for one in recorded)},
        "before": shown(proposal.before),
        "after": shown(proposal.after),
        "overrides": overrides,
        "tried": [
            {"knob": f"progress.{one.knob}", "before": one.before, "after": one.after, **shown(one.score)}
            for one in proposal.tried
        ],
    }


def _apply(overrides: dict[str, Any], config: Path | None, runtime_dir: Path | None, *, quiet: bool) -> None:
    if config is not None:
        from actors.cli.config_file import write_knobs

        write_knobs(config, overrides)
        said = f"written to {plain(config)}; a daemon takes it at its next start or reload"
    else:
        from actors.cli.client import Control

        with Control(runtime_dir) as control:
            answer = control.patch("/v1/settings", {"overrides": overrides, "dry_run": False, "note": "calibrate"})
        said = f"in force: version {answer['version']} of the settings"
    if not quiet:
        typer.echo(said)
