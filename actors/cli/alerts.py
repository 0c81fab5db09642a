"""treewarden alerts: what is open, why a channel was told or not, and what the operator says to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from actors.cli.failure import Exit, Failure, failing
from actors.cli.lengths import seconds_of
from actors.cli.options import Json, RuntimeDir, colour, emit_json
from actors.cli.table import ago, clock, columns, plain

__all__ = ["app"]

app = typer.Typer(help="Alerts: what is open, why it was told or not; acknowledge, silence, feedback.")

Id = Annotated[int, typer.Argument(metavar="ID", help="Number of an entry of the log, as alerts shows it.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the alert: the id of the tree.")]
_KINDS = {"warning": "stalling", "critical": "looping"}


@app.callback(invoke_without_command=True)
@failing
def alerts(
    context: typer.Context,
    log: Annotated[bool, typer.Option("--log", help="What happened, the newest first, not what is open.")] = False,
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Show the alerts that are open."""
    from actors.cli.client import Control

    if context.invoked_subcommand is not None:
        return
    with Control(runtime_dir) as control:
        found = control.get("/v1/alerts" if log else "/v1/alerts/open")["alerts"]
    if json_output:
        emit_json(found)
    elif not found:
        typer.echo("nothing happened yet" if log else "no alert is open")
    else:
        typer.echo("\n".join(_log(found) if log else _open(found)))


@app.command()
@failing
def why(entry: Id, json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Say which channel was told of one entry, with every attempt, and what holds the others back."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        found = control.get(f"/v1/alerts/{entry}")
    if json_output:
        emit_json(found)
    else:
        typer.echo("\n".join(_why(found)))


@app.command()
@failing
def ack(key: Key, json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Take an open alert on: it is told again only when it gets worse, or ends."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        answer = control.post("/v1/alerts/acknowledge", {"key": key})
    if json_output:
        emit_json(answer)
    else:
        typer.echo(f"{plain(key)} acknowledged at {answer['severity']}: told again only when it gets worse, or ends")


@app.command()
@failing
def silence(  # noqa: PLR0917 - options of a command
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Key of the alert: the id of the tree.")] = None,
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 90s, 30m, 2h, 1d.")] = "1h",
    source: Annotated[str | None, typer.Option(help="Only alerts of this source, such as no-progress.")] = None,
    severity: Annotated[str, typer.Option(help="Up to this one: info, warning or critical.")] = "critical",
    note: Annotated[str, typer.Option(help="Why.")] = "",
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Mute alerts for a while; what is still true is told at once when it ends."""
    from actors.cli.client import Control

    body = {"key": key, "source": source, "severity": severity, "for_s": seconds_of(length), "note": note}
    with Control(runtime_dir) as control:
        answer = control.post("/v1/silences", body)
    if json_output:
        emit_json(answer)
    else:
        typer.echo(f"silence {answer['id']} until {clock(answer['until'])}, covers {answer['covers']} open alerts")


@app.command()
@failing
def unsilence(
    number: Annotated[int, typer.Argument(metavar="ID", help="Number of the silence.")],
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """End a silence now."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        answer = control.delete(f"/v1/silences/{number}")
    if json_output:
        emit_json(answer)
    else:
        typer.echo(f"silence {number} ended")


@app.command()
@failing
def silences(json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Show the silences that are in force."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        found = control.get("/v1/silences")["silences"]
    if json_output:
        emit_json(found)
        return
    rows = [[one["id"], one["key"], one["source"], one["severity"], clock(one["until"]), one["note"]] for one in found]
    typer.echo("\n".join(columns(("ID", "KEY", "SOURCE", "UP TO", "UNTIL", "NOTE"), rows)) if rows else "none")


@app.command()
@failing
def feedback(
    entry: Id,
    says: Annotated[str, typer.Argument(metavar="right|wrong", help="Whether the alert was right.")],
    note: Annotated[str, typer.Option(help="Why.")] = "",
    json_output: Json = False,
    runtime_dir: RuntimeDir = None,
) -> None:
    """Say whether an alert was right; it is kept with its evidence, for calibration."""
    from actors.cli.client import Control

    word: Literal["right", "wrong"] | None = {"right": "right", "wrong": "wrong"}.get(says)  # type: ignore[assignment]
    if word is None:
        raise Failure(Exit.INVALID, f"{says} is not allowed; allowed: right, wrong")
    with Control(runtime_dir) as control:
        answer = control.post(f"/v1/alerts/{entry}/feedback", {"says": word, "note": note})
    if json_output:
        emit_json(answer)
    else:
        typer.echo(f"alert {entry} was {word}: kept with its evidence")


def _open(found: list[Mapping[str, Any]]) -> list[str]:
    now = time.time()
    rows = [
        (one["entry"], one["severity"], one["key"], one["title"], ago(one["opened_at"], now), one["acknowledged"])
        for one in found
    ]
    return _coloured(columns(("ID", "SEVERITY", "KEY", "TITLE", "OPENED", "ACKNOWLEDGED"), rows), found)


def _log(found: list[Mapping[str, Any]]) -> list[str]:
    rows = [
        (one["id"], clock(one["at"]), one["severity"], one["state"], one["key"], one["title"], _sum(one["deliveries"]))
        for one in found
    ]
    return _coloured(columns(("ID", "WHEN", "SEVERITY", "STATE", "KEY", "TITLE", "CHANNELS"), rows), found)


def _coloured(lines: list[str], found: list[Mapping[str, Any]]) -> list[str]:
    shown = [colour(line, _KINDS.get(one["severity"], "")) for line, one in zip(lines[1:], found, strict=True)]
    return [lines[0], *shown]


def _sum(deliveries: list[Mapping[str, Any]]) -> str:
    return " ".join(f"{one['channel']}:{_became(one)}" for one in deliveries) or "-"


def _became(delivery: Mapping[str, Any]) -> str:
    return str(delivery["error"] if delivery["state"] == "suppressed" else delivery["state"])


def _why(found: Mapping[str, Any]) -> list[str]:
    what = f"{found['severity']} {found['state']} of {plain(found['key'])} by {plain(found['source'])}"
    lines = [
        f"alert {found['id']}: {plain(found['title'])}",
        f"{what}, {clock(found['at'])}",
        plain(found["summary"]),
        "",
        "what each channel got of this entry:",
    ]
    rows = [(one["channel"], one["action"], one["state"], one["attempts"], one["error"]) for one in found["deliveries"]]
    lines += columns(("CHANNEL", "ACTION", "STATE", "ATTEMPTS", "WHY"), rows) if rows else ["nothing"]
    lines += ["", "how it stands now:"]
    now = [(one["name"], one["told"], one["why"], _again(one["again_s"])) for one in found["standing"]]
    lines += (
        columns(("CHANNEL", "TOLD LAST", "WOULD NOW BE", "AGAIN IN"), now) if now else ["the notifier does not say"]
    )
    if found["silences"]:
        lines.append(f"silences: {', '.join(map(str, found['silences']))} (end one: treewarden alerts unsilence ID)")
    if found["acknowledged"]:
        lines.append(f"acknowledged at {found['acknowledged']}")
    return lines


def _again(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f}s"
