"""The OpenAPI document, made from the route table and the models; nothing in it is written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from actors.edge.admission import AdmissionAnswer, AdmissionRequest
from actors.edge.api.errors import ErrorBody
from actors.edge.api.models import Ingested
from actors.edge.auth import Scope
from actors.messages import ProgressEvent

__all__ = ["Described", "document"]

REF = "#/components/schemas/{model}"


class Described(NamedTuple):
    """What the document says of one route."""

    method: str
    path: str
    scope: Scope | None
    text: str
    answer: type[BaseModel] | None
    request: type[BaseModel] | None = None
    status: int = 200


HOT = (
    Described(
        "POST", "/v1/progress", Scope.SENSOR, "Events: an object, an array, NDJSON", Ingested, ProgressEvent, 202
    ),
    Described("POST", "/v1/admission", Scope.ROUTER, "May it spend now?", AdmissionAnswer, AdmissionRequest, 200),
)


def document(described: Iterable[Described], version: str) -> dict[str, Any]:
    """Return the document of the hot routes and ``described``."""
    entries = [*HOT, *described]
    models = {model for entry in entries for model in (entry.answer, entry.request) if model is not None}
    ordered = sorted(models | {ErrorBody}, key=lambda model: model.__name__)
    _, schema = models_json_schema([(model, "serialization") for model in ordered], ref_template=REF)
    paths: dict[str, Any] = {}
    for entry in entries:
        paths.setdefault(_path(entry.path), {})[entry.method.lower()] = _operation(entry)
    return {
        "openapi": "3.1.0",
        "info": {"title": "treewarden", "version": version},
        "paths": paths,
        "components": {
            "schemas": schema.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path(path: str) -> str:
    return re.sub(r":\w+\}", "}", path)


def _operation(entry: Described) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": entry.text.strip().splitlines()[0] if entry.text else "",
        "security": [] if entry.scope is None else [{"token": [entry.scope.value]}],
        "responses": {str(entry.status): _content(entry.answer), "default": _content(ErrorBody)},
    }
    if entry.request is not None:
        operation["requestBody"] = _content(entry.request)
    names = re.findall(r"\{(\w+)", entry.path)
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    return operation


def _content(model: type[BaseModel] | None) -> dict[str, Any]:
    if model is None:
        return {"description": "see the summary"}
    schema = {"$ref": REF.format(model=model.__name__)}
    return {
        "description": (model.__doc__ or model.__name__).split("\n")[0],
        "content": {"application/json": {"schema": schema}},
    }
