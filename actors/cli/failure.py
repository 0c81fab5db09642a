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

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import ParamSpec

import typer

__all__ = ["Exit", "Failure", "failing"]

P = ParamSpec("P")


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    INVALID = 5
    CONFLICT = 6
    DEGRADED = 7


class Failure(Exception):
    """End the command with ``code`` after saying ``message``."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def failing(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command that says its ``Failure`` on stderr and exits with its code."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except Failure as failure:
            typer.echo(f"treewarden: {failure.message}", err=True)
            raise typer.Exit(int(failure.code)) from None

    return guarded
