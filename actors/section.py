"""How knobs are declared: frozen sections that refuse unknown keys, and the builders of their fields. Pure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["EnvName", "Section", "Url", "env_name", "knob", "seconds"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def knob(default: Any, doc: str, *, hot: bool = True, **bounds: Any) -> Any:
    """Describe one knob; ``hot`` false means that a change needs a restart of the daemon."""
    return Field(default, description=doc, json_schema_extra={"hot": hot}, **bounds)


def seconds(default: float, doc: str, *, least: float, most: float) -> Any:
    """Describe a knob in seconds."""
    return knob(default, doc, ge=least, le=most, allow_inf_nan=False)


def env_name(doc: str, default: Any = ...) -> Any:
    """Describe a knob that names the environment variable of a secret (P084); ``...`` makes it required."""
    return Field(default, description=doc, json_schema_extra={"hot": True, "env_name": True})


def _url(value: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL with a host")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or a password: name an environment variable instead")
    return value.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")]
