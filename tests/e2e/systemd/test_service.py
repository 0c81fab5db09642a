"""treewarden under a real systemd as PID 1, an old one and a new one: what the manager sees, and what survives."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.e2e.systemd.machine import Service, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("systemd")]

ASKING = (Path(__file__).parent / "asking.py").read_text()
STOP_S = 30  # TimeoutStopSec of the units
# what is ours alone needs no second systemd
ON_ONE_SYSTEMD = pytest.mark.parametrize("machine", ["trixie"], indirect=True)


def ready(service: Service) -> bool:
    return service.show("ActiveState") == "active" and all(c["state"] == "ready" for c in service.children().values())


def back_after(service: Service, restarts: int) -> None:
    until(lambda: service.restarts() > restarts, 30, "a restart by systemd")
    until(lambda: service.show("ActiveState") == "active", 30, "active again")


def stays_fed(service: Service, seconds: float) -> None:
    begin = int(service.show("WatchdogTimestampMonotonic"))
    until(
        lambda: int(service.show("WatchdogTimestampMonotonic")) > begin + seconds * 1e6, 3 * seconds, "a fed watchdog"
    )


def test_start_is_ready_with_all_children_and_a_status_that_says_so(system: Service) -> None:
    took = system.start()
    assert took < 15
    new = system.machine.version >= 253
    assert system.show("Type") == ("notify-reload" if new else "notify")
    text = until(lambda: "tree" in system.show("StatusText") and system.show("StatusText"), 10, "the headline")
    assert text == f"{len(system.children())} children ready; 0 trees"
    assert system.status()["pid"] == int(system.show("MainPID"))
    assert system.machine.run("stat", "-c", "%a %U", "/run/treewarden", "/var/lib/treewarden").stdout == (
        "700 ada\n700 ada\n"
    )


def test_reload_applies_a_changed_file_in_the_running_processes(system: Service) -> None:
    system.start()
    pid = system.show("MainPID")
    system.machine.write(system.settings, "progress:\n  window: 77\n", operator=True)
    system.systemctl("reload", "treewarden.service")
    until(lambda: "77" in system.cli("config", "show", "--changed").stdout, 10, "the new value in force")
    assert (system.show("MainPID"), system.show("ActiveState")) == (pid, "active")


def test_reload_of_a_broken_file_leaves_everything_as_it_was_and_says_so(system: Service) -> None:
    system.machine.write(system.settings, "progress:\n  window: 77\n", operator=True)
    system.start()
    pid = system.show("MainPID")
    system.machine.write(system.settings, "progress:\n  window: many\n", operator=True)
    asked = system.systemctl("reload", "treewarden.service", check=False)
    # systemd takes no exit status from notify-reload: there the status line and the log say it
    assert asked.returncode == (0 if system.machine.version >= 253 else 1)
    said = until(lambda: "failed" in system.show("StatusText") and system.show("StatusText"), 10, "the reason")
    assert 'progress.window = "many" must be' in said
    assert "reload failed, settings as before" in system.journal()
    assert "77" in system.cli("config", "show", "--changed").stdout
    assert (system.show("MainPID"), system.show("ActiveState")) == (pid, "active")
    by_hand = system.cli("reload", check=False)
    assert (by_hand.returncode, "progress.window" in by_hand.stderr) == (5, True)
    system.machine.write(system.settings, "", operator=True)
    system.systemctl("reload", "treewarden.service")
    until(lambda: "failed" not in system.show("StatusText"), 10, "the reason is gone")


def test_watchdog_restarts_a_root_that_hangs_and_the_log_says_where(system: Service) -> None:
    system.adjust("WatchdogSec=3s\nTimeoutAbortSec=2s\n")
    system.start()
    # fed while all is well: longer than the timeout without a restart
    stays_fed(system, 3.5)
    assert system.restarts() == 0
    system.signal(int(system.show("MainPID")), "STOP")
    back_after(system, 0)
    assert ready(system)
    assert "watchdog" in system.journal().lower()


def test_watchdog_is_not_fed_while_the_keeper_hangs(system: Service) -> None:
    system.adjust("WatchdogSec=3s\nTimeoutAbortSec=2s\n")
    system.start()
    system.signal(system.children()["keeper"]["pid"], "STOP")
    back_after(system, 0)
    assert ready(system)
    assert "Current thread" in system.journal()  # faulthandler: where root was when SIGABRT came


def test_kill_of_root_is_a_restart_and_leaves_no_process_of_the_old_one(system: Service) -> None:
    system.start()
    old = set(system.processes())
    system.signal(int(system.show("MainPID")), "KILL")
    back_after(system, 0)
    assert ready(system)
    assert not old & set(system.processes())


def test_kill_of_each_child_is_mended_by_root_alone(system: Service) -> None:
    system.start()
    pid = system.show("MainPID")
    for name, child in system.children().items():
        system.signal(child["pid"], "KILL")
        until(lambda name=name: system.children().get(name, {}).get("restarts") == 1, 15, f"{name} restarted")
    until(lambda: ready(system), 15, "all ready")
    assert (system.show("MainPID"), system.restarts()) == (pid, 0)


def test_restart_of_the_service_refuses_no_connection(service: Service) -> None:
    service.start()
    service.machine.write("/opt/asking.py", ASKING)
    command = ("python3", "/opt/asking.py", "7717", f"{service.runtime}/control.sock")
    with service.machine.running(*command, operator=True) as asking:
        assert asking.line() == "asking"
        for _ in range(2):
            service.systemctl("restart", "treewarden.service")
        asking.say("enough")
        counts = json.loads(asking.line(60))
    print(service.scope, service.machine.suite, counts)
    for transport in ("tcp", "unix"):
        assert counts[transport]["refused"] == 0, counts
        assert counts[transport]["broken"] == 0, counts
        assert counts[transport]["ok"] > 5


def test_first_connection_starts_the_service(system: Service) -> None:
    system.systemctl("start", "treewarden.socket")
    assert system.show("ActiveState") == "inactive"
    asked = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:7717/healthz', timeout=30).status)"
    assert system.machine.run("python3", "-c", asked, operator=True).stdout == "200\n"
    assert system.show("ActiveState") == "active"


def test_stop_ends_every_process_in_time_even_one_that_does_not_answer(system: Service) -> None:
    system.start()
    system.signal(system.children()["clients"]["pid"], "STOP")
    began = time.monotonic()
    system.systemctl("stop", "treewarden.service")
    assert time.monotonic() - began < STOP_S
    assert system.show("Result") == "success"
    assert system.processes() == []
    left = system.machine.run("pgrep", "-u", "ada", "-f", "supervisor", check=False).stdout
    assert left == ""


@ON_ONE_SYSTEMD
def test_clock_that_jumps_by_hours_restarts_nothing(system: Service) -> None:
    """A step of the wall clock, as NTP or a resume makes it; the processes see it through libfaketime."""
    library = system.machine.run("sh", "-c", "ls /usr/lib/*/faketime/libfaketime.so.1").stdout.strip()
    system.machine.write("/etc/faketimerc", "+0\n")
    system.adjust(
        f"Environment=LD_PRELOAD={library} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\nWatchdogSec=3s\n"
    )
    try:
        system.start()
        before = system.status()
        for jump in ("+9h", "-20h"):
            system.machine.write("/etc/faketimerc.new", f"{jump}\n")  # libfaketime ends who reads half a line
            system.machine.run("mv", "/etc/faketimerc.new", "/etc/faketimerc")
            stays_fed(system, 3.5)
        after = system.status()
        assert ready(system)
        assert after["crashes"] == []
        assert [(c["id"], c["pid"]) for c in after["children"]] == [(c["id"], c["pid"]) for c in before["children"]]
        assert system.restarts() == 0
    finally:
        system.machine.run("rm", "/etc/faketimerc")


@ON_ONE_SYSTEMD
def test_machine_that_stood_still_restarts_nothing(system: Service) -> None:
    """Everything is frozen for longer than a heartbeat may be late: no child is to blame for that."""
    system.start()
    before = {name: child["pid"] for name, child in system.children().items()}
    resume = time.monotonic() + 23
    with system.machine.frozen():
        while time.monotonic() < resume:
            time.sleep(0.5)
    until(lambda: ready(system), 15, "all ready")
    time.sleep(3)  # three heartbeats: time enough to be blamed
    assert {name: child["pid"] for name, child in system.children().items()} == before
    assert system.restarts() == 0


def test_runtime_directory_at_the_limit_of_a_socket_path_serves(system: Service) -> None:
    longest = 108 - 1 - len("/bus/forest-99.sock")
    path = f"/run/{'x' * (longest - len('/run/'))}"
    system.adjust(f"Environment=TREEWARDEN_RUNTIME_DIR={path}\nRuntimeDirectory={path.removeprefix('/run/')}\n")
    system.systemctl("start", "treewarden.service")
    system.systemctl("stop", "treewarden.socket", check=False)
    done = system.machine.run("/opt/venv/bin/treewarden", "status", "--runtime-dir", path, operator=True)
    assert "ok" in done.stdout


def test_runtime_directory_one_byte_too_long_is_refused_once_with_the_fix(system: Service) -> None:
    path = f"/run/{'x' * (108 - len('/bus/forest-99.sock') - len('/run/'))}"
    system.adjust(f"Environment=TREEWARDEN_RUNTIME_DIR={path}\nRuntimeDirectory={path.removeprefix('/run/')}\n")
    assert system.systemctl("start", "treewarden.service", check=False).returncode == 1
    assert (system.show("ExecMainStatus"), system.show("ActiveState"), system.restarts()) == ("5", "failed", 0)
    assert "a Unix socket's path has 108 bytes (fix: a shorter path" in system.journal()
