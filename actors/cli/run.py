"""treewarden run: settings and plan in this process, then root in its place.

Nothing of the application stays loaded: root is exec'd over this process, keeps its pid (systemd's main process) and
reads its plan from an inherited descriptor.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from actors.cli.config import ENVIRONMENT_PREFIX
from actors.cli.failure import Exit, Failure
from actors.cli.options import ConfigOption, RuntimeDir, StateDir

__all__ = ["foreign_owners", "prepare", "root_command", "root_environment", "run"]

_NAMES = ("supervisor", "actors")
_OURS = "treewarden"


def run(
    state_dir: StateDir = None,
    runtime_dir: RuntimeDir = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="TCP port on 127.0.0.1; 0 picks a free one.")
    ] = None,
    config: ConfigOption = None,
    without_overrides: Annotated[
        bool, typer.Option("--without-overrides", help="Start without the changes made while it ran.")
    ] = False,
) -> None:
    """Run the daemon in the foreground until Ctrl-C or SIGTERM."""
    fill_standard_descriptors()
    refuse_foreign_names()
    plan = prepare(
        state_dir=state_dir,
        runtime_dir=runtime_dir,
        port=port,
        config=config,
        with_overrides=not without_overrides,
        env=os.environ,
    )
    become_root(plan, os.environ)


def prepare(
    *,
    state_dir: Path | None,
    runtime_dir: Path | None,
    port: int | None,
    config: Path | None,
    with_overrides: bool = True,
    env: Mapping[str, str],
) -> dict[str, Any]:
    """Find the directories, render the settings, write the plan. Errors: Failure."""
    from actors.application import plan, shards_for
    from actors.cli import directories
    from supervisor.settings.errors import InvalidSettings

    state = directories.prepared(directories.state_dir(state_dir, env), "state directory")
    runtime = directories.checked_length(directories.runtime_dir(runtime_dir, env))
    runtime = directories.prepared(runtime, "runtime directory")
    file = directories.config_file(config, env)
    # without them the version stays: else control would take them over from the database again
    version, overrides = _overrides(state / "treewarden.db")
    overrides = overrides if with_overrides else {}
    try:
        rendered = _rendered(file, env, version, overrides)
    except InvalidSettings as error:
        raise Failure(Exit.INVALID, _with_hint(error.problems)) from None
    knobs = rendered["values"]["run"]
    return plan(
        state_dir=state,
        runtime_dir=runtime,
        port=knobs["port"] if port is None else port,
        shards=shards_for(knobs["shards"]),
        settings=rendered,
        reread=_reread(config),
        banner=_banner(file),
    )


def _rendered(file: Path | None, env: Mapping[str, str], version: int, overrides: Mapping[str, Any]) -> dict[str, Any]:
    from actors.knobs import Knobs
    from supervisor.settings.layers import read_environment, read_file
    from supervisor.settings.render import Layers, render

    layers = {
        "file": read_file(Knobs, file) if file else {},
        "environment": read_environment(Knobs, env, ENVIRONMENT_PREFIX),
    }
    rendered = render(Knobs, Layers(**layers, runtime=dict(overrides)), version)
    return {**rendered.model_dump(), "layers": layers}


def _reread(config: Path | None) -> list[str]:
    """Return the command that reads file and environment on a reload: the file is looked for anew."""
    named = ["--config", str(config.expanduser().absolute())] if config is not None else []
    return [sys.executable, "-m", "actors.cli", "config", "check", "--json", *named]


def _overrides(database: Path) -> tuple[int, dict[str, Any]]:
    """Read the changes that were made while the daemon ran, read-only."""
    from actors.store.reader import Damaged, Reader, Unreadable

    reader = Reader(database)
    try:
        row = reader.settings_latest()
    except Damaged as error:  # the keeper will set it aside and begin an empty one: nothing is left to be read
        typer.echo(f"treewarden: starting without the changes made while it ran: {error}", err=True)
        row = None
    except Unreadable as error:
        raise Failure(Exit.INVALID, f"the settings in the database cannot be read: {error}") from None
    finally:
        reader.close()
    return (row.version, json.loads(row.overrides)) if row else (0, {})


def _with_hint(problems: list[str]) -> str:
    text = "\n  ".join(["the settings are not valid:", *problems])
    overridden = any("runtime overrides" in problem for problem in problems)
    return text + ("\n  (start without those: treewarden run --without-overrides)" if overridden else "")


def _banner(file: Path | None) -> list[str]:
    """Write the lines that root prints when all is ready; it fills in the names in braces."""
    named = str(file or "defaults").replace("{", "{{").replace("}", "}}")
    return [
        "api       {url}",
        "control   {runtime_dir}/control.sock",
        "tokens    {state_dir}/tokens (operator.token, router.token, sensor.token)",
        "sensors   {runtime_dir}/sensor.json",
        "database  {state_dir}/treewarden.db",
        f"settings  {named}",
    ]


def fill_standard_descriptors() -> None:
    """Open /dev/null in place of a closed standard descriptor: the next file or socket would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)


def foreign_owners() -> dict[str, list[str]]:
    """Return who else installed our import names into this environment: name -> distributions."""
    from importlib import metadata

    owners = metadata.packages_distributions()
    found = {name: [owner for owner in owners.get(name, []) if owner != _OURS] for name in _NAMES}
    return {name: sorted(set(others)) for name, others in found.items() if others}


def refuse_foreign_names() -> None:
    """Refuse to run beside another distribution that owns our import names (supervisord does). Errors: Failure."""
    for name, others in foreign_owners().items():
        raise Failure(
            Exit.CONFLICT,
            f"the import name {name} also belongs to {', '.join(others)} in this environment: install treewarden "
            "into an environment of its own (pipx install treewarden, or uv tool install treewarden)",
        )


def root_command(plan_fd: int) -> list[str]:
    """Return the command line of root; its plan is on the inherited descriptor ``plan_fd``."""
    return [sys.executable, "-m", "supervisor.root", "--plan-fd", str(plan_fd)]


def root_environment(env: Mapping[str, str], *, terminal: bool) -> dict[str, str]:
    """Return root's environment: our own modules, never those of the working directory; on a terminal plain logs."""
    import supervisor
    from supervisor.logs import FORMAT_VARIABLE

    assert supervisor.__file__ is not None
    home = Path(supervisor.__file__).resolve().parent.parent
    found = {**({FORMAT_VARIABLE: "text"} if terminal else {}), **env, "PYTHONSAFEPATH": "1"}
    if home.name not in ("site-packages", "dist-packages"):
        found["PYTHONPATH"] = os.pathsep.join([str(home), *filter(None, [env.get("PYTHONPATH")])])
    return found


def become_root(plan: dict[str, Any], env: Mapping[str, str]) -> NoReturn:
    """Exec root in place of this process."""
    fd = os.memfd_create("treewarden-plan", 0)
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        json.dump(plan, file)
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed when this process began
            stream.flush()
    terminal = sys.stderr is not None and sys.stderr.isatty()
    # our own interpreter and module, no shell
    os.execve(sys.executable, root_command(fd), root_environment(env, terminal=terminal))  # noqa: S606
