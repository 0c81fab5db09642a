"""The layers of the design, held by a walk over every import: who may know whom, and what is pure."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# no I/O, no clock, no randomness, no actor library: only data in, data out
PURE = [
    "supervisor/spec.py",
    "supervisor/intensity.py",
    "supervisor/events.py",
    "supervisor/strategy.py",
    "supervisor/tree.py",
    "actors/messages.py",
    "actors/application.py",
    "actors/tree/state.py",
    "actors/tree/keys.py",
    "actors/tree/tally.py",
    "actors/tree/trail.py",
    "actors/tree/sentences.py",
    "actors/tree/usage.py",
    "actors/judge_knobs.py",
    "actors/tree/window.py",
    "actors/tree/signals.py",
    "actors/tree/judge.py",
    "actors/tree/step.py",
    "actors/tree/view.py",
    "actors/tree/merge.py",
    "actors/tree/snapshot.py",
    "actors/tree/verdicts.py",
    "actors/tree/alerts.py",
    "actors/tree/lineage.py",
    "actors/tree/routing.py",
    "actors/tree/record.py",
    "actors/tree/rules/*.py",
    "actors/notifier/alert.py",
    "actors/notifier/route.py",
    "actors/notifier/step.py",
    "actors/sensors/wire.py",
    "actors/sensors/replay.py",
    "actors/sensors/normalise*.py",
    "actors/sensors/prices.py",
    "actors/sensors/paid_once.py",
    "actors/sensors/calibration.py",
    "actors/sensors/readers/claude_code.py",
    "actors/sensors/readers/codex.py",
    "actors/sensors/readers/gemini.py",
    "actors/sensors/readers/mini_swe_agent.py",
    "actors/sensors/readers/opencode.py",
    "actors/sensors/readers/openhands.py",
    "actors/sensors/readers/pi.py",
    "actors/sensors/readers/swe_agent.py",
]
IMPURE = {
    "asyncio",
    "time",
    "socket",
    "subprocess",
    "threading",
    "random",
    "pykka",
    "httpx",
    "apsw",
    "select",
    "signal",
}
ROOT_MAY_IMPORT = {"supervisor", "sdnotify"}


def files(*packages):
    return [path for name in packages for path in sorted((ROOT / name).rglob("*.py"))]


def parsed(text):
    """Parse without the garbage collector: CPython 3.11 fails when a finalizer parses in the middle (gh-106905)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if enabled:
            gc.enable()


def imports(path):
    for node in ast.walk(parsed(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def closure(module, seen):
    """Add every module of ours that ``module`` imports, directly or not."""
    path = ROOT / (module.replace(".", "/") + ".py")
    if module in seen or not path.exists():
        return seen
    seen.add(module)
    for name in imports(path):
        closure(name, seen)
    return seen


def test_supervisor_knows_nothing_of_actors():
    guilty = [f"{p.relative_to(ROOT)}: {n}" for p in files("supervisor") for n in imports(p) if n.startswith("actors")]
    assert guilty == []


def test_every_pure_pattern_names_a_file():
    assert [pattern for pattern in PURE if not list(ROOT.glob(pattern))] == []


@pytest.mark.parametrize("path", [p for pattern in PURE for p in sorted(ROOT.glob(pattern))], ids=str)
def test_pure_module_imports_nothing_impure_directly_or_not(path):
    module = str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
    reached = {
        n.split(".")[0] for one in closure(module, set()) for n in imports(ROOT / (one.replace(".", "/") + ".py"))
    }
    assert reached & IMPURE == set()


def test_root_imports_the_standard_library_and_sdnotify_only():

    reached = {
        n.split(".")[0]
        for one in closure("supervisor.root", set())
        for n in imports(ROOT / (one.replace(".", "/") + ".py"))
    }
    assert reached - set(sys.stdlib_module_names) - ROOT_MAY_IMPORT == set()


@pytest.mark.parametrize("package", ["tree", "notifier", "sensors", "store", "edge"])
def test_nobody_but_clients_imports_what_acts_on_a_client(package):
    allowed = {"actors.clients.requests", "actors.clients.install_plugin"}
    guilty = [
        f"{p.relative_to(ROOT)}: {n}"
        for p in files(f"actors/{package}")
        for n in imports(p)
        if n.startswith("actors.clients") and n not in allowed
    ]
    assert guilty == []


@pytest.mark.parametrize("package", ["tree", "notifier", "sensors", "store", "clients", "edge"])
def test_shells_do_not_know_the_command_line(package):
    guilty = [
        f"{p.relative_to(ROOT)}: {n}"
        for p in files(f"actors/{package}")
        for n in imports(p)
        if f"{n}.".startswith("actors.cli.")
    ]
    assert guilty == []


def tracked():
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in done.stdout.splitlines()]


def test_text_is_ascii():
    texts = {".py", ".md", ".js", ".mjs", ".yaml", ".toml", ".sql", ".json", ""}
    guilty = [p for p in tracked() if p.suffix in texts and p.is_file() and not p.read_bytes().isascii()]
    assert guilty == []


def test_no_module_has_a_name_that_says_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "stuff"}
    assert [p for p in files("supervisor", "actors", "tests") if p.stem in vague] == []
