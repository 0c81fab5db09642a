"""A machine for tests: a container with a real systemd as PID 1 and this treewarden installed from its wheel.

The images are made by .ci/install-systemd. Each machine is an overlay of one with a network of its own; the host sees
nothing of it but its processes and cgroups, which go with ``close``. Needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

REPOSITORY = Path(__file__).parents[3]
INSTALL = REPOSITORY / ".ci" / "install-systemd"
BOOT = Path(__file__).parent / "boot"
TREEWARDEN = "/opt/venv/bin/treewarden"
PYTHON = "/opt/venv/bin/python"
UID = 1000
VERSIONS = {"bookworm": 252, "trixie": 257}

_PLAIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_ROOT = {**_PLAIN, "HOME": "/root"}
_OPERATOR = {
    **_PLAIN,
    "HOME": "/home/ada",
    "XDG_RUNTIME_DIR": f"/run/user/{UID}",
    "DBUS_SESSION_BUS_ADDRESS": f"unix:path=/run/user/{UID}/bus",
}
_BECOME = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups"]

T = TypeVar("T")


def lacking(suite: str) -> str | None:
    """Say what is missing for a machine of ``suite``."""
    if os.geteuid() != 0:
        return "containers need root"
    tools = [tool for tool in ("systemd-nspawn", "unshare", "nsenter", "setpriv") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} missing: run .ci/install-systemd"
    if not image_of(suite).is_dir():
        return f"no image of {suite} for this requirements.lock: run .ci/install-systemd"
    return None


def need(suite: str) -> None:
    """Skip the test, or fail it where the end-to-end tests are required, unless machines of ``suite`` can be made."""
    missing = lacking(suite)
    if missing is not None:
        (pytest.fail if os.environ.get("TREEWARDEN_E2E_REQUIRED") == "1" else pytest.skip)(missing)


def image_of(suite: str) -> Path:
    """Return where the image of ``suite`` for the present lock file is, or would be."""
    done = subprocess.run([INSTALL, "--where", suite], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def wheel(directory: Path) -> Path:
    """Build the wheel of the repository as it is."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    return next(directory.glob("*.whl"))


def until(condition: Callable[[], T], timeout_s: float = 20.0, what: str = "the condition") -> T:
    """Return the first true value of ``condition()``; fail when there is none in time."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while time.monotonic() < deadline:
        if found := condition():
            return found
        pause.wait(0.1)
    raise AssertionError(f"{what} never held within {timeout_s} s")


class Machine:
    """One container. ``run`` runs a command in it, as root or as its operator (a person's account)."""

    def __init__(self, suite: str, wheel: Path) -> None:
        self.suite = suite
        self.version = VERSIONS[suite]
        self.name = f"tw-{suite}-{os.getpid()}"
        self._work = Path(tempfile.mkdtemp(prefix="tw-machine-"))
        self._console = (self._work / "console").open("wb")
        # a test run that is killed takes its machines along: on SIGTERM systemd-nspawn powers them off
        command = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "bash",
            str(BOOT),
        ]
        began = time.monotonic()
        self._nspawn = subprocess.Popen(
            [*command, str(image_of(suite)), str(self._work), self.name, str(wheel)],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=self._console,
            start_new_session=True,
        )
        try:
            self.pid = until(self._first_process, 60, "a first process in the container")
            until(self._booted, 60, "a complete boot")
        except BaseException:
            sys.stderr.write(self.console())
            self.close()
            raise
        self.boot_s = time.monotonic() - began

    def _first_process(self) -> int | None:
        if self._nspawn.poll() is not None:
            raise AssertionError(f"systemd-nspawn ended with {self._nspawn.returncode}")
        words = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return next((int(word) for word in words if _is_first(int(word))), None)

    def _booted(self) -> bool:
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def console(self) -> str:
        return (self._work / "console").read_text(errors="replace")

    def run(
        self,
        *command: str,
        operator: bool = False,
        check: bool = True,
        stdin: str | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` in the machine's namespaces and environment."""
        done = subprocess.run(
            self.command(*command, operator=operator),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    @contextlib.contextmanager
    def running(self, *command: str, operator: bool = False) -> Iterator[Running]:
        """Run ``command`` in the machine beside the test, and end it."""
        running = Running(self.command(*command, operator=operator))
        try:
            yield running
        finally:
            running.close()

    def command(self, *command: str, operator: bool = False) -> list[str]:
        variables = [f"{name}={value}" for name, value in (_OPERATOR if operator else _ROOT).items()]
        become = _BECOME if operator else []
        return ["nsenter", "-t", str(self.pid), "-a", "--", *become, "env", "-i", *variables, *command]

    def write(self, path: str, text: str, *, operator: bool = False) -> None:
        """Write a file, as its owner would."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1"'
        self.run("sh", "-c", script, "sh", path, operator=operator, stdin=text)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the whole machine, systemd included, while the clocks go on: a pause of a virtual machine."""
        group = next(Path(p) for p in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if (Path(p) / self.name).is_dir())
        switch = group / self.name / "cgroup.freeze"
        switch.write_text("1")
        try:
            yield
        finally:
            switch.write_text("0")

    def close(self) -> None:
        """Kill the machine's first process, and with it all the others; remove what is left of it."""
        pid = getattr(self, "pid", None)
        if pid is not None and self._nspawn.poll() is None:
            os.kill(pid, signal.SIGKILL)
        elif self._nspawn.poll() is None:
            self._nspawn.terminate()
        try:
            self._nspawn.wait(20)
        except subprocess.TimeoutExpired:
            self._nspawn.kill()
            self._nspawn.wait(20)
        self._console.close()
        for hierarchy in ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"):
            _remove_cgroup(Path(hierarchy) / self.name)
        shutil.rmtree(self._work, ignore_errors=True)


def _is_first(pid: int) -> bool:
    """Say whether a process is the first one of a pid namespace below ours; nspawn has others on the way to it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def _remove_cgroup(group: Path) -> None:
    """Remove a cgroup and those below it; the last process may need a moment to leave."""
    if not (group / "cgroup.procs").exists():
        return

    def gone() -> bool:
        for path in sorted(group.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    until(gone, 10, f"{group} is empty")


class Running:
    """A command that runs beside the test; the lines that it prints are read with a deadline."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self, timeout_s: float = 30.0) -> str:
        """Return the next line that it prints."""
        try:
            return self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"{self._process.args!r} printed no line in {timeout_s} s") from None

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Kill what nsenter has started, then nsenter ends too."""
        for word in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            os.kill(int(word), signal.SIGKILL)
        self._process.wait(10)


class Service:
    """treewarden as a service of one machine: of the system, or of its operator."""

    def __init__(self, machine: Machine, scope: str) -> None:
        self.machine = machine
        self.scope = scope
        self.own = scope == "user"
        self.units = "/home/ada/.config/systemd/user" if self.own else "/etc/systemd/system"
        self.runtime = f"/run/user/{UID}/treewarden" if self.own else "/run/treewarden"
        self.state = "/home/ada/.local/state/treewarden" if self.own else "/var/lib/treewarden"
        self.settings = "/home/ada/.config/treewarden/treewarden.yaml"

    def systemctl(
        self, *arguments: str, check: bool = True, timeout_s: float = 100.0
    ) -> subprocess.CompletedProcess[str]:
        scope = ["--user"] if self.own else []
        return self.machine.run("systemctl", *scope, *arguments, operator=self.own, check=check, timeout_s=timeout_s)

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run treewarden as the operator."""
        return self.machine.run(TREEWARDEN, *arguments, operator=True, check=check)

    def install(self, *options: str) -> dict[str, Any]:
        """install-service, as whoever may."""
        scope = ["--user"] if self.own else ["--system", "--run-as", "ada"]
        done = self.machine.run(TREEWARDEN, "install-service", *scope, *options, "--json", operator=self.own)
        return json.loads(done.stdout)

    def adjust(self, text: str) -> None:
        """Add a drop-in for a test; ``reset`` removes it."""
        self.machine.write(f"{self.units}/treewarden.service.d/90-test.conf", f"[Service]\n{text}", operator=self.own)
        self.systemctl("daemon-reload")

    def reset(self) -> None:
        """Stop, and forget what a test has set."""
        self.systemctl("stop", "treewarden.socket", "treewarden.service", check=False)
        drop_in = f"{self.units}/treewarden.service.d/90-test.conf"
        self.machine.run("rm", "-rf", drop_in, self.settings, self.state)
        self.systemctl("daemon-reload", check=False)
        self.systemctl("reset-failed", "treewarden.service", "treewarden.socket", check=False)

    def start(self) -> float:
        """Start socket and service; return the seconds until systemd takes it for ready."""
        began = time.monotonic()
        self.systemctl("start", "treewarden.socket", "treewarden.service")
        return time.monotonic() - began

    def show(self, name: str) -> str:
        return self.systemctl("show", "--value", "-p", name, "treewarden.service").stdout.strip()

    def status(self) -> dict[str, Any]:
        return json.loads(self.cli("status", "--json").stdout)

    def children(self) -> dict[str, dict[str, Any]]:
        return {child["id"]: child for child in self.status()["children"]}

    def journal(self) -> str:
        user = ["_UID=1000"] if self.own else ["-u", "treewarden.service"]
        return self.machine.run("journalctl", "--no-pager", "-o", "cat", *user).stdout

    def processes(self) -> list[int]:
        """The processes in the service's cgroup."""
        path = self.show("ControlGroup")
        if not path:
            return []
        done = self.machine.run("sh", "-c", f"cat /sys/fs/cgroup{path}/cgroup.procs", check=False)
        return [int(word) for word in done.stdout.split()]

    def signal(self, pid: int, name: str) -> None:
        """Signal a process by its number in the machine."""
        self.machine.run("sh", "-c", f"kill -{name} {pid}")

    def restarts(self) -> int:
        return int(self.show("NRestarts") or 0)
