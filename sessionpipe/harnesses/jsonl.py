"""Reading files of one JSON object per line, forwards and backwards, within bounds.

Lines end at ``\\n`` and nowhere else (their text may hold U+2028). A last line without its end is still
being written and is never yielded. A line longer than :data:`MAX_LINE` is yielded empty: no harness
means one to be read, and no memory is spent on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

import msgspec

T = TypeVar("T")

MAX_LINE = 16 << 20
_BLOCK = 256 << 10
#: What is read first: of many files only the beginning is looked at, at every reading.
_FIRST = 4 << 10


class Source(Protocol):
    """What lines are read from: an open file (:class:`~sessionpipe.harnesses.files.Opened`), or the like."""

    size: int

    def read_at(self, offset: int, length: int) -> bytes: ...


class Line(NamedTuple):
    """A line: where it starts, where the next one starts, its bytes without the line end."""

    start: int
    end: int
    data: bytes


def forward(
    opened: Source, start: int = 0, longest: int | None = None, *, within: int | None = None
) -> Iterator[Line]:
    """The complete lines from ``start``, which must be where a line starts.

    ``longest``: the bytes of the longest line that is not yielded empty, :data:`MAX_LINE` unless given.
    ``within``: who wants the lines that begin in so many bytes and no others says so, and then a line that
    never ends is not looked through for its end either.
    """
    longest = MAX_LINE if longest is None else longest
    offset, held = start, bytearray()
    enough = None if within is None else start + within + longest
    size = _FIRST
    while (enough is None or offset < enough) and (block := opened.read_at(offset, size)):
        at, size = 0, min(2 * size, _BLOCK)
        while (newline := block.find(b"\n", at)) >= 0:
            end = offset + newline + 1
            data = block[at:newline]
            if held:
                data = bytes(held + data)
                held.clear()
            yield Line(start, end, data if end - start <= longest else b"")
            start, at = end, newline + 1
        offset += len(block)
        held += block[at:]
        if offset - start > longest:
            held.clear()


def first(opened: Source) -> Line | None:
    """The first line, if it is complete."""
    return next(forward(opened, within=0), None)


def backward(opened: Source, budget: int) -> Iterator[Line]:
    """The complete lines from the last one back, as far as they lie in the last ``budget`` bytes."""
    floor = max(0, opened.size - budget)
    offset, end, held = opened.size, 0, [b""]  # end is 0 until the end of a line was met
    while offset > floor:
        size = min(_BLOCK, offset - floor)
        offset -= size
        block = opened.read_at(offset, size)
        if len(block) < size:
            return  # The file shrank under us.
        right = size
        while (newline := block.rfind(b"\n", 0, right)) >= 0:
            start = offset + newline + 1
            if end:
                yield _gathered(start, end, [*held, block[newline + 1 : right]])
            end, right, held = start, newline, []
        held.append(block[:right])
        if end - offset > MAX_LINE:
            held = []
    if floor == 0 and end:
        yield _gathered(0, end, held)


def _gathered(start: int, end: int, pieces: list[bytes]) -> Line:
    return Line(start, end, b"".join(reversed(pieces)) if end - start <= MAX_LINE else b"")


def decode(data: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """``data`` as the decoder's type, or None when it isn't that.

    JSON as a JavaScript program may write it: with half a surrogate pair (read as ``?``), or bytes
    that are no UTF-8; behind a byte order mark, as an editor leaves it.
    """
    if not data:
        return None
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), parse_constant=lambda _: None)
        return decoder.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def of_seconds(at: object) -> int | None:
    """A time in seconds since the epoch, whole or not, as epoch milliseconds; None for what is none."""
    if isinstance(at, (int, float)) and not isinstance(at, bool) and 1e-3 <= at < 1e11:
        return int(at * 1000)
    return None


def epoch_ms(timestamp: object) -> int | None:
    """An ISO 8601 time as epoch milliseconds; None for what is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
