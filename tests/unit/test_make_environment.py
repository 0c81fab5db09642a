"""``make setup`` on machines that lack something: what its script says and calls. The real one made our own .venv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "make-environment"


@pytest.fixture
def machine(tmp_path):
    """A PATH with the shell's tools, no python and no uv; programs are added by the test."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "printf", "command", "cat", "touch", "mkdir"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)

    def add(name, text):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)

    add.run = lambda: subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path / "venv")],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return add


def test_no_python_is_named_with_its_fix(machine):
    done = machine.run()
    assert done.returncode == 1
    assert "python3 is missing: install python3 (3.11 or newer)" in done.stderr


def test_old_python_is_named_with_its_version_and_a_way_out(machine):
    machine("python3", 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    done = machine.run()
    assert done.returncode == 1
    assert "Python 3.9.2 is too old" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_missing_venv_module_is_named_with_its_package(machine):
    real = sys.executable
    machine("python3", f'case "$*" in *ensurepip*) exit 1;; *) exec {real} "$@";; esac')
    done = machine.run()
    assert done.returncode == 1
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"apt-get install python{version}-venv" in done.stderr


def test_uv_is_used_when_it_is_there_and_checks_hashes(machine, tmp_path):
    machine("python3", f'exec {sys.executable} "$@"')
    machine("uv", f'echo "$@" >> {tmp_path}/calls')
    done = machine.run()
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    assert "venv --quiet --python python3" in calls
    assert "--require-hashes -r requirements.lock" in calls
    assert "--editable ." in calls


def test_lock_file_names_every_dependency_with_hashes_and_no_host():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    lock = (ROOT / "requirements.lock").read_text()
    for text in wanted:
        name = text.split(";")[0].split(">")[0].split("=")[0].strip().lower()
        assert f"\n{name}==" in f"\n{lock.lower()}", f"{name} is not locked: make lock"
    assert "://" not in lock
    assert os.linesep.join(lock.splitlines()).count("--hash=sha256:") > len(wanted)
