"""The one error type of the control API and how it is answered: ``{"error": {"code", "message", "problems"}}``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

__all__ = ["Problem", "answer_problem"]


class Problem(Exception):
    """An expected no. ``status`` is the HTTP status, ``code`` a stable token, ``message`` one sentence."""

    def __init__(self, status: int, code: str, message: str, problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.problems = problems or []

    def response(self) -> JSONResponse:
        error = {"code": self.code, "message": self.message, "problems": self.problems}
        return JSONResponse({"error": error}, status_code=self.status)


async def answer_problem(_request: Request, problem: Exception) -> JSONResponse:
    """Answer a ``Problem`` that a route raised."""
    assert isinstance(problem, Problem)
    return problem.response()
