"""install-service into a home of its own, with a systemctl that only notes what it is asked."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.cli.main import app
from actors.cli.units import DROP_IN, MARK, SERVICE, SOCKET, Facts, Scope, bundle, quoted, render

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  --version) echo "systemd $VERSION (whatever)" ;;
  *is-active*) exit "$INACTIVE" ;;
  *enable*) exit "${FAIL:-0}" ;;
esac
"""


class Home:
    def __init__(self, path):
        self.path = path
        self.units = path / ".config" / "systemd" / "user"
        (path / "bin").mkdir()
        script = path / "bin" / "systemctl"
        script.write_text(SYSTEMCTL)
        script.chmod(0o755)
        self.env = {
            "HOME": str(path),
            "PATH": f"{path}/bin:/usr/bin:/bin",
            "CALLS": str(path / "calls"),
            "VERSION": "252",
            "INACTIVE": "3",
            "XDG_CONFIG_HOME": "",
            "XDG_STATE_HOME": "",
            "SUDO_USER": "",
        }

    def run(self, *arguments, code=0, **env):
        result = CliRunner().invoke(app, arguments, env=self.env | env)
        assert result.exit_code == code, result.output
        return result.output

    def calls(self):
        lines = (self.path / "calls").read_text().splitlines()
        return [line for line in lines if line != "--version" and "is-active" not in line]


@pytest.fixture
def home(tmp_path, monkeypatch):
    # the checkout under test may lie below /tmp, from where nothing can run as a service
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    return Home(tmp_path)


def test_install_writes_units_for_this_installation_enables_them_and_starts_nothing(home):
    said = home.run("install-service")
    service = (home.units / SERVICE).read_text()
    assert "ExecStart=/usr/bin/python3 -m actors.cli run\n" in service
    assert "ListenStream=127.0.0.1:7717\n" in (home.units / SOCKET).read_text()
    assert home.calls() == ["--user daemon-reload", f"--user enable {SOCKET} {SERVICE}"]
    assert f"created {home.units / SERVICE}" in said
    assert "start it: systemctl --user start treewarden.socket treewarden.service" in said
    assert (home.path / ".local" / "state" / "treewarden").stat().st_mode & 0o777 == 0o700


def test_install_twice_changes_nothing(home):
    home.run("install-service")
    said = json.loads(home.run("install-service", "--json"))
    assert {change["action"] for change in said["changes"]} == {"unchanged"}


def test_install_dry_run_shows_everything_and_touches_nothing(home):
    said = home.run("install-service", "--dry-run")
    assert f"would be created {home.units / SERVICE}" in said
    assert "would run systemctl --user enable" in said
    assert "Type=notify\n" in said
    assert not home.units.exists()
    assert home.calls() == []


@pytest.mark.parametrize(("version", "there"), [("252", False), ("253", True), ("257", True)])
def test_install_new_systemd_gets_notify_reload(home, version, there):
    home.run("install-service", VERSION=version)
    assert (home.units / DROP_IN).exists() is there


def test_install_takes_the_port_of_the_settings_and_the_option_beats_it(home):
    file = home.path / ".config" / "treewarden" / "treewarden.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("run:\n  port: 5001\n")
    home.run("install-service")
    assert "127.0.0.1:5001\n" in (home.units / SOCKET).read_text()
    said = home.run("install-service", "--port", "5002", "--config", str(file))
    assert f"updated {home.units / SOCKET}" in said
    assert "127.0.0.1:5002\n" in (home.units / SOCKET).read_text()
    assert f"actors.cli run --config {file} --port 5002\n" in (home.units / SERVICE).read_text()


def test_install_settings_that_are_not_valid_are_named(home):
    file = home.path / "t.yaml"
    file.write_text("run:\n  port: many\n")
    assert 'run.port = "many"' in home.run("install-service", "--config", str(file), code=5)


def test_install_now_restarts_in_the_order_that_hands_the_sockets_over(home):
    home.run("install-service", "--now")
    assert home.calls()[2:] == [f"--user stop {SERVICE}", f"--user restart {SOCKET} {SERVICE}"]


def test_install_over_a_running_service_says_that_it_goes_on_as_it_was(home):
    said = home.run("install-service", INACTIVE="0")
    assert "it runs as it was: systemctl --user restart treewarden.service" in said


def test_install_unit_of_somebody_else_is_refused(home):
    home.units.mkdir(parents=True)
    (home.units / SERVICE).write_text("[Service]\nExecStart=/mine\n")
    said = home.run("install-service", code=6)
    assert "was not written by treewarden install-service: move it away first" in said
    assert (home.units / SERVICE).read_text() == "[Service]\nExecStart=/mine\n"
    home.run("uninstall-service", code=6)


def test_install_failing_systemctl_is_said_with_its_command(home):
    assert "systemctl --user enable" in home.run("install-service", code=7, FAIL="1")


def test_install_without_systemd_says_what_to_do(home):
    (home.path / "bin" / "systemctl").unlink()
    said = home.run("install-service", code=3, PATH=str(home.path / "bin"))
    assert "use: treewarden run" in said


def test_install_run_as_needs_the_system(home):
    assert "--run-as needs --system" in home.run("install-service", "--run-as", "root", code=2)


def test_install_system_dry_run_needs_the_user_and_shows_the_sandbox(home):
    assert "say whose agents" in home.run("install-service", "--system", "--dry-run", code=2)
    said = home.run("install-service", "--system", "--dry-run", "--run-as", "daemon")
    assert "User=daemon\n" in said
    assert "StateDirectory=treewarden\n" in said
    assert "/etc/systemd/system/treewarden.service" in said
    assert "no such user" in home.run("install-service", "--system", "--dry-run", "--run-as", "nobody-here", code=5)


def test_uninstall_removes_what_install_wrote_and_keeps_the_data(home):
    home.run("install-service", VERSION="257")
    said = home.run("uninstall-service")
    assert list(home.units.iterdir()) == []
    assert f"--user disable --now {SOCKET} {SERVICE}" in home.calls()
    assert f"the data stays in {home.path}/.local/state/treewarden" in said
    assert "nothing was installed" in home.run("uninstall-service")


def facts(scope, **more):
    base = {"command": ["/opt/tw"], "port": 1, "user": "me", "uid": 7, "home": Path("/h"), "state_dir": Path("/s")}
    return Facts(scope=scope, version=257, **(base | more))


@pytest.mark.parametrize("scope", list(Scope))
def test_every_word_of_the_templates_is_filled(scope):
    for name, text in render(bundle(), facts(scope)).items():
        assert text.startswith(f"# {MARK}\n"), name
        assert "@MARK@" not in text
        assert not {"@TREEWARDEN@", "@USER@", "@STATE@", "@PORT@", "@OPTIONS@", "NAMESPACES"} & set(text.split())
        assert "SystemCallFilter=@system-service\n" in text or name != SERVICE


def test_namespaces_can_be_left_out_of_the_user_service():
    text = render(bundle(), facts(Scope.USER, namespaces=False))[SERVICE]
    assert "ProtectSystem" not in text
    assert "NoNewPrivileges=yes" in text


@pytest.mark.parametrize(
    ("word", "written"),
    [("/plain", "/plain"), ("/a b", '"/a b"'), ("/100%", "/100%%"), ("/$x", "/$$x"), ('/"', '"/\\""')],
)
def test_words_are_quoted_as_systemd_reads_them(word, written):
    assert quoted(word) == written


def test_program_below_tmp_cannot_be_a_service(home, tmp_path, monkeypatch):
    place = Path("/tmp") / f"tw-{os.getpid()}"
    place.mkdir()
    try:
        monkeypatch.setattr(sys, "executable", str(place / "python"))
        (place / "treewarden").touch(mode=0o755)
        assert f"{place}/treewarden cannot run as a service: its /tmp is private" in home.run("install-service", code=5)
    finally:
        shutil.rmtree(place)
