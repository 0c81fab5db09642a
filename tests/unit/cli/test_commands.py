"""Commands against a real control socket: what they show, what they send, how they exit."""

import copy
import json
import re

import pytest
from typer.testing import CliRunner

from actors.cli.main import app
from actors.knobs import Knobs
from supervisor.control.problem import Problem
from tests.unit.cli.daemon import HEALTH, STATUS, daemon

TREE = {
    "id": "ses_1",
    "verdict": "looping",
    "reason": "duplicates",
    "status": "active",
    "mode": "warn",
    "turns_since_landed": 57,
    "usd_since_landed": 3.5,
    "events": 60,
    "top_target": "src/a.py",
    "last_event_at": 1_700_000_000.0,
}
EXPLAINED = {
    **TREE,
    "evidence": {"turns_since_landed": 57, "usd_since_landed": 3.5, "dup_share": 0.8, "top_target": "src/a.py"},
    "thresholds": {"stall_turns": 25, "loop_turns": 50, "ceiling_turns": 200, "loop_usd": 3.0, "dup_warn": 0.25},
    "conversations": [{"id": "ses_1", "agent": "build", "verdict": "looping", "reason": "duplicates"}],
    "transitions": [{"t": 1.0, "conversation": "ses_1", "before": "ok", "after": "looping", "reason": "duplicates"}],
    "would_next": "nothing more: a landed change ends it",
}


def call(tmp_path, *arguments, answers=None, env=None):
    with daemon(tmp_path, answers or {}) as running:
        result = CliRunner().invoke(
            app, [*arguments, "--runtime-dir", str(tmp_path / "run")], env={"HOME": str(tmp_path), **(env or {})}
        )
    return result, running.asked


def ask(method="GET", path="/v1/status", answer=STATUS):
    return {(method, path): answer}


def words(text):
    return re.sub(r" +", " ", text)


def test_status_shows_one_screen(tmp_path):
    result, _ = call(tmp_path, "status", answers=ask())
    assert result.exit_code == 0, result.output
    text = words(result.output)
    assert "treewarden 0.1.0 ok" in text
    assert "trees 3 (2 ok, 0 stalling, 1 looping)" in text
    assert "edge 12 ready 2" in text
    assert result.output.isascii()


def test_status_json_is_the_answer_itself(tmp_path):
    result, _ = call(tmp_path, "status", "--json", answers=ask())
    assert json.loads(result.output) == STATUS


@pytest.mark.parametrize("state", ["starting", "backoff", "stopped"])
def test_status_child_that_is_not_ready_is_degraded(tmp_path, state):
    status = copy.deepcopy(STATUS)
    status["children"][1]["state"] = state
    for arguments in (["status"], ["status", "--json"]):
        (tmp_path / arguments[-1]).mkdir()
        result, _ = call(tmp_path / arguments[-1], *arguments, answers=ask(answer=status))
        assert result.exit_code == 7
    assert "degraded" in call(tmp_path, "status", answers=ask(answer=status))[0].output


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["trees"],
        ["why", "x"],
        ["mode", "warn"],
        ["resume", "x"],
        ["config", "show"],
        ["config", "set", "a=1"],
    ],
)
def test_command_without_a_daemon_is_unreachable(tmp_path, arguments):
    result = CliRunner().invoke(app, [*arguments, "--runtime-dir", str(tmp_path)])
    assert result.exit_code == 3
    assert str(tmp_path / "control.sock") in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("status", "code"), [(400, 5), (401, 4), (403, 4), (404, 5), (409, 6), (412, 6), (500, 7), (503, 7)]
)
def test_command_refused_exits_with_the_code_of_the_refusal(tmp_path, status, code):
    problem = Problem(status, "x", "because of something")
    result, _ = call(tmp_path, "status", answers=ask(answer=problem))
    assert result.exit_code == code
    assert result.stderr == "treewarden: because of something\n"


def test_trees_lists_the_worst_first_over_all_pages(tmp_path):
    def page(request):
        if "after" in request.query_params:
            return {"trees": [TREE], "next": None}
        return {"trees": [{**TREE, "id": "a", "verdict": "ok"}], "next": "a"}

    result, asked = call(tmp_path, "trees", answers=ask(path="/v1/trees", answer=page))
    lines = result.output.splitlines()
    assert lines[1].startswith("ses_1")
    assert lines[2].startswith("a ")
    assert "$3.50" in lines[1]
    assert asked[1][2]["after"] == "a"


def test_trees_none_says_what_to_do(tmp_path):
    result, _ = call(tmp_path, "trees", answers=ask(path="/v1/trees", answer={"trees": [], "next": None}))
    assert "no trees yet" in result.output


def test_trees_id_that_moves_the_cursor_is_escaped(tmp_path):
    tree = {**TREE, "id": "a\x1b[2Jb\u00e9"}
    result, _ = call(tmp_path, "trees", answers=ask(path="/v1/trees", answer={"trees": [tree]}))
    assert "a\\x1b[2Jb\\xe9" in result.output
    assert result.output.isascii()


def test_why_shows_evidence_against_thresholds_and_that_nothing_is_done(tmp_path):
    result, _ = call(tmp_path, "why", "ses_1", answers=ask(path="/v1/trees/ses_1", answer=EXPLAINED))
    assert result.exit_code == 0, result.output
    text = words(result.output)
    assert "tree ses_1: looping, reason duplicates" in text
    assert "turns since landed 57 stalling 25, looping 50, ceiling 200" in text
    assert "share of duplicates 0.80 stalling 0.25" in text
    assert "ses_1 ok looping duplicates" in text
    assert "nothing more: a landed change ends it" in text
    assert "every mode only warns" in text


def test_why_id_with_a_slash_is_one_part_of_the_path(tmp_path):
    _, asked = call(tmp_path, "why", "a/b?c")
    assert asked[0][1] == "/v1/trees/a%2Fb%3Fc"


def test_why_json_says_that_nothing_is_done(tmp_path):
    result, _ = call(tmp_path, "why", "ses_1", "--json", answers=ask(path="/v1/trees/ses_1", answer=EXPLAINED))
    found = json.loads(result.output)
    assert found["verdict"] == "looping"
    assert "only warns" in found["note"]


def test_mode_of_the_daemon_is_sent_and_the_note_shown(tmp_path):
    change = {"path": "progress.mode", "before": "warn", "after": "auto_compact", "hot": True}
    answer = {
        "mode": "auto_compact",
        "version": 3,
        "changes": [change],
        "note": "in this version every mode only warns",
    }
    result, asked = call(tmp_path, "mode", "auto_compact", answers=ask("POST", "/v1/mode", answer))
    assert asked[0][2] == {"mode": "auto_compact", "tree": None}
    assert "mode warn -> auto_compact (settings version 3)" in result.output
    assert "only warns" in result.output


def test_mode_of_a_tree_goes_back_by_default(tmp_path):
    answer = {"tree": "t", "mode": None, "note": "n", "view": {}}
    result, asked = call(tmp_path, "mode", "default", "t", answers=ask("POST", "/v1/mode", answer))
    assert asked[0][2] == {"mode": None, "tree": "t"}
    assert "tree t: mode as the daemon" in result.output


def test_mode_unknown_is_invalid_and_names_the_allowed(tmp_path):
    result, asked = call(tmp_path, "mode", "auto_recovr")
    assert (result.exit_code, asked) == (5, [])
    assert "mode = auto_recovr must be one of warn, auto_compact, auto_limit_context, auto_recover" in result.stderr


def test_resume_is_sent(tmp_path):
    answer = {"tree": "t", "view": {"verdict": "ok"}}
    result, asked = call(tmp_path, "resume", "t", answers=ask("POST", "/v1/trees/t/resume", answer))
    assert result.output == "tree t resumed: verdict ok\n"
    assert asked[0][0] == "POST"


def test_config_show_tells_every_source(tmp_path):
    found = {"version": 2, "values": {"run": {"port": 1}}, "sources": {"run.port": "file"}}
    result, _ = call(tmp_path, "config", "show", answers=ask(path="/v1/settings", answer=found))
    assert words(result.output).splitlines()[-1] == "run.port 1 file"


def test_config_check_against_a_daemon_counts_its_overrides(tmp_path):
    found = {"version": 2, "values": {"progress": {"stall_turns": 40}}, "sources": {"progress.stall_turns": "runtime"}}
    file = tmp_path / "t.yaml"
    file.write_text("progress:\n  loop_turns: 30\n")
    result, _ = call(tmp_path, "config", "check", str(file), answers=ask(path="/v1/settings", answer=found))
    assert result.exit_code == 5
    assert "progress.stall_turns = 40 must be at most progress.loop_turns = 30" in result.stderr


def test_config_set_sends_yaml_values_and_the_version(tmp_path):
    change = {"path": "progress.window", "before": 60, "after": 61, "hot": True}
    answer = {"version": 3, "applied": True, "changes": [change]}
    result, asked = call(
        tmp_path,
        *("config", "set", "progress.window=61", "progress.mode=", "--if-version", "2"),
        answers=ask("PATCH", "/v1/settings", answer),
    )
    assert result.exit_code == 0, result.output
    assert asked[0][2]["overrides"] == {"progress.window": 61, "progress.mode": None}
    assert asked[0][3]["if-match"] == '"2"'
    assert "progress.window 60 61 now" in words(result.output)


def health(tmp_path, **changed):
    status = {**STATUS, "state_dir": str(tmp_path / "state")}
    return ask(answer=status) | ask(path="/v1/health", answer={**copy.deepcopy(HEALTH), **changed})


def test_doctor_all_well_is_ok(tmp_path):
    tokens = tmp_path / "state" / "tokens"
    tokens.mkdir(parents=True)
    (tokens / "operator.token").touch(0o600)
    result, _ = call(tmp_path, "doctor", answers=health(tmp_path))
    assert result.exit_code == 0, result.output
    text = words(result.output)
    assert "ok plugin: plugin 0.1.0, seen" in text
    assert "ok token operator:" in text
    assert result.output.isascii()


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"keeper": {"error": "gone"}}, "BAD database: keeper does not answer: gone"),
        ({"keeper": {"state": "degraded", "detail": "disk full", "since": 1}}, "BAD database: disk full"),
        (
            {"notifier": {"channels": [{"name": "d", "type": "desktop", "state": "blind", "detail": "no bus"}]}},
            "BAD channel d: no bus (fix: run treewarden inside the desktop session",
        ),
        (
            {"clients": {**HEALTH["clients"], "blind": ["rc-servers.json has another shape"]}},
            "BAD clients: rc-servers.json has another shape",
        ),
        (
            {"clients": {**HEALTH["clients"], "plugins": [{**HEALTH["clients"]["plugins"][0], "stale": True}]}},
            "not the version of this daemon (fix: treewarden install-plugin opencode",
        ),
    ],
)
def test_doctor_what_is_wrong_is_degraded_and_names_its_fix(tmp_path, changed, line):
    result, _ = call(tmp_path, "doctor", answers=health(tmp_path, **changed))
    assert result.exit_code == 7
    assert line in words(result.output)


def test_doctor_no_plugin_yet_is_a_note(tmp_path):
    clients = {**HEALTH["clients"], "plugins": [], "servers": []}
    result, _ = call(tmp_path, "doctor", answers=health(tmp_path, clients=clients))
    assert result.exit_code == 0
    assert "note plugin: no plugin has reported" in words(result.output)


def test_doctor_token_that_others_may_read_is_degraded(tmp_path):
    tokens = tmp_path / "state" / "tokens"
    tokens.mkdir(parents=True)
    (tokens / "operator.token").touch()
    (tokens / "operator.token").chmod(0o644)
    result, _ = call(tmp_path, "doctor", answers=health(tmp_path))
    assert result.exit_code == 7
    assert f"(fix: chmod 600 {tokens / 'operator.token'})" in result.output


def test_doctor_without_a_daemon_still_looks_around(tmp_path):
    result = CliRunner().invoke(app, ["doctor", "--json", "--runtime-dir", str(tmp_path), "--state-dir", str(tmp_path)])
    assert result.exit_code == 7
    names = [check["name"] for check in json.loads(result.output)["checks"]]
    assert names[0] == "daemon"
    assert {"tokens", "disk", "session bus"} <= set(names)


def test_mode_without_an_argument_shows_it_and_changes_nothing(tmp_path):
    result, asked = call(tmp_path, "mode", answers=ask())
    assert result.exit_code == 0, result.output
    assert result.output == "mode warn\n"
    assert [(one[0], one[1]) for one in asked] == [("GET", "/v1/status")]


def test_replay_judges_with_the_settings_of_the_daemon_it_is_pointed_at(tmp_path):
    """A few equal calls are flagged only because this daemon's thresholds say so."""
    log = tmp_path / "log.jsonl"
    same = {"session_id": "c", "tool": "read", "fingerprint": "f", "exit": 0, "result": "r"}
    log.write_text("".join(json.dumps(same) + "\n" for _ in range(4)))
    values = Knobs().model_dump(mode="json")
    values["progress"] |= {"repeat_run": 3}
    answer = {"version": 3, "values": values, "sources": {}}
    result, _ = call(tmp_path, "replay", "--json", str(log), answers=ask(path="/v1/settings", answer=answer))
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["worst"] == "stalling"
    default = CliRunner().invoke(app, ["replay", "--json", str(log)], env={"HOME": str(tmp_path)})
    assert json.loads(default.output)["worst"] == "ok"


def test_reload_shows_what_changed_and_what_waits_for_a_restart(tmp_path):
    changes = [
        {"path": "progress.window", "before": 60, "after": 70, "hot": True},
        {"path": "run.port", "before": 1, "after": 2, "hot": False},
    ]
    reloaded = ask("POST", "/v1/settings/reload", {"version": 4, "changes": changes})
    result, asked = call(tmp_path, "reload", answers=reloaded)
    assert result.exit_code == 0, result.output
    assert asked[0][:3] == ("POST", "/v1/settings/reload", {"note": "reload"})
    assert "version 4: reloaded" in result.output
    assert "progress.window 60 70 now" in words(result.output)
    assert "run.port 1 2 after a restart" in words(result.output)


def test_reload_bad_file_exits_as_invalid_with_the_sentences(tmp_path):
    refused = ask("POST", "/v1/settings/reload", Problem(400, "invalid", "t.yaml: one; two", ["t.yaml: one", "two"]))
    result, _ = call(tmp_path, "reload", answers=refused)
    assert (result.exit_code, "t.yaml: one; two" in result.output) == (5, True)
