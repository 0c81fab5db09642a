"""treewarden install-service and uninstall-service: units that run this installation, written and enabled.

Idempotent; says every file and every call of systemctl. Starts nothing unless told --now; a running service goes on as
it is until it is restarted. Files of our names that we did not write are left alone and refused.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.cli.directories import config_file, state_dir
from actors.cli.failure import Exit, Failure
from actors.cli.options import ConfigOption, Json, emit_json
from actors.cli.units import DROP_IN, MARK, SERVICE, SOCKET, Facts, Scope, bundle, render

__all__ = ["install_service", "uninstall_service"]

UNITS = (SOCKET, SERVICE)
SYSTEM_UNITS = Path("/etc/systemd/system")
_HIDDEN = ("/tmp", "/var/tmp")  # noqa: S108 - PrivateTmp puts empty directories there
_TIMEOUT_S = 90

ScopeFlag = Annotated[
    bool, typer.Option("--system/--user", help="A service of the system, or (default) one of this user's own systemd.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


@dataclass(frozen=True)
class Systemctl:
    """The systemctl of one scope; with ``dry`` it only says what it would do. ``done`` lists the calls."""

    scope: Scope
    dry: bool
    done: list[str]

    def call(self, *arguments: str, check: bool = True) -> bool:
        """Run it. Errors: Failure, with what it said."""
        command = ["systemctl", *(["--user"] if self.scope is Scope.USER else []), *arguments]
        self.done.append(" ".join(command))
        if self.dry:
            return True
        result = _run(command)
        if result.returncode and check:
            text = (result.stderr or result.stdout).strip()
            raise Failure(Exit.DEGRADED, f"{' '.join(command)}: {text or f'exit {result.returncode}'}")
        return result.returncode == 0

    def active(self) -> bool:
        """Say whether the service runs."""
        user = ["--user"] if self.scope is Scope.USER else []
        return _run(["systemctl", *user, "is-active", "--quiet", SERVICE]).returncode == 0


def install_service(
    *,
    system: ScopeFlag = False,
    dry_run: DryRun = False,
    now: Annotated[bool, typer.Option("--now", help="Also start it, or restart it when it runs.")] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="TCP port on 127.0.0.1; default: run.port of the settings.")
    ] = None,
    run_as: Annotated[
        str | None, typer.Option("--run-as", metavar="USER", help="With --system: whose agents it guards.")
    ] = None,
    namespaces: Annotated[
        bool, typer.Option("--namespaces/--no-namespaces", help="Leave out what needs user namespaces (user service).")
    ] = True,
    config: ConfigOption = None,
    json_output: Json = False,
) -> None:
    """Write the systemd units of this installation and enable them."""
    scope = Scope.SYSTEM if system else Scope.USER
    directory = _directory(scope)
    _may_write(scope, dry_run)
    facts = _facts(scope, port, run_as, namespaces, config)
    files = render(bundle(), facts)
    for name in files:
        _refuse_foreign(directory / name)
    changes = _write(directory, files, dry_run)
    if scope is Scope.USER and not facts.state_dir.exists():
        changes.append({"action": "created", "path": str(facts.state_dir)})
        if not dry_run:
            facts.state_dir.mkdir(mode=0o700, parents=True)
    systemctl = Systemctl(scope, dry_run, [])
    running = systemctl.active()
    systemctl.call("daemon-reload")
    systemctl.call("enable", *UNITS)
    if now:
        # in this order: the service takes the sockets over from the socket unit
        systemctl.call("stop", SERVICE, check=False)
        systemctl.call("restart", *UNITS)
    changed = any(change["action"] != "unchanged" for change in changes)
    _say(files, changes, systemctl, json_output, _next(scope, running, now, changed))


def uninstall_service(system: ScopeFlag = False, dry_run: DryRun = False, json_output: Json = False) -> None:
    """Stop and disable the service and remove its units; settings and data stay."""
    scope = Scope.SYSTEM if system else Scope.USER
    directory = _directory(scope)
    _may_write(scope, dry_run)
    present = [directory / name for name in (SERVICE, SOCKET, DROP_IN) if (directory / name).exists()]
    for path in present:
        _refuse_foreign(path)
    systemctl = Systemctl(scope, dry_run, [])
    if present:
        systemctl.call("disable", "--now", *UNITS, check=False)
    changes = []
    for path in present:
        changes.append({"action": "removed", "path": str(path)})
        if not dry_run:
            path.unlink()
    if not dry_run and (directory / DROP_IN).parent.is_dir() and not list((directory / DROP_IN).parent.iterdir()):
        (directory / DROP_IN).parent.rmdir()
    if present:
        systemctl.call("daemon-reload")
    where = "/var/lib/treewarden" if system else str(state_dir(None, os.environ))
    _say({}, changes, systemctl, json_output, [f"the data stays in {where}" if present else "nothing was installed"])


# What is asked of the machine


def _directory(scope: Scope) -> Path:
    if scope is Scope.SYSTEM:
        return SYSTEM_UNITS
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "systemd" / "user"


def _may_write(scope: Scope, dry_run: bool) -> None:
    if scope is Scope.SYSTEM and os.geteuid() != 0 and not dry_run:
        raise Failure(Exit.DENIED, f"{SYSTEM_UNITS} may only be written by root (fix: sudo, or leave --system out)")


def _facts(scope: Scope, port: int | None, run_as: str | None, namespaces: bool, config: Path | None) -> Facts:
    account = _account(scope, run_as)
    command = _command()
    hidden = next((part for part in command if part.startswith(tuple(f"{place}/" for place in _HIDDEN))), None)
    if hidden is not None:
        raise Failure(Exit.INVALID, f"{hidden} cannot run as a service: its /tmp is private; install it elsewhere")
    return Facts(
        scope=scope,
        command=command,
        port=port if port is not None else _port(account, config),
        user=account.pw_name,
        uid=account.pw_uid,
        home=Path(account.pw_dir),
        state_dir=state_dir(None, os.environ),
        version=_systemd_version(),
        namespaces=namespaces or scope is Scope.SYSTEM,
        options=_options(port, config),
    )


def _options(port: int | None, config: Path | None) -> list[str]:
    """What run is told beside its settings."""
    named = ["--config", str(config.expanduser().absolute())] if config is not None else []
    return [*named, *(["--port", str(port)] if port is not None else [])]


def _account(scope: Scope, run_as: str | None) -> pwd.struct_passwd:
    """The user it runs as: for the system's service it must be said, if only by sudo."""
    if scope is Scope.USER:
        if run_as is not None:
            raise Failure(Exit.USAGE, "--run-as needs --system: a user's own service runs as that user")
        return pwd.getpwuid(os.getuid())
    name = run_as or os.environ.get("SUDO_USER")
    if not name:
        raise Failure(Exit.USAGE, "say whose agents it guards: --run-as USER")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise Failure(Exit.INVALID, f"--run-as {name}: there is no such user") from None


def _command() -> list[str]:
    """Return what starts this installation: its script beside its interpreter, or the interpreter itself."""
    script = Path(sys.executable).parent / "treewarden"
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", "actors.cli"]


def _port(account: pwd.struct_passwd, config: Path | None) -> int:
    """Read run.port as the service will see it: the file of the user it runs as."""
    from actors.knobs import Knobs
    from supervisor.settings.errors import InvalidSettings
    from supervisor.settings.layers import read_file
    from supervisor.settings.render import Layers
    from supervisor.settings.render import render as rendered

    own = account.pw_uid == os.getuid()
    file = config_file(config, os.environ if own else {"HOME": account.pw_dir})
    try:
        values = rendered(Knobs, Layers(file=read_file(Knobs, file) if file else {})).values
    except InvalidSettings as error:
        raise Failure(Exit.INVALID, str(error)) from None
    return int(values["run"]["port"])


def _systemd_version() -> int:
    if shutil.which("systemctl") is None:
        raise Failure(
            Exit.UNREACHABLE, "systemctl is not there: this machine does not run systemd (use: treewarden run)"
        )
    found = re.match(r"systemd (\d+)", _run(["systemctl", "--version"]).stdout)
    if found is None:
        raise Failure(Exit.INVALID, "systemctl --version does not say which systemd this is")
    return int(found[1])


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(Exit.UNREACHABLE, f"{' '.join(command)}: {error}") from None


# What is changed and said


def _refuse_foreign(path: Path) -> None:
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise Failure(Exit.CONFLICT, f"{path} was not written by treewarden install-service: move it away first")


def _write(directory: Path, files: dict[str, str], dry_run: bool) -> list[dict[str, str]]:
    changes = []
    for name, text in files.items():
        path = directory / name
        before = path.read_text(encoding="utf-8") if path.exists() else None
        action = "created" if before is None else "unchanged" if before == text else "updated"
        changes.append({"action": action, "path": str(path)})
        if action != "unchanged" and not dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = path.with_name(f".{path.name}.new")
            staged.write_text(text, encoding="ascii")
            staged.chmod(0o644)
            staged.replace(path)
    return changes


def _next(scope: Scope, running: bool, now: bool, changed: bool) -> list[str]:
    user = "--user " if scope is Scope.USER else ""
    lines = []
    if not now and not running:
        lines.append(f"start it: systemctl {user}start {SOCKET} {SERVICE}")
    if not now and running and changed:
        lines.append(f"it runs as it was: systemctl {user}restart {SERVICE} makes it use the new units")
    if scope is Scope.USER:
        lines.append("it runs while you are logged in; to run it always: loginctl enable-linger")
    return lines


def _say(
    files: dict[str, str], changes: list[dict[str, str]], systemctl: Systemctl, json_output: bool, more: list[str]
) -> None:
    if json_output:
        said: dict[str, Any] = {"dry_run": systemctl.dry, "changes": changes, "ran": systemctl.done, "next": more}
        emit_json({**said, **({"files": files} if systemctl.dry else {})})
        return
    would = "would be " if systemctl.dry else ""
    for change in changes:
        typer.echo(f"{would if change['action'] != 'unchanged' else ''}{change['action']} {change['path']}")
    for command in systemctl.done:
        typer.echo(f"{'would run' if systemctl.dry else 'ran'} {command}")
    for name, text in files.items() if systemctl.dry else ():
        typer.echo(f"\n# {name}\n{text.rstrip()}")
    for line in more:
        typer.echo(line)
