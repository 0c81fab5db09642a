"""Logging of every process: one line a record on stderr, JSON by default, plain text for a person at a terminal."""

from __future__ import annotations

import json
import logging
import os
import sys
import time

__all__ = ["FORMAT_VARIABLE", "configure"]

FORMAT_VARIABLE = "SUPERVISOR_LOG_FORMAT"


class _Json(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "t": round(record.created, 3),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return json.dumps(row)


class _Text(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s {process}: %(message)s", "%H:%M:%S")
        self.converter = time.localtime


def configure(process: str, level: int = logging.INFO) -> None:
    """Send all records of this process to stderr. ``SUPERVISOR_LOG_FORMAT`` is json (default) or text."""
    text = os.environ.get(FORMAT_VARIABLE) == "text"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Text(process) if text else _Json(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "pykka"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
