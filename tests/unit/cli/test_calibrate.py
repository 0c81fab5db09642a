"""treewarden calibrate on the command line: table, JSON, apply to a file and to a daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from actors.cli.config_file import write_knobs
from actors.cli.failure import Failure
from actors.cli.main import app
from tests.unit.cli.daemon import Daemon

EVENT = {"session_id": "s", "tool": "bash", "fingerprint": "f", "target": "make", "exit": 0, "result": "r"}
TIGHT = "progress:\n  repeat_run: 2\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    lines = [
        {"conversation": "loop", "label": "stuck", "events": [EVENT] * 40},
        {"conversation": "poll", "events": [EVENT] * 2},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(*arguments: object, **environment: str) -> tuple[int, str, str]:
    nowhere = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"), "/nonexistent")
    clean = {**nowhere, "NO_COLOR": "1", **environment}
    result = CliRunner().invoke(app, ["calibrate", *map(str, arguments)], env=clean)
    return result.exit_code, result.stdout, result.stderr


def test_calibrate_says_what_is_flagged_and_what_would_do_better(log: Path) -> None:
    code, out, _ = run(log, TREEWARDEN__PROGRESS__REPEAT_RUN="2")

    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "2 sessions: 1 stuck, 1 working (1 by their label, the rest assumed)"
    assert lines[1] == "now flagged: 1 of 1 working, 1 of 1 stuck"
    assert lines[2] == "  working, flagged for repeat_run: poll"
    assert any(line.startswith("repeat_run") and line.endswith("-1 working (poll)") for line in lines)
    assert "then flagged: 0 of 1 working, 1 of 1 stuck" in lines
    assert lines[-1].startswith(
        "put it into force: treewarden calibrate --apply, or treewarden config set progress.rep"
    )


def test_calibrate_json_has_overrides_and_the_table(log: Path) -> None:
    code, out, _ = run("--json", log, TREEWARDEN__PROGRESS__REPEAT_RUN="2")
    found = json.loads(out)

    assert code == 0
    assert found["sessions"] == {"stuck": 1, "working": 1}
    assert found["before"]["working"] == {"poll": "repeat_run"}
    assert list(found["overrides"]) == ["progress.repeat_run"]
    assert {one["knob"] for one in found["tried"]} >= {"progress.repeat_run"}


def test_calibrate_sessions_may_be_named_as_stuck(log: Path) -> None:
    found = json.loads(run("--json", "--stuck", "pol", log)[1])
    assert found["sessions"] == {"stuck": 2, "working": 0}


def test_calibrate_apply_changes_the_file_of_config(log: Path) -> None:
    config = log.parent / "treewarden.yaml"
    config.write_text(f"# mine\n{TIGHT}  window: 70 # wide\n")
    code, out, err = run("--apply", "--config", config, log)

    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith(f"written to {config}")
    text = config.read_text()
    assert text.startswith("# mine\n")
    assert "window: 70 # wide" in text
    assert yaml.safe_load(text)["progress"]["repeat_run"] > 2
    assert run("--config", config, log)[1].splitlines()[-1].startswith("nothing to propose")


def test_calibrate_apply_changes_the_daemon_as_config_set_does(log: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"version": 4, "values": {"progress": {"repeat_run": 2}}, "sources": {}}
    with Daemon(tmp_path / "run") as daemon:
        daemon.answers = {
            ("GET", "/v1/settings"): settings,
            ("PATCH", "/v1/settings"): {"version": 5, "applied": True, "changes": []},
        }
        code, out, _ = run("--apply", "--runtime-dir", daemon.directory, log)

    assert code == 0
    assert out.splitlines()[-1] == "in force: version 5 of the settings"
    method, _, body, *_ = daemon.asked[-1]
    assert (method, list(body["overrides"]), body["note"]) == ("PATCH", ["progress.repeat_run"], "calibrate")


def test_calibrate_apply_without_a_daemon_is_unreachable(log: Path, tmp_path: Path) -> None:
    environment = {"TREEWARDEN__PROGRESS__REPEAT_RUN": "2", "TREEWARDEN_RUNTIME_DIR": str(tmp_path)}
    code, _, err = run("--apply", log, **environment)

    assert code == 3
    assert "no daemon answers" in err


def test_calibrate_without_history_says_where_it_looked() -> None:
    code, out, err = run()

    assert (code, out) == (5, "")
    assert "Claude Code: /nonexistent/.claude/projects" in err


def knobs_after(path: Path, text: str | None, **values: object) -> Any:
    if text is not None:
        path.write_text(text)
    write_knobs(path, {f"progress.{name}": value for name, value in values.items()})
    return yaml.safe_load(path.read_text())


def test_written_knobs_replace_commented_ones_or_are_added(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    reference = "progress:\n  # doc\n  #window: 60\n  mode: warn\nstore:\n  #retain_days: 14\n"

    assert knobs_after(path, reference, window=80, stall_turns=30) == {
        "progress": {"stall_turns": 30, "window": 80, "mode": "warn"},
        "store": None,
    }
    assert "  # doc\n" in path.read_text()
    assert knobs_after(tmp_path / "new.yaml", None, window=80) == {"progress": {"window": 80}}
    assert knobs_after(path, "run:\n  port: 1\n", window=80) == {"run": {"port": 1}, "progress": {"window": 80}}


def test_file_that_would_become_invalid_or_cannot_be_edited_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    for text, values in (("progress: {window: 60}\n", {"window": 80}), (TIGHT, {"window": -1})):
        path.write_text(text)
        with pytest.raises(Failure):
            write_knobs(path, {f"progress.{name}": value for name, value in values.items()})
        assert path.read_text() == text
        assert [one.name for one in tmp_path.iterdir()] == ["t.yaml"]
