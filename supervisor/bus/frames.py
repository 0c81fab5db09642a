"""Frames: u32 length of the rest, u16 length of the header, header JSON, body bytes. All integers big-endian."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Frame", "FrameError", "Splitter", "encode"]

_PREFIX = struct.Struct(">IH")
_LENGTH = struct.Struct(">I")


class FrameError(ValueError):
    """The peer sent something that is no frame, or one over the limit."""


class Frame(NamedTuple):
    """``kind`` is the message name for ask and tell; ``verb`` is ask, tell, ok, no."""

    verb: str
    number: int
    kind: str
    body: bytes


def encode(frame: Frame) -> bytes:
    """Return the bytes of one frame."""
    header = json.dumps([frame.verb, frame.number, frame.kind], separators=(",", ":")).encode()
    return _PREFIX.pack(2 + len(header) + len(frame.body), len(header)) + header + frame.body


def _decode(payload: bytes) -> Frame:
    try:
        size = int.from_bytes(payload[:2], "big")
        header = json.loads(payload[2 : 2 + size])
    except (ValueError, RecursionError) as error:
        raise FrameError(f"frame header: {error}") from None
    match header:
        case [str(verb), int(number), str(kind)]:
            return Frame(verb, number, kind, payload[2 + size :])
    raise FrameError("frame header: it must be [verb, number, kind]")


class Splitter:
    """Cuts a byte stream into frames; holds at most one incomplete frame of ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield every frame that ``data`` completes. Raises FrameError on a frame over the limit."""
        self._buffer += data
        start = 0
        try:
            while (payload := self._next(start)) is not None:
                start += 4 + len(payload)
                yield _decode(payload)
        finally:
            del self._buffer[:start]

    def _next(self, start: int) -> bytes | None:
        if len(self._buffer) - start < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer, start)
        if not 2 <= size <= self._limit:
            raise FrameError(f"frame of {size} bytes; allowed are 2 to {self._limit}")
        end = start + 4 + size
        return bytes(self._buffer[start + 4 : end]) if len(self._buffer) >= end else None


def error_body(code: str, detail: Any) -> bytes:
    """Return the body of a ``no`` frame."""
    return json.dumps({"code": code, "detail": detail}, default=str).encode()
