"""What replay reads: own history, directories, globs, standard input; and what it shows of it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.cli.histories import files_of, own_history
from actors.cli.main import app

TRANSCRIPTS = Path(__file__).parents[2] / "corpus" / "transcripts"
EVENT = {
    "session_id": "s1",
    "tool": "read",
    "fingerprint": "f",
    "target": "a.py",
    "exit": 0,
    "cost_usd": 0.25,
    "t": 2e9,
}
QUIET = {"conversation": "quiet", "source": "test", "events": [EVENT]}
STUCK = {"conversation": "stuck", "source": "test", "events": [EVENT] * 14}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A HOME with the history of every client, as the clients lay it out."""
    folders = {
        "claude_code": ".claude/projects/-home-user-project",
        "codex": ".codex/sessions/2026/12/01",
        "gemini": ".gemini/tmp/project/chats",
        "opencode": ".local/share/opencode",
        "pi": ".omp/agent/sessions/-home-user-project",
    }
    for name, folder in folders.items():
        shutil.copytree(TRANSCRIPTS / name, tmp_path / folder)
    (tmp_path / ".local/share/opencode/export.json").unlink()
    return tmp_path


def run(*arguments: object, home: Path | str = "/nonexistent", stdin: bytes | None = None) -> tuple[int, str, str]:
    variables = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR")
    clean = {**dict.fromkeys(variables, ""), "HOME": str(home), "NO_COLOR": "1"}
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)], env=clean, input=stdin)
    return result.exit_code, result.stdout, result.stderr


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_replay_without_arguments_reads_the_history_of_every_client(home: Path) -> None:
    code, out, err = run(home=home)

    assert (code, err) == (0, "")
    for source in ("claude-code", "codex", "gemini", "opencode", "pi"):
        assert f"  {source}  " in out
    last = out.splitlines()[-2:]
    assert last[0] == (
        "dollars of claude-code, codex, gemini are estimated from list prices: the transcripts hold only tokens"
    )
    assert last[1].startswith("7 conversations, ")
    assert "CANARY" not in out


def test_replay_of_own_history_has_sub_agents_in_the_tree_of_their_parent(home: Path) -> None:
    found = rows(run("--json", home=home)[1])

    assert sorted(str(row["source"]) for row in found) == [
        *["claude-code"] * 2,
        "codex",
        "gemini",
        *["opencode"] * 2,
        "pi",
    ]


def test_own_history_follows_the_variables_of_the_clients(tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": "/d", "CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "PI_CODING_AGENT_DIR": "/p"}
    places = [str(one.place) for one in own_history(environ, Path("/home/me"))]

    assert places[:3] == ["/d/opencode", "/c/projects", "/x/sessions"]
    assert "/p/sessions" in places
    assert "/home/me/.omp/agent/sessions" in places


def test_replay_worst_session_is_named_and_stands_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (QUIET, STUCK)))
    code, out, _ = run(path)
    lines = out.splitlines()

    assert code == 0
    assert lines[1].startswith("stuck  ")
    assert lines[2].startswith("quiet  ")
    worst = next(line for line in lines if line.startswith("worst session"))
    assert worst.startswith("worst session: stuck (test): stalling at call ")
    assert "look closer: treewarden replay --why stuck" in lines


def test_replay_timeline_shows_every_change_of_verdict(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(STUCK))
    out = run("--timeline", path)[1]

    assert "timeline of stuck" in out
    change = out.partition("timeline of stuck")[2].splitlines()[2].split()
    assert change[1].startswith("2033-05-1")
    assert change[3:5] == ["ok", "stalling"]


def test_replay_why_explains_one_conversation_against_the_thresholds(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (QUIET, STUCK)))
    code, out, _ = run("--why", "stu", path)

    assert code == 0
    assert out.startswith("conversation stuck (test): ")
    assert "first flag: call " in out
    assert "EVIDENCE" in out
    assert "stalling 25, looping 50, ceiling 200" in out
    assert "nothing was flagged" in run("--why", "quiet", path)[1]
    assert run("--why", "nobody", path)[0] == 5


def test_replay_of_many_lists_the_flagged_ones_and_the_rest_on_request(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [STUCK, *({**QUIET, "conversation": f"q{index}"} for index in range(60))]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))

    assert "(60 conversations without a flag are not listed: --all)" in run(path)[1]
    assert "q59" in run("--all", path)[1]


def test_replay_reads_standard_input_gzipped_or_not() -> None:
    text = json.dumps(QUIET).encode()

    assert rows(run("--json", "-", stdin=text)[1])[0]["conversation"] == "quiet"
    assert rows(run("--json", "-", stdin=gzip.compress(text))[1])[0]["conversation"] == "quiet"


def test_replay_globs_are_expanded_and_foreign_files_give_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.jsonl").write_text(json.dumps(QUIET))
    (tmp_path / "a" / "package.json").write_text('{"name": "x"}')
    code, out, err = run("--json", tmp_path / "*" / "*.json*")

    assert (code, len(out.splitlines())) == (0, 1)
    assert len(err.splitlines()) == 1
    assert "package.json: no known format" in err


def test_directory_with_transcripts_of_sub_agents_reads_them_once() -> None:
    names = [path.name for path in files_of([TRANSCRIPTS / "claude_code"])]

    assert len(names) == 1
    assert not names[0].startswith("agent-")


def test_openhands_events_of_a_file_each_are_one_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "session-7" / "events"
    folder.mkdir(parents=True)
    for event in json.loads((TRANSCRIPTS / "openhands" / "events.json").read_text()):
        (folder / f"{event['id']}.json").write_text(json.dumps(event, indent=2))
    found = rows(run("--json", tmp_path)[1])

    assert [(row["conversation"], row["source"], row["calls"]) for row in found] == [("session-7", "openhands", 8)]


def test_session_that_repeats_another_one_is_paid_once_and_judged_twice(tmp_path: Path) -> None:
    original = next((TRANSCRIPTS / "claude_code").glob("*.jsonl"))
    text = original.read_text()
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "b.jsonl").write_text(text.replace(original.stem, "forked"))
    first, second = rows(run("--json", tmp_path)[1])
    alone = rows(run("--json", tmp_path / "b.jsonl")[1])[0]

    assert (second["conversation"], second["usd"]) == ("forked", 0.0)
    assert first["usd"] == alone["usd"] > 0  # type: ignore[operator]
    assert [second[name] for name in ("calls", "turns")] == [alone[name] for name in ("calls", "turns")]


def test_progress_bar_is_there_on_long_work_on_a_terminal_only(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({**QUIET, "pad": "x" * 5_000_000}) + "\n")
    command = [sys.executable, "-m", "actors.cli", "replay", str(path)]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"}
    ours, theirs = pty.openpty()
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=True)
    os.close(theirs)
    shown = b""
    while part := _read(ours):
        shown += part

    assert b"trees" in shown
    assert b"quiet" in done.stdout
    assert b"\x1b" not in done.stdout
    plain = subprocess.run(command, env=env, capture_output=True, timeout=60, check=True)
    assert plain.stderr == b""


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except OSError:  # the other end of a terminal is closed
        return b""
