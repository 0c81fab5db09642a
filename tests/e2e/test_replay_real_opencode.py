"""Live equals offline: what the plugin reported of a session, and what replay reads of it in opencode's own store."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.clients.install_plugin import install
from actors.messages import Kind
from actors.sensors.readers.formats import read_file
from actors.sensors.readers.records import World
from tests.e2e.fake_provider import FakeProvider, Say, call
from tests.e2e.opencode_rig import Opencode, require_opencode
from tests.e2e.recording_ingest import RecordingIngest

pytestmark = pytest.mark.e2e

# of these the plugin knows what the store does not hold: the bytes of a file, the time of its own clock, its numbering
FIELDS = ("tool", "round", "fingerprint", "slice", "target", "exit", "result", "error", "landed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\nworld\n")
    (folder / "Makefile").write_text("test:\n\tgrep -q fixed a.txt\n")
    for command in ("init -q", "config user.name t", "config user.email t@localhost", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    started = FakeProvider().start()
    yield started
    started.stop()


def script(project: Path) -> list[Any]:
    file = str(project / "a.txt")
    return [
        call("read", filePath=file),
        call("read", filePath=str(project / "missing.txt")),
        call("bash", command="make test", description="run tests"),
        call("edit", filePath=file, oldString="hello", newString="fixed"),
        call("edit", filePath=file, oldString="not there", newString="x"),
        call("bash", command="make test", description="again"),
        call("write", filePath=str(project / "b.txt"), content="new\n"),
        call("grep", pattern="fixed", path=str(project)),
        call("glob", pattern="*.txt"),
        call("bash", command="TOKEN=hunter2 curl -s hunter2", description="secret"),
        call("bash", command="exit 3", description="fail"),
        call("nosuch", x=1),
        call("bash", command="git add -A && git commit -qm done", description="commit"),
        Say("All done, every word of it."),
    ]


def compared(event: dict[str, Any]) -> dict[str, Any]:
    """Masked words are keyed hashes live and numbers offline."""
    found = {name: event.get(name) for name in FIELDS}
    found["target"] = re.sub(r"h:\w+", "h:*", found["target"] or "")
    return found


def test_store_read_offline_agrees_with_the_plugins_live_events(
    tmp_path: Path, project: Path, provider: FakeProvider
) -> None:
    require_opencode()
    opencode = Opencode(tmp_path / "opencode", provider.base_url)
    install(opencode.config_dir)
    ingest = RecordingIngest(opencode.runtime_dir).start()
    try:
        opencode.start()
        session = opencode.create_session(project)
        provider.script(script(project), conversation=session)
        opencode.prompt(project, session, "Please go on.")
        ingest.wait(lambda: len(ingest.of(session, "idle")) >= 1)
        live = {kind: ingest.of(session, kind) for kind in ("tool", "turn", "user", "assistant", "done")}
        store = opencode.root / "home" / ".local" / "share" / "opencode" / "opencode.db"
        beside = list(read_file(store))  # while it runs: most of it is still in the log
    finally:
        opencode.stop()
        ingest.stop()

    worlds = [one for one in beside if isinstance(one, World)]
    assert len(worlds) == len(beside) == 1
    offline = {kind: [one for one in worlds[0].events if one.kind is Kind(kind)] for kind in live}
    assert [compared(one.model_dump(mode="json")) for one in offline["tool"]] == [compared(one) for one in live["tool"]]
    assert len(live["tool"]) == 13
    turns = [one.model_dump(mode="json") for one in offline["turn"]]
    for name in ("round", "model", "provider", "tokens", "cost_usd", "context_tokens"):
        assert [one[name] for one in turns] == [one[name] for one in live["turn"]], name
    assert [(one.said, one.said_sim) for one in offline["assistant"]] == [
        (one["said"], one["said_sim"]) for one in live["assistant"]
    ]
    assert [len(offline[kind]) for kind in ("user", "done")] == [len(live[kind]) for kind in ("user", "done")] == [1, 1]
