"""A program of the operator's own: argv as configured, no shell; the alert as JSON on its standard input.

Exit code 0 took it, 75 (EX_TEMPFAIL) and a signal try again, anything else is final. It is killed with its group when
the time is up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from typing import TYPE_CHECKING

from actors.channel_knobs import CommandChannel
from actors.notifier.alert import Alert
from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.http import as_json
from actors.notifier.channels.webhook import payload
from actors.notifier.wording import one_line

if TYPE_CHECKING:
    from actors.notifier.channels.registry import Tools

__all__ = ["Command"]

TEMPFAIL = 75


class Command:
    """See the module."""

    def __init__(self, knobs: CommandChannel, tools: Tools) -> None:
        self._argv = knobs.argv
        self._environ = dict(tools.environ)

    async def deliver(self, alert: Alert, now: float) -> Answer:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return Rejected(Failure.BLIND, f"{self._argv[0]}: {error.strerror or error}")
        try:
            _, said = await process.communicate(as_json(payload(alert)) + b"\n")
        finally:
            if process.returncode is None:  # cancelled by the timeout: do not leave it behind
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return _judged(process.returncode or 0, said)

    async def sight(self) -> str:
        return "" if shutil.which(self._argv[0]) else f"{self._argv[0]} is not a program that can be run"

    async def close(self) -> None:
        return None


def _judged(code: int, said: bytes) -> Answer:
    text = one_line(said.decode("utf8", "replace"))[:200]
    if code == 0:
        return Delivered()
    if code == TEMPFAIL:
        return Retry(Failure.UNAVAILABLE, f"exit code {code}: {text}")
    if code < 0:
        return Retry(Failure.CRASHED, f"ended by signal {-code}", ambiguous=True)
    return Rejected(Failure.REFUSED, f"exit code {code}: {text}")
