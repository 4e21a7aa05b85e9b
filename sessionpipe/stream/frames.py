"""What the front hands to whoever reads along, over a pipe: what came and when, what is missing, how it ended."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

_HEADER = struct.Struct("<cQI")
#: Little enough that the front sees a slow reader at work.
_READ = 128 << 10


class Chunk(NamedTuple):
    """Bytes of the stream, and when they came (epoch milliseconds)."""

    at_ms: int
    data: bytes


class Gap(NamedTuple):
    """Bytes that are missing here: nobody took them in time."""

    at_ms: int
    lost: int


class Signal(NamedTuple):
    """A signal came that ends a program; the stream may go on."""

    at_ms: int
    number: int


class End(NamedTuple):
    """The stream is over. ``signalled``: by a signal. ``status``: the command's, when there is one and it is known."""

    at_ms: int
    signalled: bool
    status: int | None = None


Frame = Chunk | Gap | Signal | End


def encode(frame: Frame) -> bytes:
    """A frame as bytes."""
    match frame:
        case Chunk(at_ms, data):
            return _HEADER.pack(b"c", at_ms, len(data)) + data
        case Gap(at_ms, lost):
            body, kind = lost.to_bytes(8, "little"), b"g"
        case Signal(at_ms, number):
            body, kind = number.to_bytes(8, "little"), b"s"
        case End(at_ms, signalled, status):
            body, kind = msgspec.json.encode([signalled, status]), b"e"
    return _HEADER.pack(kind, at_ms, len(body)) + body


class Incoming:
    """The frames of a pipe, in order. Iterating ends with an :class:`End`, whatever became of the front."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self.ended = False

    def fileno(self) -> int:
        """The pipe, for ``select``."""
        return self._fd

    def __iter__(self) -> Iterator[Frame]:
        while not self.ended:
            yield from self.read()

    def read(self) -> list[Frame]:
        """Wait for something to come; the frames that are complete then."""
        more = os.read(self._fd, _READ)
        self._buffer += more
        frames: list[Frame] = []
        at = 0
        while len(self._buffer) - at >= _HEADER.size:
            kind, at_ms, length = _HEADER.unpack_from(self._buffer, at)
            if len(self._buffer) - at - _HEADER.size < length:
                break
            at += _HEADER.size
            frames.append(_decoded(kind, at_ms, bytes(self._buffer[at : at + length])))
            at += length
        del self._buffer[:at]
        if frames and isinstance(frames[-1], End):
            self.ended = True
        elif not more:
            # The front is gone without a word: only something like SIGKILL takes it that way.
            from sessionpipe.clock import now_ms

            frames.append(End(now_ms(), signalled=True))
            self.ended = True
        return frames

    def close(self) -> None:
        """Take nothing more."""
        os.close(self._fd)


def _decoded(kind: bytes, at_ms: int, body: bytes) -> Frame:
    match kind:
        case b"c":
            return Chunk(at_ms, body)
        case b"g":
            return Gap(at_ms, int.from_bytes(body, "little"))
        case b"s":
            return Signal(at_ms, int.from_bytes(body, "little"))
        case _:
            signalled, status = msgspec.json.decode(body)
            return End(at_ms, signalled, status)
