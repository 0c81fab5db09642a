"""Why one item of a request body is no progress event: field, value and allowed set. Pure.

Values are cut to 80 printable characters, so that a sensor which sends content by mistake does not get it logged.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["ItemError", "explain", "shortened"]

SHOWN_CHARS = 80
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# Fields whose type says more to a person than the validator's context does.
ALLOWED = {
    "session_id": "a string of 1 to 200 characters, or the header X-Router-Conversation",
    "conversation": "a string of 1 to 200 characters, or the header X-Router-Conversation",
    "tokens": "an integer >= 0, or an object {prompt, cached, completion} of such",
    "landed": "true, false",
    "injected": "true, false",
}
BOUNDS = (
    ("max_length", "up to {} characters"),
    ("min_length", "at least {} character"),
    ("ge", "at least {}"),
    ("le", "at most {}"),
)


class ItemError(BaseModel):
    """One reason why one item was refused. ``index`` counts the items of the body from 0."""

    model_config = ConfigDict(frozen=True)

    index: int
    field: str
    value: str
    allowed: str
    message: str


def explain(index: int, error: ValidationError) -> list[ItemError]:
    """Turn a validation error into one error a field: a union reports every branch, the first says enough."""
    by_field: dict[str, ItemError] = {}
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        if name not in by_field:
            value = "" if detail["type"] == "missing" else shortened(detail["input"])
            by_field[name] = ItemError(
                index=index, field=name, value=value, allowed=_allowed(name, detail), message=detail["msg"]
            )
    return list(by_field.values())


def shortened(value: object) -> str:
    """Show a refused value in at most 80 printable characters."""
    text = value if isinstance(value, str) else _repr(value)
    text = CONTROL.sub("?", text[: SHOWN_CHARS + 1])
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."


def _repr(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    try:
        return "null" if value is None else repr(value)
    except ValueError:  # an integer of more than 4,300 digits does not print
        return "a very long number"


def _allowed(name: str, detail: ErrorDetails) -> str:
    if name in ALLOWED:
        return ALLOWED[name]
    context = detail.get("ctx", {})
    if "expected" in context:
        return str(context["expected"])
    for key, text in BOUNDS:
        if key in context:
            return text.format(context[key])
    return detail["type"].removesuffix("_type").removesuffix("_parsing").replace("_", " ")
