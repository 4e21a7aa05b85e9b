"""The lines of Pi's ``--mode json`` stream: where one ends, and of which type it is.

A line ends at ``\\n`` and nowhere else: Pi writes U+2028 and U+2029 as they are. Most of a stream is
lines that say again what another one says in full, so a line's type is looked at first. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

#: A line that is longer, in bytes without its end, is not kept: see :attr:`Lines.skipped`.
MAX_LINE = 64 << 20


class Lines:
    """A stream of bytes, cut into lines. Holds at most the beginning of one line."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        #: How many lines were too long, and left out.
        self.skipped = 0
        self._longest = longest
        self._held: list[bytes] = []
        self._size = 0
        self._within = 0  # how much of the current line is known, kept or not

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without their ends."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines:
            self._hold(lines[0])
            lines[:1] = self._taken()
            if len(chunk) > self._longest:
                self.skipped += sum(len(line) > self._longest for line in lines)
                lines = [line for line in lines if len(line) <= self._longest]
        self._hold(last)
        return lines

    def gap(self) -> None:
        """Something is missing here: the line it is missing from is given up with what is left of it."""
        self._held, self._size, self._within = [], -1, 1

    def finish(self) -> list[bytes]:
        """The last line, when the stream ended without ending it."""
        return self._taken() if self._within else []

    def _hold(self, piece: bytes) -> None:
        self._within += len(piece)
        if self._size < 0 or not piece:
            return
        self._size += len(piece)
        if self._size <= self._longest:
            self._held.append(piece)
        else:
            self._held, self._size = [], -1
            self.skipped += 1

    def _taken(self) -> list[bytes]:
        whole = [b"".join(self._held)] if self._size >= 0 else []
        self._held, self._size, self._within = [], 0, 0
        return whole


class _Head(msgspec.Struct):
    type: str


_HEAD = msgspec.json.Decoder(_Head)
_ANYTHING = msgspec.json.Decoder(Any)
# As Pi writes it. Keys in another order are not misread, only read more slowly.
_AS_WRITTEN = re.compile(rb'\{"type":"([a-z_]+)"[,}]')


def kind(line: bytes) -> str | None:
    """The type a line says it is of, without looking at the rest of it where that can be helped.

    None for what has none. Whether the rest can be read is another question: :func:`checked_kind`.
    """
    found = _AS_WRITTEN.match(line)
    return found[1].decode() if found else checked_kind(line)


def checked_kind(line: bytes) -> str | None:
    """The type of a line that is a JSON object with one; None for anything else, a torn line included."""
    try:
        return _HEAD.decode(line).type
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        found = (read(line) or {}).get("type")
        return found if isinstance(found, str) else None


def read(line: bytes) -> dict[str, Any] | None:
    """The object a line is, nothing of it replaced; None when it is none."""
    value: Any
    try:
        value = _ANYTHING.decode(line)
    except (msgspec.DecodeError, RecursionError):
        try:
            value = json.loads(line)  # Which takes half a surrogate pair, as JavaScript may write it.
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
