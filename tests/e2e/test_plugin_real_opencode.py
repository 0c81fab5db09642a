"""The plugin inside the real opencode, against a scripted provider and a recording ingest, all on loopback.

Measured here with 1.18.33, beyond what the tests assert:
- the plugin function is called once per project directory of one server; the modules are loaded once per process
- tool.execute.after is not called for failing calls; dispose is not called on SIGTERM of `serve`, but a one-shot
  `opencode run` still delivers everything
- after an abort session.idle comes before the end of the aborted message; an unanswered noReply message makes no
  status event
- the npm install of @opencode-ai/plugin is skipped when node_modules is there and package-lock.json names the package
- GET /permission answers 400 while a webfetch without a timeout is asked for: use the id of the permission.asked event
- a shell call that timed out ends with "shell tool terminated command after exceeding timeout" in <shell_metadata>
- a request that comes in before the "listening" line of `opencode serve` may hang for ever
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.clients.install_plugin import bundled_version, install
from actors.messages import ProgressEvent
from tests.e2e.fake_provider import Call, Fail, FakeProvider, Hang, Say, call
from tests.e2e.opencode_rig import Opencode, require_opencode
from tests.e2e.recording_ingest import RecordingIngest

pytestmark = pytest.mark.e2e

CANARY = "canary-7f3e-hunter2"
SETTINGS = {"permission": {"webfetch": "ask", "external_directory": "allow"}}


@dataclass
class World:
    """One opencode with the plugin installed, its provider and what the plugin posted."""

    opencode: Opencode
    provider: FakeProvider
    ingest: RecordingIngest

    def run(self, project: Path, steps: list[Any], prompt: str = "Please go on.") -> str:
        """One session that follows the steps to its end; returns its id."""
        session = self.opencode.create_session(project)
        self.provider.script(steps, conversation=session)
        self.opencode.prompt(project, session, prompt)
        self.settled(session)
        return session

    def settled(self, session: str, idles: int = 1) -> None:
        self.ingest.wait(lambda: len(self.ingest.of(session, "idle")) >= idles)


def serve(root: Path) -> Iterator[World]:
    require_opencode()
    provider = FakeProvider().start()
    opencode = Opencode(root, provider.base_url)
    opencode.settings = SETTINGS
    install(opencode.config_dir)
    ingest = RecordingIngest(opencode.runtime_dir).start()
    try:
        opencode.start()
        yield World(opencode, provider, ingest)
    finally:
        opencode.stop()
        provider.stop()
        ingest.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from serve(tmp_path_factory.mktemp("opencode"))


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    """An opencode of the test's own, for tests that stop the ingest."""
    yield from serve(tmp_path / "own")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\nworld\n")
    (folder / "Makefile").write_text("test:\n\tgrep -q fixed a.txt\n")
    for command in ("init -q", "config user.name t", "config user.email t@localhost", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event.get("kind", "tool") for event in events]


def test_looping_agent_same_read_reports_equal_calls_that_land_nothing(world: World, project: Path) -> None:
    session = world.run(project, [call("read", filePath=str(project / "a.txt"))] * 12)
    tools = world.ingest.of(session, "tool")
    assert len(tools) == 12
    assert {event["target"] for event in tools} == {"a.txt"}
    for key in ("fingerprint", "slice", "result"):
        assert len({event[key] for event in tools}) == 1, key
    assert not any(event["landed"] for event in tools)
    assert {event["exit"] for event in tools} == {0}
    turns = world.ingest.of(session, "turn")
    assert len(turns) == 13
    assert {event["round"] for event in tools} < {event["round"] for event in turns}
    assert sum(event["cost_usd"] for event in turns) == pytest.approx(13 * 0.00375)
    assert turns[0]["tokens"] == {"prompt": 1000, "cached": 0, "completion": 50}
    assert {(event["model"], event["provider"], event["context_tokens"]) for event in turns} == {
        ("scripted", "fake", 1000)
    }
    assert names(world.ingest.of(session))[0] == "user"
    assert names(world.ingest.of(session))[-3:] == ["turn", "done", "idle"]


def test_healthy_agent_edits_red_to_green_and_commit_land(world: World, project: Path) -> None:
    file = str(project / "a.txt")
    steps = [
        call("read", filePath=file),
        call("bash", command="make test", description="run tests"),
        call("edit", filePath=file, oldString="hello", newString="fixed"),
        call("bash", command="make test", description="run tests again"),
        call("bash", command="make test", description="once more"),
        call("write", filePath=str(project / "b.txt"), content="new\n"),
        call("write", filePath=str(project / "b.txt"), content="new\n"),
        call("bash", command="git add -A && git commit -qm done", description="commit"),
        call("bash", command="git commit -qm nothing", description="commit"),
    ]
    session = world.run(project, steps)
    tools = world.ingest.of(session, "tool")
    assert [(event["tool"], event["exit"], event["landed"]) for event in tools] == [
        ("read", 0, False),
        ("bash", 2, False),
        ("edit", 0, True),
        ("bash", 0, True),
        ("bash", 0, False),
        ("write", 0, True),
        ("write", 0, False),
        ("bash", 0, True),
        ("bash", 1, False),
    ]
    red, green = tools[1], tools[3]
    assert red["fingerprint"] == green["fingerprint"], "the wording of the description is no part of the command"
    assert red["result"] != green["result"]
    assert tools[5]["state"] == tools[6]["state"] != tools[2]["state"]
    assert [event["target"] for event in tools[1:3]] == ["make test", "a.txt"]


def test_apply_patch_lands_with_its_files_and_not_when_it_does_not_match(world: World, project: Path) -> None:
    head, tail = "*** Begin Patch\n*** Update File: a.txt\n@@\n", "\n*** Add File: c.txt\n+c\n*** End Patch"
    patch = call("apply_patch", patchText=f"{head}-hello\n+patched{tail}")
    session = world.opencode.create_session(project)
    world.provider.script([patch, call("apply_patch", patchText=f"{head}-hello\n+x{tail}")], conversation=session)
    model = {"providerID": "fake", "modelID": "gpt-5-scripted"}
    world.opencode.prompt(project, session, "Please patch.", model=model)
    world.settled(session)
    assert (project / "a.txt").read_text() == "patched\nworld\n"
    good, bad = world.ingest.of(session, "tool")
    assert (good["tool"], good["landed"], bad["landed"], bad["error"]) == ("apply_patch", True, False, "edit_mismatch")
    assert good["state"]
    assert world.ingest.of(session, "turn")[0]["model"] == "gpt-5-scripted"


def test_failing_calls_each_report_once_with_their_class(world: World, project: Path) -> None:
    steps = [
        call("read", filePath=str(project / "missing.txt")),
        call("edit", filePath=str(project / "a.txt"), oldString="not there", newString="x"),
        call("nosuchtool", x=1),
        call("bash", command="sleep 5", timeout=200, description="too slow"),
        call("bash", command="exit 7", description="fails"),
    ]
    session = world.run(project, steps)
    found = [(event["tool"], event["exit"], event.get("error")) for event in world.ingest.of(session, "tool")]
    assert found == [
        ("read", 1, "notfound"),
        ("edit", 1, "edit_mismatch"),
        ("invalid", 1, "unknown_tool"),
        ("bash", None, "timeout"),
        ("bash", 7, None),
    ]


def test_task_child_reports_under_its_parent(world: World, project: Path) -> None:
    session = world.opencode.create_session(project)
    task = call("task", description="look", prompt="Please edit it.", subagent_type="general")
    world.provider.script([task], conversation=session)
    edit = call("edit", filePath=str(project / "a.txt"), oldString="hello", newString="bye")
    world.provider.script([edit, Say("child is done")], parent=session)
    world.opencode.prompt(project, session, "Please delegate.")
    world.settled(session)
    child = world.opencode.children(project, session)[0]["id"]
    events = world.ingest.of(child)
    assert {event["parent_session_id"] for event in events} == {session}
    assert {event["agent"] for event in events} == {"general"}
    assert names(events) == ["injected", "tool", "turn", "assistant", "turn", "done", "idle"]
    assert [event["landed"] for event in events if "landed" in event] == [True]
    own = world.ingest.of(session)
    assert all("parent_session_id" not in event for event in own)
    assert [(event["target"], event["landed"]) for event in world.ingest.of(session, "tool")] == [
        ("task general", False)
    ]
    sent = world.provider.of(child)[0].headers
    assert (sent["x-router-conversation"], sent["x-router-parent"], sent["x-router-agent"]) == (
        child,
        session,
        "general",
    )


def test_headers_name_conversation_agent_and_version_also_for_title_and_compaction(world: World, project: Path) -> None:
    session = str(world.opencode.request("POST", "/session", {}, directory=project)["id"])
    world.opencode.prompt(project, session, "Please answer.")
    world.opencode.summarize(project, session)
    for purpose, agent in (("turn", "build"), ("title", "title"), ("compaction", "compaction")):
        headers = world.provider.of(session, purpose)[0].headers
        assert headers["x-router-agent"] == agent
        assert headers["x-router-conversation"] == session
        assert headers["x-treewarden-plugin"] == bundled_version()
        assert "x-router-parent" not in headers
    sensor = world.ingest.headers[-1]["x-treewarden-sensor"]
    assert sensor == f"opencode-plugin/{bundled_version()}"


def test_canary_in_prompt_arguments_and_outputs_never_reaches_the_wire(world: World, project: Path) -> None:
    (project / "secret.txt").write_text(f"{CANARY}\n")
    steps = [
        call("read", filePath=str(project / "secret.txt")),
        call("bash", command=f"TOKEN={CANARY} echo {CANARY}", description=CANARY),
        call("bash", command=f"curl -H{CANARY} http://127.0.0.1:9/{CANARY}", description=CANARY),
        call("grep", pattern=CANARY),
        call("edit", filePath=str(project / "a.txt"), oldString="hello", newString=CANARY),
        call("edit", filePath=str(project / "a.txt"), oldString=f"no {CANARY}", newString="x"),
        call("write", filePath=str(project / "b.txt"), content=CANARY),
        call("todowrite", todos=[{"content": CANARY, "status": "pending", "priority": "high", "id": "1"}]),
        call("task", description=CANARY, prompt=CANARY, subagent_type="explore"),
        call(CANARY, x=CANARY),
        Call((("bash", {"command": f"false {CANARY}", "description": CANARY}),), text=f"I say {CANARY}"),
        Say(f"The end: {CANARY}"),
    ]
    session = world.run(project, steps, prompt=f"Remember {CANARY}")
    assert len(world.ingest.of(session, "tool")) == 11
    assert len(world.ingest.of(session, "assistant")) == 2
    assert len(world.provider.of(session)) == 12
    assert b"hunter2" not in world.ingest.raw
    assert b"canary" not in world.ingest.raw.lower()


def test_every_event_is_valid_wire_format_with_an_id_of_its_own(world: World, project: Path) -> None:
    world.run(project, [call("read", filePath=str(project / "a.txt")), Say("done")])
    known = set(ProgressEvent.model_fields)
    for event in world.ingest.events:
        assert set(event) <= known, event
        ProgressEvent.model_validate(event)
        assert event["source"] == "plugin"
    ids = [event["id"] for event in world.ingest.events]
    assert len(set(ids)) == len(ids)


def test_user_and_injected_messages_are_told_apart(world: World, project: Path) -> None:
    opencode = world.opencode
    session = opencode.create_session(project)
    opencode.prompt(project, session, "A person asks.")
    opencode.prompt(project, session, "Put there by a program.", noReply=True)
    opencode.prompt(project, session, "[SYSTEM DIRECTIVE: OH-MY-OPENCODE - CONTINUATION] go on")
    opencode.prompt(project, session, "A person asks again.")
    world.settled(session, 3)
    found = [kind for kind in names(world.ingest.of(session)) if kind in {"user", "injected"}]
    assert found == ["user", "injected", "injected", "user"]


def test_compaction_is_one_event_and_a_failed_one_says_so(world: World, project: Path) -> None:
    session = world.run(project, [Say("Hello.")])
    world.opencode.summarize(project, session)
    world.settled(session, 2)
    assert [event.get("error") for event in world.ingest.of(session, "compaction")] == [None]
    working, world.provider.compaction = world.provider.compaction, Fail(403, "no")
    try:
        world.opencode.summarize(project, session)
    finally:
        world.provider.compaction = working
    world.ingest.wait(lambda: len(world.ingest.of(session, "compaction")) == 2)
    assert [event.get("error") for event in world.ingest.of(session, "compaction")] == [None, "provider"]
    assert len(world.ingest.of(session, "user")) == 1
    assert "injected" not in names(world.ingest.of(session))


def test_abort_is_an_interrupt_and_a_refusal_a_failed_turn(world: World, project: Path) -> None:
    session = world.opencode.create_session(project)
    world.provider.script([Hang(), Fail(403, "not now")], conversation=session)
    world.opencode.prompt_async(project, session, "Please wait.")
    world.ingest.wait(lambda: world.ingest.of(session, "user"))
    world.provider.wait(session)
    world.opencode.abort(project, session)
    world.ingest.wait(lambda: world.ingest.of(session, "interrupt"))
    world.opencode.prompt(project, session, "Please try again.")
    world.ingest.wait(lambda: len(world.ingest.of(session, "turn")) == 2)
    assert [event.get("error") for event in world.ingest.of(session, "turn")] == [None, "provider"]
    assert len(world.ingest.of(session, "interrupt")) == 1


def test_question_and_permission_open_and_close(world: World, project: Path) -> None:
    opencode, ingest = world.opencode, world.ingest
    options = [{"label": "yes", "description": "y"}, {"label": "no", "description": "n"}]
    ask = call("question", questions=[{"question": "Which?", "header": "h", "options": options}])
    session = opencode.create_session(project)
    world.provider.script([ask, call("webfetch", url="http://127.0.0.1:9/x", format="text")], conversation=session)
    opencode.prompt_async(project, session, "Please ask me.")
    question = ingest.wait(lambda: ingest.of(session, "open"))[0]
    path = f"/question/{question['call_id']}/reply"
    opencode.request("POST", path, {"answers": [["yes"]]}, directory=project)
    permission = ingest.wait(lambda: ingest.of(session, "open")[1:])[0]
    path = f"/permission/{permission['call_id']}/reply"
    opencode.request("POST", path, {"reply": "reject"}, directory=project)
    world.settled(session)
    assert [event["target"] for event in ingest.of(session, "open")] == ["question", "permission webfetch"]
    closed = [event["call_id"] for event in ingest.of(session, "close")]
    assert closed == [question["call_id"], permission["call_id"]]
    assert ingest.of(session, "tool")[-1]["error"] == "denied"


def test_revert_and_delete_are_reported_once(world: World, project: Path) -> None:
    session = world.run(project, [Say("Hello.")])
    message = world.opencode.messages(project, session)[0]["info"]["id"]
    world.opencode.request("POST", f"/session/{session}/revert", {"messageID": message}, directory=project)
    world.opencode.request("DELETE", f"/session/{session}", directory=project)
    world.ingest.wait(lambda: world.ingest.of(session, "deleted"))
    assert names(world.ingest.of(session))[-2:] == ["reverted", "deleted"]


def test_two_projects_of_one_server_do_not_mix(world: World, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "z.txt").write_text("z\n")
    one = world.run(project, [call("read", filePath=str(project / "a.txt"))])
    two = world.run(other, [call("read", filePath=str(other / "z.txt"))])
    assert [names(world.ingest.of(session)).count("tool") for session in (one, two)] == [1, 1]


def test_daemon_down_and_back_on_another_port_gets_every_event_in_order(own_world: World, project: Path) -> None:
    opencode, provider = own_world.opencode, own_world.provider
    first = own_world.run(project, [Say("Hello.")])
    own_world.ingest.stop()
    session = opencode.create_session(project)
    edit = call("edit", filePath=str(project / "a.txt"), oldString="hello", newString="bye")
    provider.script([edit, call("read", filePath=str(project / "a.txt"))], conversation=session)
    opencode.prompt(project, session, "Please edit.")
    assert not own_world.ingest.of(session)
    own_world.ingest = RecordingIngest(opencode.runtime_dir).start()
    own_world.settled(session)
    assert own_world.ingest.events
    assert first not in {event["session_id"] for event in own_world.ingest.events}
    events = own_world.ingest.of(session)
    assert names(events) == ["user", "tool", "turn", "tool", "turn", "assistant", "turn", "done", "idle"]
    assert [event["landed"] for event in own_world.ingest.of(session, "tool")] == [True, False]
    numbers = [int(re.sub(r".*-", "", event["id"]), 36) for event in events]
    assert numbers == sorted(numbers)


def test_daemon_that_never_answers_does_not_slow_the_agent(own_world: World, project: Path) -> None:
    opencode, provider, ingest = own_world.opencode, own_world.provider, own_world.ingest

    def seconds(steps: int) -> float:
        session = opencode.create_session(project)
        provider.script([call("read", filePath=str(project / "a.txt"))] * steps, conversation=session)
        begun = time.monotonic()
        opencode.prompt(project, session, "Please read.")
        return time.monotonic() - begun

    seconds(1)
    answered = seconds(5)
    ingest.silent.set()
    unanswered = seconds(5)
    ingest.silent.clear()
    # With a hook that waited for its 300 ms, 5 calls and 6 turns would add 3 s and more.
    assert unanswered < answered + 1.5, f"{unanswered:.2f} s without answers, {answered:.2f} s with"


def test_installed_plugin_is_what_opencode_loads_from_the_top_level_only(world: World, project: Path) -> None:
    folder = world.opencode.config_dir / "plugin"
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".js"]
    world.run(project, [Say("Hello.")])
    log = world.opencode.log_path.read_text(errors="replace")
    complaints = [line for line in log.splitlines() if "plugin" in line and re.search(r"level=(WARN|ERROR)", line)]
    assert complaints == []
    assert os.environ.get("HOME") != str(world.opencode.root / "home"), "the rig has a home of its own"
