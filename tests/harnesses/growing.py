"""What holds of every transcript reader, whatever its harness writes: a file that grows under it.

A reader's tests make up a session (lines, what was said in it, the ends its hooks told) and hold it to
:func:`hold`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want, digest

#: What one side asked and the other said.
Said = tuple[str, str]


def said_in(reading: Reading) -> list[Said]:
    return [(exchange.user, exchange.assistant) for exchange in reading.exchanges]


@dataclass
class Ending:
    """A turn's end as a hook tells it: when, with which words or entry, and how many lines were written by then."""

    ms: int
    last: str | None
    lines: int


def hold(
    exchanges: Callable[[Path, dict[str, Any], Want, Files], Reading],
    file: Path,
    lines: Sequence[bytes],
    talk: list[Said],
    ends: Sequence[Ending],
    now_ms: int,
    data: st.DataObject,
) -> None:
    """Whenever ``file`` is read while ``lines`` are written, every exchange comes once, whole and in order."""
    text = b"".join(lines)
    cursor: dict[str, Any] = {}
    found: list[Said] = []

    def read(size: int, want: Want) -> Reading:
        nonlocal cursor
        file.write_bytes(text[:size])
        reading = exchanges(file, cursor, want, Files())
        cursor = json.loads(json.dumps(reading.cursor))
        found.extend(said_in(reading))
        return reading

    grown = 0
    for end in ends:
        written = len(b"".join(lines[: end.lines]))
        want = Want(digest(end.last or ""), False, None, end.ms)
        # The file may be behind the hook, and is looked at until the end is in it.
        for size in sorted(data.draw(st.lists(st.integers(grown, max(grown, written)), max_size=3))):
            grown = size
            read(size, want)
        grown = max(grown, min(len(text), written + data.draw(st.integers(0, 400))))
        assert read(grown, want).complete
    read(len(text), Want(None, True, None, now_ms))
    assert found == talk


def hold_behind(
    exchanges: Callable[[Path, dict[str, Any], Want, Files], Reading],
    file: Path,
    lines: Sequence[bytes],
    ends: Sequence[Ending],
    now_ms: int,
    data: st.DataObject,
) -> None:
    """Who comes to a turn's end late, when ``file`` holds later turns too, tells of it what was to tell then.

    Those turns' hooks wait in the spool: an exchange before its end would be one before its start.
    """
    sizes = [len(b"".join(lines[: end.lines])) for end in ends]
    text = b"".join(lines)

    def told(seen: Callable[[int], int]) -> list[list[Said]]:
        cursor: dict[str, Any] = {}
        readings = []
        for end, size in zip(ends, sizes, strict=True):
            file.write_bytes(text[: seen(size)])
            want = Want(digest(end.last or ""), False, None, end.ms, now_ms=now_ms)
            reading = exchanges(file, cursor, want, Files())
            cursor = json.loads(json.dumps(reading.cursor))
            readings.append(said_in(reading))
        return readings

    behind = data.draw(st.sampled_from([len(text), *sizes]))
    assert told(lambda size: max(size, behind)) == told(lambda size: size)
