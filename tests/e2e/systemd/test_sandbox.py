"""Through the sandbox goes what the daemon needs, and nothing else: the session bus, the clients' stores, its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.systemd.machine import PYTHON, Service, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("systemd")]

NOTIFICATIONS = (Path(__file__).parents[1] / "notification_service.py").read_text()
STORE = "/home/ada/.local/share/opencode/opencode.db"
SPIN = """
import json, sys, urllib.request
sensor = json.load(open(sys.argv[1]))
same = {"session_id": "spin", "tool": "read", "fingerprint": "f", "target": "a.py", "exit": 0, "result": "r"}
events = [same | {"id": str(n)} for n in range(60)]
request = urllib.request.Request(sensor["url"] + "/v1/progress", json.dumps(events).encode(),
    {"Authorization": "Bearer " + sensor["token"], "Content-Type": "application/json"})
print(urllib.request.urlopen(request, timeout=20).status)
"""


def test_alert_reaches_the_desktop_over_the_session_bus(service: Service) -> None:
    machine = service.machine
    machine.write("/opt/notifications.py", NOTIFICATIONS)
    with machine.running(PYTHON, "/opt/notifications.py", "-", operator=True) as screen:
        assert screen.line() == "ready"
        service.start()
        spun = machine.run(PYTHON, "-c", SPIN, f"{service.runtime}/sensor.json", operator=True)
        assert spun.stdout == "202\n"
        shown = json.loads(screen.line())
        assert (shown["call"], "a.py" in shown["body"]) == ("Notify", True)


def test_opencode_store_is_seen_and_cannot_be_written(service: Service) -> None:
    machine = service.machine
    machine.write(STORE, "", operator=True)
    service.start()

    def seen() -> bool:
        said = machine.run(
            PYTHON, "-c", "import httpx, sys; print(httpx.Client(transport=httpx.HTTPTransport(uds=sys.argv[1]))"
            ".get('http://control/v1/health').text)", f"{service.runtime}/control.sock", operator=True
        )  # fmt: skip
        stores = json.loads(said.stdout)["clients"].get("stores", [])
        return [store["path"] for store in stores] == [STORE]

    until(seen, 10, "the store in what clients sees")
    assert inside(service, f"cat {STORE}") == 0
    assert inside(service, f"echo x >> {STORE}") != 0
    assert inside(service, "echo x > /home/ada/x") != 0
    assert inside(service, "echo x > /var/tmp/x && ls /home/ada/.ssh") != 0
    assert inside(service, f"echo x > {service.state}/x && echo x > {service.runtime}/x") == 0


def inside(service: Service, script: str) -> int:
    """Run a script with the mounts and the user of the service's root; return its exit code."""
    pid = service.show("MainPID")
    enter = [
        "nsenter",
        "-t",
        pid,
        "-m",
        "setpriv",
        "--reuid=1000",
        "--regid=1000",
        "--clear-groups",
        "sh",
        "-c",
        script,
    ]
    return service.machine.run(*enter, check=False).returncode


def test_user_service_makes_its_state_directory_anew_and_not_as_a_link(user: Service) -> None:
    user.machine.write(user.settings, "", operator=True)  # its directory is what systemd 254 would link to
    user.machine.run("rm", "-rf", user.state)
    user.start()
    assert user.machine.run("stat", "-c", "%F %a %U", user.state).stdout == "directory 700 ada\n"


def test_user_service_without_namespaces_serves_too(user: Service) -> None:
    try:
        user.install("--no-namespaces")
        user.start()
        assert user.show("PrivateUsers") == "no"
        assert all(child["state"] == "ready" for child in user.children().values())
    finally:
        user.install()
