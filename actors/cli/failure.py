"""How a command fails: one line on stderr and an exit code.

code  meaning
0     ok
2     usage: a wrong option or argument
3     unreachable: no daemon answers
4     denied: wrong user or token
5     invalid: a value, file or name that is not allowed or not known
6     conflict: somebody else changed it meanwhile
7     degraded: it works, but not all of it
"""

from __future__ import annotations

from enum import IntEnum
from typing import IO, Any

import click

__all__ = ["Exit", "Failure"]


class Exit(IntEnum):
    """Exit codes of every command (DESIGN section 9)."""

    OK = 0
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    INVALID = 5
    CONFLICT = 6
    DEGRADED = 7


class Failure(click.ClickException):
    """End the command with ``code`` after saying ``message``."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"treewarden: {self.message}", file=file, err=True)
