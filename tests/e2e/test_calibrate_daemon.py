"""calibrate --apply against a real daemon: the proposal is in force, as a runtime override, and can be taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.cli.client import Control
from actors.cli.main import app
from actors.cli.temporary import temporary_daemon

pytestmark = pytest.mark.e2e

EVENT = {"session_id": "s", "tool": "bash", "fingerprint": "f", "target": "make", "exit": 0, "result": "r"}


def run(runtime: Path, *arguments: object) -> str:
    options = [*map(str, arguments), "--runtime-dir", str(runtime)]
    result = CliRunner().invoke(app, options, env={"NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.stdout


def knob(runtime: Path) -> tuple[Any, Any]:
    with Control(runtime) as control:
        found = control.get("/v1/settings")
    return found["values"]["progress"]["repeat_run"], found["sources"]["progress.repeat_run"]


def test_calibrate_apply_puts_the_proposal_into_force_in_the_daemon(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [
        {"conversation": "loop", "label": "stuck", "events": [EVENT] * 40},
        {"conversation": "poll", "events": [EVENT] * 2},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with temporary_daemon() as runtime:
        run(runtime, "config", "set", "progress.repeat_run=2")
        said = run(runtime, "calibrate", "--apply", log)

        assert "now flagged: 1 of 1 working, 1 of 1 stuck" in said
        assert said.splitlines()[-1].startswith("in force: version ")
        value, source = knob(runtime)
        assert value > 2
        assert source == "runtime"
        assert "nothing to propose" in run(runtime, "calibrate", log)
        run(runtime, "config", "set", "progress.repeat_run=")
        assert knob(runtime)[1] == "default"
