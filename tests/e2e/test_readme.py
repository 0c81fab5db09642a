"""README's tour, word for word: every command is run, every line of output compared (``...`` stands for anything)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("readme")]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FOREGROUND = "make run"
LAST_LINE = "all children ready"


def section(title):
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def steps(text):
    """Yield (command, expected output) of the console blocks in order."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def fits(expected, got):
    """Tell whether ``got`` is ``expected`` where ``...`` is anything and runs of blanks are one."""

    def squeezed(text):
        return re.sub(r"[ \t]+", " ", re.sub(r" +$", "", text, flags=re.M)).strip()

    pattern = ".*?".join(map(re.escape, squeezed(expected).split("...")))
    return re.fullmatch(pattern.replace(r"\ ", " "), squeezed(got), re.S) is not None


def test_fits_compares_everything_but_the_dots():
    assert fits("a ...\nb  c\n", "a 1 2\nb c\n")
    assert not fits("a ...\nb", "a 1\nx")
    assert not fits("a", "a\nb")


class Foreground:
    """What the first terminal runs; its output is read until it is ready."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(
            ["bash", "-c", command], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        self._ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if LAST_LINE in line:
                self._ready.set()

    def output(self):
        assert self._ready.wait(120), "".join(self.lines)
        return "".join(self.lines)

    def end(self):
        """Ctrl-C at a terminal reaches the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(20)


@pytest.fixture
def env():
    with tempfile.TemporaryDirectory(prefix="tw-tour-") as home:
        runtime = Path(home, "run")
        runtime.mkdir(mode=0o700)
        plain = {
            k: v for k, v in os.environ.items() if not k.startswith(("TREEWARDEN", "XDG_", "MAKE", "MFLAGS", "ARGS"))
        }
        own = {"HOME": home, "XDG_RUNTIME_DIR": str(runtime), "TREEWARDEN__RUN__PORT": "0", "NO_COLOR": "1"}
        yield plain | own


def test_tour_prints_what_the_readme_says(env):
    tour = list(steps(section("Five-minute tour")))
    assert [command for command, _ in tour].count(FOREGROUND) == 1
    assert len(tour) >= 8
    first = None
    try:
        for command, expected in tour:
            if command == FOREGROUND:
                first = Foreground(command, env)
                got = first.output()
            else:
                done = subprocess.run(
                    ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
                )
                assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
                got = done.stdout
            assert fits(expected, got), f"$ {command}\n--- the README says\n{expected}\n--- it printed\n{got}"
    finally:
        if first is not None:
            first.end()


def test_every_command_that_the_readme_names_exists():
    from typer.main import get_command

    from actors.cli.main import app

    there = set(get_command(app).commands)
    line = re.search(r"^`(run .*?)`", section("Commands"), re.M)
    assert line is not None
    assert set(line[1].split()) == there


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"make (\w+)", README)) - {"and"}
    assert named >= {"run", "test", "setup", "demo", "bench"}
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.M)] == []
