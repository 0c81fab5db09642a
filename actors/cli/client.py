"""The control socket as commands see it: JSON in, JSON out, and failures with their exit codes.

Blocking. Imported by commands when they run, not at start: httpx takes 50 ms to load.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import httpx

from actors.cli.directories import runtime_dir
from actors.cli.failure import Exit, Failure

__all__ = ["Control"]

TIMEOUT_S = 20.0
_CODES = {
    401: Exit.DENIED,
    403: Exit.DENIED,
    400: Exit.INVALID,
    404: Exit.INVALID,
    413: Exit.INVALID,
    422: Exit.INVALID,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
}


class Control:
    """A client of the daemon whose runtime directory is ``directory``."""

    def __init__(self, directory: Path | None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = runtime_dir(directory, os.environ) / "control.sock"
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://control", timeout=timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        """Read ``path``. Errors: Failure."""
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Any) -> Any:
        """Send ``body`` to ``path``. Errors: Failure."""
        return self._ask("POST", path, json=body)

    def delete(self, path: str) -> Any:
        """Remove ``path``. Errors: Failure."""
        return self._ask("DELETE", path)

    def patch(self, path: str, body: Any, version: int | None = None) -> Any:
        """Change ``path``, if it still is at ``version``. Errors: Failure."""
        return self._ask("PATCH", path, json=body, headers={} if version is None else {"If-Match": f'"{version}"'})

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._send(method, path, **options)
        except httpx.ConnectError as error:
            raise self._unreachable(error) from None
        except httpx.HTTPError as error:
            text = f"the daemon at {self.socket} gave no answer: {error or type(error).__name__} (is it starting?)"
            raise Failure(Exit.UNREACHABLE, text) from None
        if answer.is_success:
            return answer.json()
        raise Failure(_CODES.get(answer.status_code, Exit.DEGRADED), _message(answer))

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send once; a read whose connection broke, with a process that was killed, once more."""
        try:
            return self._http.request(method, path, **options)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            if method != "GET":
                raise
            return self._http.request(method, path, **options)

    def _unreachable(self, error: httpx.ConnectError) -> Failure:
        if isinstance(_cause(error), PermissionError):
            return Failure(Exit.DENIED, f"{self.socket} may not be used by user {os.getuid()}")
        return Failure(Exit.UNREACHABLE, f"no daemon answers at {self.socket} (start one: treewarden run)")


def _cause(error: BaseException) -> BaseException:
    """Follow what raised ``error`` down to the system's own error."""
    below = error.__cause__ or error.__context__
    return error if below is None else _cause(below)


def _message(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return f"the daemon answered {answer.status_code}: {answer.text[:200]}"
