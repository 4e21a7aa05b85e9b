"""Compressed files of a harness, read as if they were not.

Nothing is written anywhere: what a harness compressed may hold anything, and is unpacked on the way, as far
as it is asked for. A file that was cut off in the middle is as long as what can be unpacked of it.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from sessionpipe.harnesses.files import Opened

_BLOCK = 256 << 10
#: What is unpacked at most: a small file can stand for any amount of nothing.
MOST = 4 << 30


class Unpacked(Opened):
    """A zstd file, open, as what it was compressed from. Read forwards it is unpacked once, and once before."""

    def __init__(self, packed: Opened) -> None:
        self._packed = packed
        self.identity, self.version = packed.identity, packed.version
        self._rewind()
        self.size = 0
        self.size = self._skip(MOST)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._packed.__exit__(kind, error, trace)

    def read_at(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0 or offset < 0:
            return b""
        if offset < self._at:
            self._rewind()
        self._skip(offset - self._at)
        parts: list[bytes] = []
        while length > 0 and (part := self._read(length)):
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _rewind(self) -> None:
        self._from = self._at = 0
        self._left = b""
        self._frame = _decompressor()

    def _skip(self, length: int) -> int:
        """Pass over so much; how much there was."""
        passed = 0
        while passed < length and (part := self._read(length - passed)):
            passed += len(part)
        return passed

    def _read(self, length: int) -> bytes:
        """The next bytes, at most so many; none at the end, or where the file is broken off."""
        while True:
            if self._frame.eof:
                # Another frame may follow: a file that was appended to.
                self._left, self._frame = self._frame.unused_data, _decompressor()
            if self._frame.needs_input and not self._left:
                self._left = self._packed.read_at(self._from, _BLOCK)
                self._from += len(self._left)
                if not self._left:
                    return b""
            try:
                part: bytes = self._frame.decompress(self._left, min(length, _BLOCK))
            except Exception:
                # No zstd file, or one that is damaged from here on; the libraries have errors of their own.
                return b""
            self._left = b""
            if part:
                self._at += len(part)
                return part


def unpacked(packed: Opened) -> Opened | None:
    """The file behind a compressed one, which it closes; None where nothing here can unpack it."""
    try:
        return Unpacked(packed)
    except ImportError:
        return None


def _decompressor() -> Any:
    # Imported late: hardly anybody has such a file, and the worker need not load it.
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor()
