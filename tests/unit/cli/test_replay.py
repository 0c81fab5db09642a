"""treewarden replay on the command line: output, problems on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.cli.main import app
from actors.cli.replay import FORMAT_HELP
from actors.sensors.readers.formats import FORMATS

EVENT = {"session_id": "s1", "tool": "read", "fingerprint": "f", "target": "a.py", "exit": 0, "cost_usd": 0.25}
STUCK = {"conversation": "stuck", "source": "test", "events": [EVENT] * 14}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(STUCK) + "\n{torn\n")
    return path


def run(*arguments: object, **environment: str) -> tuple[int, str, str]:
    nowhere = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), "/nonexistent")
    clean = {**nowhere, "NO_COLOR": "1", **environment}
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)], env=clean)
    return result.exit_code, result.stdout, result.stderr


def test_replay_json_prints_one_line_per_conversation_problems_on_stderr(log: Path) -> None:
    code, out, err = run("--json", log)

    assert (code, len(out.splitlines())) == (0, 1)
    assert json.loads(out)["first_flag"]["verdict"] == "stalling"
    assert len(err.splitlines()) == 1
    assert f"{log}:2: not a whole JSON line" in err


def test_replay_table_says_what_was_spent_after_the_flag(log: Path) -> None:
    code, out, _ = run(log)

    assert code == 0
    assert out.splitlines()[0].startswith("CONVERSATION  SOURCE  CALLS  VERDICT")
    assert out.splitlines()[-1] == (
        "1 conversations, 1 flagged; stopping at the first flag would have saved $2.25 of $3.50 and 9 calls"
    )


def test_replay_directory_reads_what_is_in_it(log: Path) -> None:
    (log.parent / "more").mkdir()
    (log.parent / "more" / "other.jsonl").write_text(json.dumps({**STUCK, "conversation": "other"}))
    (log.parent / "notes.txt").write_text("nothing for us")
    code, out, _ = run("--json", log.parent)

    assert code == 0
    assert [json.loads(line)["conversation"] for line in out.splitlines()] == ["stuck", "other"]


def test_replay_uses_the_knobs_of_file_and_environment(log: Path) -> None:
    config = log.parent / "treewarden.yaml"
    config.write_text("progress:\n  repeat_run: 6\n  exact_repeat: 13\n  nothing_new: 13\n")
    assert json.loads(run("--json", "--config", config, log)[1])["first_flag"]["index"] == 5

    changed = run("--json", "--config", config, log, TREEWARDEN__PROGRESS__REPEAT_RUN="7")
    assert json.loads(changed[1])["first_flag"]["index"] == 6


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 5, "no history of any client was found; looked in\n  opencode: "),
        (["/nonexistent/log.jsonl"], 2, "/nonexistent/log.jsonl: no such file or directory"),
        (["--format", "telex", "/dev/null"], 2, "--format = 'telex', allowed: auto, opencode"),
        (["/dev/null"], 5, "no conversation could be read"),
        (["--config", "/nonexistent.yaml", "/dev/null"], 5, "/nonexistent.yaml"),
    ],
)
def test_replay_that_cannot_exits_with_its_code(arguments: list[str], code: int, said: str) -> None:
    exit_code, out, err = run(*arguments)

    assert (exit_code, out) == (code, "")
    assert said in err


def test_replay_help_names_every_format() -> None:
    assert FORMAT_HELP.removesuffix(".").replace(" or ", ", ").split(", ") == ["auto", *FORMATS]
