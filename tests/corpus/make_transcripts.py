"""Makes tests/corpus/transcripts: one small session of every client that runs here, recorded by the client itself.

    .venv/bin/python -m tests.corpus.make_transcripts CLIENTS [NAME...]

CLIENTS holds the installed clients: ``npm install --prefix CLIENTS @anthropic-ai/claude-code @openai/codex
@google/gemini-cli @oh-my-pi/pi-coding-agent bun`` and ``python -m venv CLIENTS/venv`` with mini-swe-agent;
``CLIENTS/openhands`` with openhands-ai 0.9.8; opencode is the one in .e2e. Each client gets a HOME and a git project
of its own and talks to a scripted model on loopback only.
What is stored is scrubbed: the project is /home/user/project, texts longer than 600 characters are cut.

Every session does the same: read, a test that fails, an edit, the test again, an edit that does not fit, a file that is
not there, a command that fails twice, a commit, a command. CANARY stands wherever content must not get into an event.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.corpus.scripted_wires import Step, Wires

HERE = Path(__file__).parent
TARGET = HERE / "transcripts"
PROMPT = "Fix add in calc.py CANARY-PROMPT"
TEST = "TOKEN=CANARY-SECRET python3 -m unittest -q test_calc"
CALC = "# CANARY-FILE\ndef add(a, b):\n    return a - b\n"
FIXED = CALC.replace("a - b", "a + b")
TEST_CALC = """import unittest
from calc import add


class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""
CUT = 600
PERSON = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
Tool = tuple[str, dict[str, Any]]


class World:
    """A client's HOME and project, for one session."""

    def __init__(self, root: Path, clients: Path) -> None:
        self.root, self.clients = root, clients
        self.home, self.project = root / "home", root / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        (self.project / "calc.py").write_text(CALC)
        (self.project / "test_calc.py").write_text(TEST_CALC)
        self.run(["git", "init", "-q"])
        self.run(["git", "add", "."])
        self.run(["git", "commit", "-qm", "one"])

    @property
    def calc(self) -> str:
        return str(self.project / "calc.py")

    def run(self, command: list[str], **env: str) -> None:
        own = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1"}
        subprocess.run(
            command,
            cwd=self.project,
            env={**own, **PERSON, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=120,
            check=True,
        )

    def npm(self, name: str) -> str:
        return str(self.clients / "node_modules" / ".bin" / name)

    def script(self, read: Callable[[str], Tool], bash: Callable[[str], Tool], edit: Callable[..., Tool]) -> list[Step]:
        missing = str(self.project / "nope.py")
        return [
            [read(self.calc)],
            [bash(TEST)],
            [edit(self.calc, "return a - b", "return a + b")],
            [bash(TEST)],
            [edit(self.calc, "not there CANARY", "x")],
            [read(missing)],
            [bash("cat missing.txt # CANARY")],
            [bash("cat missing.txt # CANARY")],
            [bash("git commit -qam CANARY-MESSAGE")],
            [bash("sleep 0.1; echo CANARY-OUT")],
            "All done CANARY-SAID.",
        ]


def claude_code(world: World) -> list[Path]:
    script = world.script(
        lambda file: ("Read", {"file_path": file}),
        lambda command: ("Bash", {"command": command, "description": "CANARY-WORDING"}),
        lambda file, old, new: ("Edit", {"file_path": file, "old_string": old, "new_string": new}),
    )
    dispatch: Step = [("Agent", {"subagent_type": "Explore", "prompt": "CANARY look", "description": "look"})]
    with Wires([dispatch, [("Read", {"file_path": world.calc})], "Looked CANARY.", *script]) as wires:
        quiet = ("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER")
        off = dict.fromkeys((*quiet, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1")
        tools = ["--allowedTools", "Read,Edit,Write,Bash,Agent", "--model", "claude-sonnet-4-5"]
        command = [world.npm("claude"), "-p", PROMPT, "--output-format", "json", *tools]
        world.run(command, ANTHROPIC_BASE_URL=wires.url, ANTHROPIC_API_KEY="scripted", **off)
    return sorted((world.home / ".claude" / "projects").rglob("*.jsonl"))


def codex(world: World) -> list[Path]:
    def bash(command: str) -> Tool:
        return "exec_command", {"cmd": command}

    def edit(file: str, old: str, new: str) -> Tool:
        patch = f"*** Begin Patch\n*** Update File: {file}\n@@\n-    {old}\n+    {new}\n*** End Patch"
        return bash(f"apply_patch <<'EOF'\n{patch}\nEOF")

    with Wires(world.script(lambda file: bash(f"sed -n 1,20p {file}"), bash, edit)) as wires:
        home = world.home / ".codex"
        home.mkdir()
        provider = f'name="fake"\nbase_url="{wires.url}/v1"\nwire_api="responses"\nenv_key="FAKE_KEY"\n'
        free = 'approval_policy="never"\nsandbox_mode="danger-full-access"\n'
        head = f'model="gpt-5-codex"\nmodel_provider="fake"\n{free}[analytics]\nenabled=false\n'
        (home / "config.toml").write_text(f"{head}[model_providers.fake]\n{provider}")
        world.run([world.npm("codex"), "exec", "--json", "--skip-git-repo-check", PROMPT], FAKE_KEY="scripted")
    return sorted((world.home / ".codex" / "sessions").rglob("*.jsonl"))


def gemini(world: World) -> list[Path]:
    script = world.script(
        lambda file: ("read_file", {"file_path": file}),
        lambda command: ("run_shell_command", {"command": command, "description": "CANARY-WORDING"}),
        lambda file, old, new: (
            "replace",
            {"file_path": file, "old_string": old, "new_string": new, "instruction": "CANARY-WORDING"},
        ),
    )
    with Wires(script) as wires:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True},
        }
        (world.home / ".gemini").mkdir()
        (world.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        own = {"GOOGLE_GEMINI_BASE_URL": wires.url, "GEMINI_API_KEY": "scripted", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        world.run([world.npm("gemini"), "-m", "gemini-2.5-pro", "--yolo", "-p", PROMPT], **own)
    return sorted((world.home / ".gemini" / "tmp").rglob("session-*"))


def pi(world: World) -> list[Path]:
    """Its edit tool wants anchors that only a model can read off the file: it writes the file instead."""
    script = world.script(
        lambda file: ("read", {"path": file}),
        lambda command: ("bash", {"command": command}),
        lambda file, old, new: (
            ("write", {"path": file, "content": FIXED})
            if old in CALC
            else ("edit", {"path": file, "old_text": old, "new_text": new})
        ),
    )
    with Wires(script) as wires:
        home = world.home / ".omp" / "agent"
        home.mkdir(parents=True)
        price = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
        model = {"id": "scripted", "name": "scripted", "reasoning": False, "input": ["text"], "cost": price}
        model |= {"contextWindow": 100_000, "maxTokens": 8_000}
        fake = {"baseUrl": f"{wires.url}/v1", "apiKey": "scripted", "api": "openai-completions", "models": [model]}
        (home / "models.yml").write_text(json.dumps({"providers": {"fake": fake}}))
        path = f"{world.clients / 'node_modules' / '.bin'}:{os.environ['PATH']}"
        world.run([world.npm("omp"), "-p", "--model", "fake/scripted", PROMPT], PATH=path)
    return sorted((world.home / ".omp" / "agent" / "sessions").rglob("*.jsonl"))


def mini_swe_agent(world: World) -> list[Path]:
    return _mini(world, "mini-1.1.traj.json", lambda command: [("bash", {"command": command})])


def mini_swe_agent_text(world: World) -> list[Path]:
    def fence(command: str) -> Step:
        return f"CANARY-SAID next:\n\n```mswea_bash_command\n{command}\n```"

    return _mini(world, "mini-text.traj.json", fence, "-c", "mini_textbased.yaml", "--model-class", "litellm_textbased")


def _mini(world: World, name: str, step: Callable[[str], Step], *options: str) -> list[Path]:
    commands = [
        "cat calc.py",
        TEST,
        "sed -i 's/a - b/a + b/' calc.py",
        TEST,
        "cat missing.txt # CANARY",
        "cat missing.txt # CANARY",
        "git commit -qam CANARY-MESSAGE",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]
    written = world.root / name
    with Wires([step(command) for command in commands], always=True) as wires:
        own = {
            "OPENAI_API_BASE": f"{wires.url}/v1",
            "OPENAI_BASE_URL": f"{wires.url}/v1",
            "OPENAI_API_KEY": "scripted",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
        }
        mini = str(world.clients / "venv" / "bin" / "mini")
        task = ["-m", "openai/gpt-5-mini", "-t", PROMPT, "-o", str(written)]
        world.run([mini, "-y", "--exit-immediately", *options, *task], **own)
    return [written]


def opencode(world: World) -> list[Path]:
    """The store with a session and its child, and what ``opencode export`` prints of both."""
    from tests.corpus.make_store import small_copy
    from tests.e2e.fake_provider import Call, FakeProvider, Say
    from tests.e2e.opencode_rig import Opencode, find_binary

    script = world.script(
        lambda file: ("read", {"filePath": file}),
        lambda command: ("bash", {"command": command, "description": "CANARY-WORDING"}),
        lambda file, old, new: ("edit", {"filePath": file, "oldString": old, "newString": new}),
    )
    write = ("write", {"filePath": str(world.project / "new.py"), "content": "# CANARY-FILE\n"})
    task = ("task", {"subagent_type": "explore", "prompt": "CANARY look", "description": "look"})
    calls = [Call(tuple(step)) for step in (*script, [write], [task]) if not isinstance(step, str)]
    provider = FakeProvider().start()
    client = Opencode(world.root / "opencode", provider.base_url)
    client.extra_env = PERSON
    try:
        client.start()
        session = client.create_session(world.project)
        provider.script([*calls, Say("All done CANARY-SAID.")], conversation=session)
        provider.script([Call((("read", {"filePath": world.calc}),)), Say("Looked CANARY.")], parent=session)
        client.prompt(world.project, session, PROMPT)
        client.summarize(world.project, session)
        children = [str(child["id"]) for child in client.children(world.project, session)]
    finally:
        client.stop()
        provider.stop()
    exported = world.root / "export.json"
    with exported.open("w") as file:
        for one in (session, *children):
            command = [str(find_binary()), "export", one]
            subprocess.run(command, cwd=world.project, env=client.environment(), stdout=file, timeout=60, check=True)
    store = client.root / "home" / ".local" / "share" / "opencode" / "opencode.db"
    return [exported, small_copy(store, world.root / "opencode.db", lambda text: _scrubbed(text, world))]


def openhands(world: World) -> list[Path]:
    written = world.root / "events.json"
    python = str(world.clients / "openhands" / "bin" / "python")
    world.run([python, str(HERE / "make_openhands.py"), str(world.project), str(written)])
    return [written]


def swe_agent(world: World) -> list[Path]:
    """From its documented format: on PyPI there is only a placeholder, and it runs in containers."""

    def step(action: str, observation: str, opened: str = "n/a") -> dict[str, Any]:
        state = json.dumps({"open_file": opened, "working_dir": str(world.project)})
        said = {"thought": "CANARY-SAID", "response": f"CANARY-SAID\n```\n{action}\n```"}
        return {"action": action, "observation": observation, "state": state, **said}

    refused = "Your proposed edit has introduced new syntax error(s). CANARY"
    steps = [
        step("open calc.py", f"[File: {world.calc} (3 lines total)]\n1:# CANARY-FILE", world.calc),
        step(TEST, "AssertionError: 0 != 4\nFAILED (failures=1)", world.calc),
        step("edit 3:3\n    return a + b CANARY\nend_of_edit", "[File: calc.py]\n3:    return a + b", world.calc),
        step("edit 3:3\n  CANARY return (\nend_of_edit", refused, world.calc),
        step("cat missing.txt # CANARY", "cat: missing.txt: No such file or directory", world.calc),
        step("cat missing.txt # CANARY", "cat: missing.txt: No such file or directory", world.calc),
        step("submit", "diff --git CANARY"),
    ]
    info = {"exit_status": "submitted", "model_stats": {"instance_cost": 0.7, "api_calls": len(steps)}}
    written = world.root / "example__repo-1.traj"
    written.write_text(json.dumps({"environment": "swe_main", "trajectory": steps, "history": [], "info": info}))
    return [written]


MAKERS: dict[str, Callable[[World], list[Path]]] = {
    "claude_code": claude_code,
    "codex": codex,
    "gemini": gemini,
    "pi": pi,
    "mini_swe_agent": mini_swe_agent,
    "mini_swe_agent_text": mini_swe_agent_text,
    "opencode": opencode,
    "openhands": openhands,
    "swe_agent": swe_agent,
}


def main(clients: Path, names: list[str]) -> None:
    for name in names or MAKERS:
        with tempfile.TemporaryDirectory(prefix="transcripts-") as root:
            world = World(Path(root), clients)
            made = MAKERS[name](world)
            if not made:
                raise SystemExit(f"{name}: no transcript was written")
            folder = TARGET / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for path in made:
                _store(path, folder, world)
            print(name, *sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()))


def _store(path: Path, folder: Path, world: World) -> None:
    target = folder / path.name
    if path.parent.name == "subagents":  # beside its session, as the client keeps it
        target = folder / path.parent.parent.name / "subagents" / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".db":
        shutil.copy(path, target)
    elif path.suffix == ".jsonl":
        lines = (_scrubbed(line, world) for line in path.read_text().splitlines() if line.strip())
        target.write_text("".join(f"{line}\n" for line in lines))
    else:
        target.write_text(_documents(path.read_text(), world))


def _documents(text: str, world: World) -> str:
    """Scrub concatenated documents; they stay pretty-printed."""
    decoder, at, out = json.JSONDecoder(), 0, ""
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        out += json.dumps(json.loads(_scrubbed(json.dumps(value), world)), indent=2) + "\n"
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return out


def _scrubbed(text: str, world: World) -> str:
    moved = text.replace(str(world.project), "/home/user/project").replace(str(world.root), "/home/user")
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(world.project))
    return json.dumps(_cut(json.loads(moved.replace(slug, "-home-user-project"))))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= CUT else f"{value[:CUT]}<cut>"
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
