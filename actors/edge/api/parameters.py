"""Query parameters: whole numbers in a range and words of a set; a bad one is named with what is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from actors.edge.api.errors import invalid
from actors.sensors.item_errors import shortened

__all__ = ["known_parameters", "number", "word"]


def number(request: Request, name: str, default: int, most: int) -> int:
    """Return parameter ``name``, 1 to ``most``. Raises APIProblem 400."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise invalid(name, shortened(text), f"1 to {most}")
    return int(text)


def word(request: Request, name: str, allowed: Iterable[str]) -> str | None:
    """Return parameter ``name``, one of ``allowed``, or None. Raises APIProblem 400."""
    text = request.query_params.get(name)
    words = list(allowed)
    if text is not None and text not in words:
        raise invalid(name, shortened(text), ", ".join(words))
    return text


def known_parameters(request: Request, *names: str) -> None:
    """Refuse a parameter that is none of ``names``: a misspelt filter must not answer with everything."""
    for name in request.query_params:
        if name not in names:
            allowed = ", ".join(names) or "none"
            raise invalid(shortened(name), shortened(request.query_params[name]), allowed, "unknown parameter")
