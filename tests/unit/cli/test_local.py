"""What commands do without a daemon: places, plan, checks of files, parsing, speed."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.application import shards_for
from actors.cli import directories
from actors.cli.checks import bus_address, here
from actors.cli.demo import sessions
from actors.cli.failure import Exit, Failure
from actors.cli.main import app
from actors.cli.mode import MODES
from actors.cli.run import prepare, root_command, root_environment
from actors.cli.table import ago, columns
from actors.knobs import Knobs
from actors.messages import Mode
from actors.store.database import FILE_NAME, open_for_writing
from supervisor.plan import parse
from supervisor.settings.layers import read_environment

UID = os.getuid()


@pytest.mark.parametrize(
    ("option", "env", "expected"),
    [
        ("/o", {"TREEWARDEN_STATE_DIR": "/e"}, "/o"),
        (None, {"TREEWARDEN_STATE_DIR": "/e", "STATE_DIRECTORY": "/s"}, "/e"),
        (None, {"STATE_DIRECTORY": "/s:/other", "XDG_STATE_HOME": "/x"}, "/s"),
        (None, {"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/treewarden"),
        (None, {"HOME": "/h"}, "/h/.local/state/treewarden"),
    ],
)
def test_state_dir_first_of_option_variable_systemd_xdg(option, env, expected):
    assert directories.state_dir(option and Path(option), env) == Path(expected)


@pytest.mark.parametrize(
    ("option", "env", "expected"),
    [
        ("/o", {"TREEWARDEN_RUNTIME_DIR": "/e"}, "/o"),
        (None, {"TREEWARDEN_RUNTIME_DIR": "/e", "RUNTIME_DIRECTORY": "/s"}, "/e"),
        (None, {"RUNTIME_DIRECTORY": "/s", "XDG_RUNTIME_DIR": "/x"}, "/s"),
        (None, {"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/treewarden"),
        (None, {}, f"/tmp/treewarden-{UID}"),
    ],
)
def test_runtime_dir_first_of_option_variable_systemd_xdg(option, env, expected):
    assert directories.runtime_dir(option and Path(option), env) == Path(expected)


def test_config_file_xdg_place_counts_only_when_there_is_one(tmp_path):
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert directories.config_file(None, env) is None
    place = tmp_path / "treewarden" / "treewarden.yaml"
    place.parent.mkdir()
    place.touch()
    assert directories.config_file(None, env) == place
    assert directories.config_file(None, {**env, "TREEWARDEN_CONFIG": "/none.yaml"}) == Path("/none.yaml")


def test_prepared_directory_is_private(tmp_path):
    made = directories.prepared(tmp_path / "a" / "b", "runtime directory")
    assert made.stat().st_mode & 0o777 == 0o700


def test_prepared_link_or_writable_directory_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Failure, match="must be a directory, not a link"):
        directories.prepared(tmp_path / "link", "runtime directory")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Failure, match=r"has mode 0777.*chmod 700"):
        directories.prepared(tmp_path / "open", "runtime directory")


def test_runtime_dir_at_the_limit_still_binds_and_one_byte_more_is_refused(tmp_path):
    base = tmp_path / "x"
    most = directories.MAX_SOCKET_PATH_BYTES - len("/bus/forest-99.sock")
    fits = Path(str(base) + "x" * (most - len(str(base))))
    directories.checked_length(fits)
    (fits / "bus").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.bind(str(fits / "bus" / "forest-99.sock"))
    with pytest.raises(Failure, match=rf"must have at most {most}.*108 bytes"):
        directories.checked_length(Path(f"{fits}x"))


def prepared(tmp_path, **more):
    options = {"state_dir": tmp_path / "s", "runtime_dir": tmp_path / "r", "port": None, "config": None, "env": {}}
    return prepare(**options | {"env": {"HOME": str(tmp_path)}} | more)


def test_plan_is_what_root_reads(tmp_path):
    plan = parse(json.loads(json.dumps(prepared(tmp_path, port=0))))
    workers = [child.id for child in plan.supervisor.workers()]
    shards = shards_for(0)
    forest = [f"forest-{number}" for number in range(shards)]
    assert workers == ["keeper", "control", "notifier", *forest, "clients", "edge"]
    assert all(child.args["shards"] == shards for child in plan.supervisor.workers())
    assert [listen.for_children for listen in plan.listen] == [("edge",), ("control",)]
    assert plan.settings["values"] == Knobs().model_dump(mode="json")


def test_plan_layers_settings_and_the_port_option_beats_them(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("run:\n  port: 5\n  shards: 3\nprogress:\n  window: 70\n")
    env = {"HOME": str(tmp_path), "TREEWARDEN__PROGRESS__WINDOW": "80"}
    plan = prepared(tmp_path, config=file, env=env)
    assert plan["listen"][0]["port"] == 5
    assert plan["settings"]["values"]["progress"]["window"] == 80
    assert plan["settings"]["sources"]["progress.window"] == "environment"
    control = next(child for child in plan["supervisor"]["children"] if child["id"] == "control")
    assert control["args"]["reread"][-2:] == ["--config", str(file)]
    assert plan["settings"]["layers"] == {
        "file": {"run.port": 5, "run.shards": 3, "progress.window": 70},
        "environment": {"progress.window": 80},
    }
    assert prepared(tmp_path, config=file, port=0)["listen"][0]["port"] == 0


def test_plan_bad_settings_are_invalid_and_named(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("progress:\n  mode: no_such\n")
    with pytest.raises(Failure, match=r'progress.mode = "no_such" must be one of warn') as caught:
        prepared(tmp_path, config=file)
    assert caught.value.code is Exit.INVALID


def test_plan_banner_survives_braces_in_a_path(tmp_path):
    file = tmp_path / "{x}.yaml"
    file.touch()
    words = {"url": "u", "runtime_dir": "r", "state_dir": "s"}
    lines = [line.format(**words) for line in prepared(tmp_path, config=file)["banner"]]
    assert lines[0] == "api       u"
    assert lines[-1].endswith("{x}.yaml")


@pytest.mark.parametrize(("configured", "cores", "expected"), [(0, 1, 2), (0, 8, 8), (3, 8, 3), (1, 8, 1)])
def test_shards_one_per_core_and_at_least_two(configured, cores, expected):
    assert shards_for(configured, cores) == expected


def test_plan_without_overrides_keeps_their_version(tmp_path):
    """Control takes over what is newer in the database; it must not be newer."""
    database_with_override(tmp_path / "s", 4, {"progress.window": 90})
    plan = prepared(tmp_path)
    assert (plan["settings"]["version"], plan["settings"]["values"]["progress"]["window"]) == (4, 90)
    assert plan["settings"]["sources"]["progress.window"] == "runtime"
    plan = prepared(tmp_path, with_overrides=False)
    assert (plan["settings"]["version"], plan["settings"]["values"]["progress"]["window"]) == (4, 60)


def test_plan_override_that_is_no_longer_valid_names_the_way_out(tmp_path):
    database_with_override(tmp_path / "s", 1, {"progress.no_such": 90})
    with pytest.raises(Failure, match=r"(?s)progress.no_such is not a knob.*run --without-overrides"):
        prepared(tmp_path)


def test_plan_damaged_database_starts_with_the_settings_of_file_and_environment(tmp_path, capsys):
    """The keeper sets the file aside when it opens it: a start that refuses would never come to that."""
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "s" / FILE_NAME).write_bytes(b"no database at all, " * 100)
    plan = prepared(tmp_path, env={"HOME": str(tmp_path), "TREEWARDEN__PROGRESS__WINDOW": "80"})
    assert (plan["settings"]["version"], plan["settings"]["values"]["progress"]["window"]) == (0, 80)
    assert "starting without the changes" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_run_with_closed_standard_descriptors_opens_null_in_their_place(closed):
    code = (
        "from actors.cli.run import fill_standard_descriptors as fill; import os; fill();"
        "ends = [os.readlink(f'/proc/self/fd/{n}') for n in range(3)];"
        "raise SystemExit(ends.count('/dev/null') + 10 * os.get_inheritable(2))"
    )
    line = f'exec "$0" -c "$1" </dev/zero >/dev/zero 2>/dev/zero {closed}'
    done = subprocess.run(["sh", "-c", line, sys.executable, code], check=False, timeout=30)
    assert done.returncode == 10 + closed.count("&-")


def database_with_override(directory, version, overrides):
    directory.mkdir(mode=0o700)
    db = open_for_writing(directory / FILE_NAME)
    db.execute("INSERT INTO settings_versions VALUES (?, ?, 0, '', 0)", (version, json.dumps(overrides)))
    db.close()


def test_run_beside_supervisord_is_refused_with_what_to_do(tmp_path):
    info = tmp_path / "supervisor-4.2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: supervisor\nVersion: 4.2.5\n")
    (info / "top_level.txt").write_text("supervisor\n")
    (info / "RECORD").write_text("supervisor/__init__.py,,\n")
    result = subprocess.run(
        [sys.executable, "-m", "actors.cli", "run", "--state-dir", str(tmp_path / "s")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 6
    assert "the import name supervisor also belongs to supervisor in this environment" in result.stderr
    assert "pipx install treewarden" in result.stderr
    assert not (tmp_path / "s").exists()


def test_env_example_names_only_variables_that_are_read():
    text = (Path(__file__).parents[3] / "config" / ".env.example").read_text()
    names = dict(line[1:].split("=", 1) for line in text.splitlines() if line.startswith("#") and line[1:2].isupper())
    knobs = {name: value for name, value in names.items() if "__" in name}
    assert read_environment(Knobs, knobs, "TREEWARDEN")
    others = {"TREEWARDEN_CONFIG", "TREEWARDEN_STATE_DIR", "TREEWARDEN_RUNTIME_DIR"}
    assert names.keys() - knobs.keys() == others | {"DBUS_SESSION_BUS_ADDRESS", "SUPERVISOR_LOG_FORMAT"}


def test_root_does_not_import_from_the_working_directory(tmp_path):
    (tmp_path / "supervisor").mkdir()
    (tmp_path / "supervisor" / "__init__.py").write_text("raise SystemExit('imported from the working directory')")
    command = root_command(0)[:-2]
    result = subprocess.run(
        [*command, "--help"],
        cwd=tmp_path,
        env=root_environment(os.environ, terminal=False),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "--plan-fd" in result.stdout


def test_root_logs_are_text_on_a_terminal_unless_told_otherwise():
    assert root_environment({}, terminal=True)["SUPERVISOR_LOG_FORMAT"] == "text"
    assert "SUPERVISOR_LOG_FORMAT" not in root_environment({}, terminal=False)
    assert root_environment({"SUPERVISOR_LOG_FORMAT": "json"}, terminal=True)["SUPERVISOR_LOG_FORMAT"] == "json"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("progress:\n  window: 70\n", 0, "ok, 1 knobs set"),
        ("progress:\n  window: 7\n", 5, "progress.window = 7 must be an integer from 10 to 1000"),
        ("progress:\n  windo: 7\n", 5, "did you mean window?"),
    ],
)
def test_config_check_names_what_is_wrong(tmp_path, text, code, words):
    file = tmp_path / "t.yaml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert result.exit_code == code
    assert words in result.output


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["why"], ["run", "--port", "70000"], ["run", "--port", "x"], ["status", "--nonsense"]]
)
def test_usage_error_exits_2(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_help_of_every_command_is_ascii():
    for arguments in ([], ["run"], ["why"], ["config"], ["config", "set"], ["demo"], ["doctor"], ["mode"]):
        result = CliRunner().invoke(app, [*arguments, "--help"])
        assert result.exit_code == 0
        assert result.output.isascii()


def test_start_loads_nothing_heavy():
    """A command that is used often must start fast: no HTTP, database, model or framework at import."""
    heavy = ("httpx", "pydantic_core", "apsw", "starlette", "uvicorn", "pykka", "yaml", "rich")
    code = f"import sys, actors.cli.main; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_modes_are_those_of_the_vocabulary():
    assert tuple(mode.value for mode in Mode) == MODES


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:path=/run/user/1/bus", "/run/user/1/bus"),
        ("unix:abstract=/tmp/x,guid=5", "\0/tmp/x"),
        ("tcp:host=x;unix:path=/p", "/p"),
        ("", None),
        ("nonsense", None),
    ],
)
def test_session_bus_address_is_read(address, path):
    assert bus_address({"DBUS_SESSION_BUS_ADDRESS": address}) == path


def test_session_bus_that_answers_is_ok(tmp_path):
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(tmp_path / "bus"))
        bus.listen()
        env = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path / 'bus'}"}
        found = {check.name: check for check in here(tmp_path, tmp_path, env)}
    assert found["session bus"].state == "ok"
    found = {check.name: check for check in here(tmp_path, tmp_path, env)}
    assert found["session bus"].state == "note"


def test_demo_sessions_are_named_anew_and_end_now():
    played = sessions(prefix="p", end=1000.0)
    assert set(played) == {"stuck", "working"}
    for role, events in played.items():
        assert {event["session_id"] for event in events} == {f"p-{role}"}
        assert len({event["id"] for event in events}) == len(events)
        assert events[-1]["t"] < 1000.0


def test_columns_are_aligned_and_ascii():
    assert columns(("A", "LONG"), [("aaa", None), ("\u00e9", 5)]) == ["A     LONG", "aaa   -", "\\xe9  5"]


@pytest.mark.parametrize(("at", "text"), [(100, "0s ago"), (41, "59s ago"), (0, "-"), (None, "-")])
def test_ago_is_short(at, text):
    assert ago(at, 100) == text
