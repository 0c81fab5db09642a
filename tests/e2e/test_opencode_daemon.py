"""The whole chain: the real opencode with the plugin, a scripted provider, the real daemon, a real session bus."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.clients.install_plugin import install
from tests.e2e.bus_tap import Tap
from tests.e2e.daemon_rig import Daemon, daemon, until
from tests.e2e.desktop_rig import Desktop, desktop
from tests.e2e.fake_provider import FakeProvider, Say, call
from tests.e2e.opencode_rig import Opencode, require_opencode

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("opencode")]

CANARY = "canary-9b1d-hunter2"


@dataclass
class Chain:
    """All parts of one evening at the desk; ``taps`` heard what went over the bus."""

    daemon: Daemon
    opencode: Opencode
    provider: FakeProvider
    desktop: Desktop
    taps: list[Tap]

    def tree(self, session: str) -> dict[str, Any]:
        with self.daemon.client() as client:
            answer = client.get(f"/v1/trees/{session}")
            return answer.json() if answer.status_code == 200 else {}

    def run(self, project: Path, steps: list[Any], prompt: str = "Please go on.") -> str:
        session = self.opencode.create_session(project)
        self.provider.script(steps, conversation=session)
        self.opencode.prompt(project, session, prompt)
        return session

    def settled(self, session: str, turns: int) -> dict[str, Any]:
        """Wait until all turns of the session have arrived, and return its tree."""

        def arrived():
            tree = self.tree(session)
            own = [one for one in tree.get("conversations", []) if one["id"] == session]
            return tree if own and own[0]["turns"] >= turns else None

        return until(arrived, 20, f"{turns} turns of {session}")


def tapped(one: Daemon) -> list[Tap]:
    """Tap keeper and notifier, let the shards reconnect through the taps, tap those, let the edge reconnect."""
    bus = one.runtime / "bus"
    taps = [Tap(bus / f"{name}.sock") for name in ("keeper", "notifier")]
    shards = [name for name in one.children() if name.startswith("forest-")]
    for names, then in ((shards, [bus / f"{name}.sock" for name in shards]), (["edge"], [])):
        old = {name: one.kill(name) for name in names}
        until(lambda old=old: back(one, old), 20, "the killed children are back")
        taps += [Tap(path) for path in then]
    return taps


def back(one: Daemon, old: dict[str, int]) -> bool:
    found = one.children()
    return all(found[name]["state"] == "ready" and found[name]["pid"] != pid for name, pid in old.items())


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    require_opencode()
    with desktop() as screen, daemon("run:\n  shards: 2\n", screen.env) as one:
        taps = tapped(one)
        provider = FakeProvider().start()
        opencode = Opencode(tmp_path_factory.mktemp("oc"), provider.base_url, runtime_dir=one.runtime)
        install(opencode.config_dir)
        try:
            yield Chain(one, opencode.start(), provider, screen, taps)
        finally:
            opencode.stop()
            provider.stop()
            for tap in taps:
                tap.close()


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(f"hello\n{CANARY}-in-the-file\n")
    (folder / "Makefile").write_text("test:\n\t@echo " + CANARY + "-in-the-output; grep -q fixed a.txt\n")
    for command in ("init -q", "config user.name t", "config user.email t@localhost", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def test_looping_agent_is_flagged_and_alerted_on_the_desktop(chain, project):
    session = chain.run(project, [call("read", filePath=str(project / "a.txt"))] * 30, f"Do it. {CANARY}-in-the-prompt")
    shown = until(lambda: chain.desktop.shown(session), 10, "a notification")
    tree = chain.settled(session, 31)
    assert tree["verdict"] in ("stalling", "looping")
    assert tree["top_target"] == "a.txt"
    assert tree["usd_since_landed"] == pytest.approx(31 * 0.00375)
    assert {one["agent"] for one in tree["conversations"]} == {"build"}
    assert shown[0]["title"].startswith("build is stalling")
    assert [one["after"] for one in tree["transitions"]] == ["stalling", "looping"]
    until(lambda: len(chain.desktop.shown(session)) == 2, 10, "one message a change of verdict, not one a call")
    assert {one["title"].split(":")[0] for one in chain.desktop.shown(session)} <= {
        "build is stalling",
        "build is looping",
    }
    listed = json.loads(chain.daemon.cli("trees", "--json").stdout)["trees"]
    assert next(row for row in listed if row["id"] == session)["verdict"] == tree["verdict"]
    assert session in chain.daemon.cli("why", session).stdout


def test_healthy_agent_stays_ok_and_nobody_is_told(chain, project):
    file = str(project / "a.txt")
    test = call("bash", command="make test", description="run tests")
    steps = [call("read", filePath=file), test, test]
    steps += [call("edit", filePath=file, oldString="hello", newString="fixed"), test]
    for n in range(15):
        new = str(project / f"new{n}.txt")
        steps += [call("write", filePath=new, content=f"{CANARY} {n}\n"), call("read", filePath=new)]
    session = chain.run(project, steps)
    tree = chain.settled(session, len(steps) + 1)
    assert (tree["verdict"], tree["transitions"]) == ("ok", [])
    assert tree["turns_since_landed"] < 5
    assert chain.desktop.shown(session) == []


def test_child_session_rolls_up_to_its_root(chain, project):
    session = chain.opencode.create_session(project)
    task = call("task", description=CANARY, prompt=f"{CANARY} look around", subagent_type="general")
    chain.provider.script([call("read", filePath=str(project / "a.txt")), task, Say("done")], conversation=session)
    chain.provider.script(
        [call("read", filePath=str(project / "Makefile"))] * 29 + [Say("found nothing")], parent=session
    )
    chain.opencode.prompt(project, session, "Please delegate.")
    tree = chain.settled(session, 3)
    assert len(tree["conversations"]) == 2
    child = next(one for one in tree["conversations"] if one["id"] != session)
    assert child["parent"] == session
    assert child["verdict"] in ("stalling", "looping")
    assert tree["verdict"] == child["verdict"]
    assert tree["turns_since_landed"] >= 30, "the child's turns count for its root"
    until(lambda: chain.desktop.shown(session), 10, "a notification about the root")
    with chain.daemon.client() as client:
        assert client.get(f"/v1/trees/{child['id']}").json()["id"] == session


def test_plugin_is_seen_by_doctor_with_its_version(chain):
    text = chain.daemon.cli("doctor", check=None).stdout
    assert "plugin" in text
    line = next(line for line in text.splitlines() if "plugin" in line)
    assert line.startswith("ok"), text


def test_canary_is_nowhere(chain, project):
    """Runs after the others: prompts, arguments, file contents and outputs all carried the canary."""
    provider_saw = json.dumps([request.body for request in chain.provider.requests])
    assert CANARY in provider_saw, "the canary was really in play"
    heard = b"".join(bytes(tap.heard) for tap in chain.taps)
    assert b"Ingest" in heard
    assert b"Commit" in heard
    assert b"Raise" in heard
    places = {"bus": heard, "log": chain.daemon.log.read_bytes(), "desktop": json.dumps(chain.desktop.calls).encode()}
    for path in chain.daemon.state.rglob("*"):
        if path.is_file():
            places[path.name] = path.read_bytes()
    assert "treewarden.db" in places
    assert [name for name, data in places.items() if CANARY.encode() in data] == []
    with chain.daemon.client() as client:
        assert CANARY not in client.get("/v1/alerts").text
        assert CANARY not in client.get("/v1/trees").text
