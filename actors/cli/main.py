"""The treewarden command. One module a command; what is heavy is imported when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.cli import alerts, channels, config
from actors.cli.calibrate import calibrate
from actors.cli.children import children
from actors.cli.demo import demo
from actors.cli.doctor import doctor
from actors.cli.failure import Exit, failing
from actors.cli.install_plugin import install_plugin
from actors.cli.install_service import install_service, uninstall_service
from actors.cli.mode import mode
from actors.cli.reload import reload
from actors.cli.replay import replay
from actors.cli.restart import restart
from actors.cli.resume import resume
from actors.cli.run import run
from actors.cli.status import status
from actors.cli.trees import trees
from actors.cli.why import why

__all__ = ["app", "main"]

EXIT_CODES = "Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in Exit)

# no rich markup and no boxes: all text is ASCII
app = typer.Typer(
    name="treewarden",
    help="Guard unattended AI coding agents: notice those that spend and land nothing.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from actors.version import own_version

        typer.echo(f"treewarden {own_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


COMMANDS = (
    run,
    status,
    children,
    restart,
    trees,
    why,
    mode,
    resume,
    doctor,
    reload,
    replay,
    calibrate,
    install_plugin,
    install_service,
    uninstall_service,
    demo,
)

for command in COMMANDS:
    app.command()(failing(command))
app.add_typer(alerts.app, name="alerts")
app.add_typer(channels.app, name="channels")
app.add_typer(config.app, name="config")


def main() -> None:
    """Run the command line."""
    app()
