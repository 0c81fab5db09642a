"""How channels speak HTTP: one request an attempt, and what each kind of answer means for the lane.

``judged`` reads the table that the services' documents agree on: 2xx arrived; 429 come later (Retry-After in seconds or
as a date); 408 and 5xx later; any other answer never. No connection: it did not arrive. A connection that broke after
the request may have gone: nobody knows. Redirects are not followed: a message must not go where nobody configured.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from actors.notifier.channels.contract import Answer, Delivered, Failure, Rejected, Retry
from actors.version import own_version

__all__ = ["Poster", "as_json", "host_name", "isoformat", "judged", "retry_after_s", "secret"]

_SAID = 200
_LATER = (408, 425)


class Poster:
    """An HTTP client of one channel; ``send`` never raises for what a network does."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def send(self, method: str, url: str, now: float, **request: Any) -> httpx.Response | Retry | Rejected:
        """Send once; return the response, or what became of the attempt."""
        if self._client is None:
            agent = {"User-Agent": f"treewarden/{own_version()}"}
            unlimited = httpx.Timeout(None)  # the lane has the time limit
            self._client = httpx.AsyncClient(headers=agent, timeout=unlimited, limits=httpx.Limits(max_connections=2))
        try:
            return await self._client.request(method, url, **request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Retry(Failure.UNAVAILABLE, f"{_host(url)}: {error or type(error).__name__}")
        except httpx.InvalidURL:
            return Rejected(Failure.REFUSED, "the URL is not one")
        except httpx.UnsupportedProtocol:
            return Rejected(Failure.REFUSED, "the URL must begin with http:// or https://")
        except httpx.TransportError as error:
            text = f"{_host(url)}: connection lost: {error or type(error).__name__}"
            return Retry(Failure.UNAVAILABLE, text, ambiguous=True)

    async def post(self, url: str, now: float, **request: Any) -> Answer:
        """POST once and judge the answer."""
        answer = await self.send("POST", url, now, **request)
        return judged(answer, now) if isinstance(answer, httpx.Response) else answer

    async def close(self) -> None:
        """Close connections; the next request opens one."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def judged(answer: httpx.Response, now: float) -> Answer:
    """Say what an HTTP answer means."""
    status = answer.status_code
    if answer.is_success:
        return Delivered()
    said = f"HTTP {status}: {_said(answer)}"
    if status == 429:
        return Retry(Failure.THROTTLED, said, retry_after_s(answer, now))
    if status >= 500 or status in _LATER:
        return Retry(Failure.UNAVAILABLE, said, retry_after_s(answer, now))
    return Rejected(Failure.REFUSED, said)


def retry_after_s(answer: httpx.Response, now: float) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, 10.2.3); None when there is none that can be read."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def secret(environ: Any, name: str | None) -> str:
    """Return a secret; the switchboard builds no channel whose variables are not set."""
    return "" if name is None else environ.get(name, "").strip()


def isoformat(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def host_name() -> str:
    return os.uname().nodename


def _host(url: str) -> str:
    """A URL may hold a secret; its host does not."""
    return urlsplit(url).hostname or "the URL"


def _said(answer: httpx.Response) -> str:
    return " ".join(answer.text[:_SAID].split()) or "no body"
