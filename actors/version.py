"""The version of treewarden, from what was installed."""

from __future__ import annotations

from importlib import metadata

__all__ = ["own_version"]

SOURCE_TREE = "0+source"


def own_version() -> str:
    """Return the installed version; a source tree that was never installed says so."""
    try:
        return metadata.version("treewarden")
    except metadata.PackageNotFoundError:
        return SOURCE_TREE
