"""The one error type of the HTTP API: ``{"error": {code, message, field?, value?, allowed?}}``.

APIProblem   raised anywhere below a route; the route table turns it into its response
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["APIError", "APIProblem", "ErrorBody", "invalid"]


class APIError(BaseModel):
    """Why a request was not served. ``code`` is stable, ``message`` is for people."""

    model_config = ConfigDict(frozen=True)

    code: str
    message: str
    field: str | None = None
    value: str | None = None
    allowed: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: APIError


class APIProblem(Exception):
    """Answer with ``status`` and one APIError; ``extra`` fields stand beside it in the body."""

    def __init__(
        self,
        status: int,
        error: APIError,
        *,
        retry_after_s: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.retry_after_s = retry_after_s
        self.extra = extra or {}

    @classmethod
    def of(cls, status: int, code: str, message: str, *, retry_after_s: int | None = None) -> APIProblem:
        """Make one without field, value and allowed set."""
        return cls(status, APIError(code=code, message=message), retry_after_s=retry_after_s)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {"error": self.error.model_dump(exclude_none=True), **self.extra}

    @property
    def headers(self) -> dict[str, str]:
        """Headers that belong to the answer."""
        headers = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="treewarden"'
        return headers


def invalid(field: str, value: str, allowed: str, message: str = "") -> APIProblem:
    """Make the 400 of one bad parameter."""
    text = message or f"{field}={value} is not allowed; allowed: {allowed}"
    return APIProblem(400, APIError(code="invalid", message=text, field=field, value=value, allowed=allowed))
