"""treewarden demo: a stuck and a working session, played into a daemon, with verdict, reason and alert.

The sessions are real ones without their content (demo_sessions.jsonl). When no daemon answers, one is started in a
temporary directory on a free port and ended afterwards.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from actors.cli.failure import Exit, Failure
from actors.cli.options import Json, RuntimeDir, colour, emit_json
from actors.cli.table import plain, usd

if TYPE_CHECKING:
    from actors.cli.client import Control

__all__ = ["ROLES", "demo", "sessions"]

ROLES = ("working", "stuck")
_PATIENCE_S = 10.0
_POLL_S = 0.1
_STEP_S = 2.0


def demo(json_output: Json = False, runtime_dir: RuntimeDir = None) -> None:
    """Play a stuck and a working session; show verdict, reason and alert within seconds."""
    with _daemon(runtime_dir) as (control, own):
        status = control.get("/v1/status")
        played = sessions(prefix=f"demo-{int(time.time())}", end=time.time())
        if not json_output:
            typer.echo(_opening(played, status["url"], own))
        for events in played.values():
            _post(status, events)
        found = _watch(control, {role: events[0]["session_id"] for role, events in played.items()})
    if json_output:
        emit_json({"url": status["url"], **found})
    else:
        typer.echo("\n".join(_screen(found, own)))
    if not _as_expected(found):
        raise Failure(Exit.DEGRADED, f"no verdict and alert within {_PATIENCE_S:g} s: see treewarden doctor")


def sessions(*, prefix: str, end: float) -> dict[str, list[dict[str, Any]]]:
    """Read the bundled sessions by role: named anew, with times that end at ``end`` (epoch seconds)."""
    lines = Path(__file__).with_name("demo_sessions.jsonl").read_text(encoding="ascii").splitlines()
    found = {}
    for line in map(json.loads, lines):
        role, events = line["conversation"], line["events"]
        start = end - _STEP_S * len(events)
        name = f"{prefix}-{role}"
        fixed = {"session_id": name, "agent": "build", "source": "replay"}
        found[role] = [
            {**event, **fixed, "id": f"{name}-{place}", "t": start + _STEP_S * place}
            for place, event in enumerate(events)
        ]
    return found


def _post(status: Mapping[str, Any], events: list[dict[str, Any]]) -> None:
    import httpx

    try:
        sensor = json.loads(Path(status["sensor_file"]).read_text())
    except FileNotFoundError:
        raise Failure(Exit.DEGRADED, "the daemon takes no events yet: see treewarden status") from None
    headers = {"Authorization": f"Bearer {sensor['token']}"}
    answer = httpx.post(f"{sensor['url']}/v1/progress", json=events, headers=headers, timeout=_PATIENCE_S)
    if answer.status_code != 202:
        raise Failure(Exit.DEGRADED, f"the daemon did not take the events: {answer.status_code} {answer.text[:200]}")


def _watch(control: Control, trees: Mapping[str, str]) -> dict[str, Any]:
    """Read both trees and the alert until all is there, or patience ends."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        found: dict[str, Any] = {role: control.get(f"/v1/trees/{tree}") for role, tree in trees.items()}
        found["alerts"] = control.get("/v1/alerts", key=trees["stuck"])["alerts"]
        settled = all(item["state"] != "pending" for alert in found["alerts"] for item in alert["deliveries"])
        if (_as_expected(found) and settled) or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_S)


def _as_expected(found: Mapping[str, Any]) -> bool:
    return found["working"]["verdict"] == "ok" and found["stuck"]["verdict"] != "ok" and bool(found["alerts"])


@contextlib.contextmanager
def _daemon(runtime_dir: Path | None) -> Iterator[tuple[Control, bool]]:
    """Give the daemon that runs, or else one of our own; say which."""
    from actors.cli.client import Control

    with Control(runtime_dir) as control:
        try:
            control.get("/v1/status")
        except Failure as failure:
            if failure.code != Exit.UNREACHABLE:
                raise
        else:
            yield control, False
            return
    from actors.cli.temporary import temporary_daemon

    with temporary_daemon() as directory, Control(directory) as control:
        yield control, True


def _opening(played: Mapping[str, list[Any]], url: str, own: bool) -> str:
    what = ", ".join(f"a {role} session ({len(events)} calls)" for role, events in played.items())
    return f"playing {what} into {'a temporary daemon at ' if own else ''}{url}"


def _screen(found: Mapping[str, Any], own: bool) -> list[str]:
    lines = [""]
    for role in ROLES:
        tree = found[role]
        verdict = colour(tree["verdict"], tree["verdict"])
        lines += [f"{role} session {plain(tree['id'])}", f"  verdict  {verdict}", f"  reason   {tree['reason']}"]
        lines += [
            f"  since    {tree['turns_since_landed']} turns, {usd(tree['usd_since_landed'])} since something landed"
        ]
    lines += [line for alert in reversed(found["alerts"]) for line in _alert(alert)]
    return lines if own else [*lines, "", f"next: treewarden why {found['stuck']['id']}"]


def _alert(alert: Mapping[str, Any]) -> list[str]:
    sent = [f"{item['channel']} {item['state']}{_error(item)}" for item in alert["deliveries"]]
    head = f"  alert    {alert['severity']} ({alert['state']}): {plain(alert['title'])}"
    return [
        head,
        f"           {plain(alert['summary'])}",
        f"           {plain(', '.join(sent) or 'no channel took it')}",
    ]


def _error(delivery: Mapping[str, Any]) -> str:
    return f" ({delivery['error']})" if delivery.get("error") else ""
