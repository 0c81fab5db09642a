"""The units as systemd judges them, and the commands that write them."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.systemd.machine import TREEWARDEN, Service, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("systemd")]

# of a user's service systemd-analyze does not know that it cannot run as root: 0.4 of it is that
EXPOSURE = {"system": 2.0, "user": 2.0}


def analyze(service: Service, *arguments: str) -> tuple[int, str, str]:
    scope = ["--user"] if service.own else []
    done = service.machine.run("systemd-analyze", *scope, *arguments, operator=service.own, check=False)
    return done.returncode, done.stdout, done.stderr


def test_units_verify_without_a_word(service: Service) -> None:
    units = [f"{service.units}/treewarden.{kind}" for kind in ("service", "socket")]
    assert analyze(service, "verify", *units) == (0, "", "")


def test_unit_with_an_unknown_key_does_not_pass_unseen(service: Service) -> None:
    service.adjust("NoSuchKey=1\n")
    assert "NoSuchKey" in analyze(service, "verify", f"{service.units}/treewarden.service")[2]


def test_exposure_is_low(service: Service) -> None:
    unit = f"{service.units}/treewarden.service"
    limit = EXPOSURE[service.scope]
    code, out, err = analyze(service, "security", "--offline=true", f"--threshold={limit * 10:.0f}", "--no-pager", unit)
    found = re.search(r"exposure level for treewarden.service: ([\d.]+)", out)
    assert found is not None, err
    print(service.machine.suite, service.scope, found[0])
    assert (code, float(found[1]) <= limit) == (0, True), found[0]


def test_installed_again_changes_nothing_and_starts_nothing(service: Service) -> None:
    said = service.install()
    assert {change["action"] for change in said["changes"] if change["path"] != service.state} == {"unchanged"}
    assert service.systemctl("is-enabled", "treewarden.socket", "treewarden.service").stdout == "enabled\nenabled\n"
    assert service.show("ActiveState") == "inactive"
    assert any(line.startswith("start it: systemctl") for line in said["next"])


def test_running_service_goes_on_as_it_was_until_it_is_restarted(service: Service) -> None:
    service.start()
    pid = service.show("MainPID")
    try:
        said = service.install("--port", "7800")
        assert service.show("MainPID") == pid
        assert any("restart" in line for line in said["next"])
        said = service.install("--port", "7800", "--now")
        assert service.show("MainPID") != pid
        until(lambda: service.status()["url"] == "http://127.0.0.1:7800", 10, "the new port")
    finally:
        service.install()


def test_uninstalled_service_is_gone_and_its_data_is_not(service: Service) -> None:
    service.start()
    scope = f"--{service.scope}"
    try:
        said = json.loads(
            service.machine.run(TREEWARDEN, "uninstall-service", scope, "--json", operator=service.own).stdout
        )
        assert {change["action"] for change in said["changes"]} == {"removed"}
        assert service.show("LoadState") == "not-found"
        listed = service.machine.run("ls", "-A", service.units, operator=service.own).stdout
        assert "treewarden" not in listed
        service.machine.run("test", "-f", f"{service.state}/treewarden.db")
    finally:
        service.install()


def test_system_service_without_a_user_is_a_usage_error(system: Service) -> None:
    done = system.machine.run(TREEWARDEN, "install-service", "--system", check=False)
    assert (done.returncode, "say whose agents it guards: --run-as USER" in done.stderr) == (2, True)


def test_system_service_by_a_person_is_denied(system: Service) -> None:
    done = system.machine.run(TREEWARDEN, "install-service", "--system", check=False, operator=True)
    assert (done.returncode, "may only be written by root" in done.stderr) == (4, True)
