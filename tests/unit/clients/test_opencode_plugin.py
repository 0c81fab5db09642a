"""Runs the plugin's own tests with node's test runner (deploy/opencode-plugin/test)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parents[3] / "deploy" / "opencode-plugin"
HOW_TO_INSTALL = "node 18 or newer is missing: run .ci/install-e2e (apt-get install nodejs npm)"


def node() -> str:
    found = shutil.which("node")
    if found:
        return found
    if os.environ.get("TREEWARDEN_E2E_REQUIRED") == "1":
        pytest.fail(HOW_TO_INSTALL)
    pytest.skip(HOW_TO_INSTALL)


def test_plugin_tests_under_node_all_pass() -> None:
    command = [node(), "--test", *map(str, sorted((PLUGIN / "test").glob("*.test.js")))]
    done = subprocess.run(command, cwd=PLUGIN, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"^\S* ?pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed, done.stdout[-2000:]
    assert int(passed[1]) > 50


def test_plugin_files_are_plain_ascii_without_dependencies() -> None:
    for path in [PLUGIN / "treewarden.js", *sorted((PLUGIN / "treewarden").glob("*.js"))]:
        text = path.read_text(encoding="utf-8")
        assert text.isascii(), path
        assert text.count("\n") <= 300, path
        imports = re.findall(r'^import .* from "([^"]+)"', text, re.MULTILINE)
        assert [name for name in imports if not name.startswith(("node:", "./"))] == [], path
