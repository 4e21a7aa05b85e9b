"""Where no events stand among those that do: what counts them by their positions, without looking. Pure.

A position is never used twice, so what was deleted stays a gap. A list of gaps is in order, and no two of
them touch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

#: The first and the last position of a gap.
Gap = tuple[int, int]


def joined(gaps: Sequence[Gap], positions: Collection[int]) -> list[Gap]:
    """``gaps``, and those that ``positions`` are."""
    made: list[Gap] = []
    for first, last in sorted([*gaps, *((position, position) for position in positions)]):
        if made and first <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(last, made[-1][1])
        else:
            made.append((first, last))
    return made


def within(gaps: Sequence[Gap], first: int, last: int) -> int:
    """How many positions from ``first`` to ``last`` are in a gap."""
    return sum(max(min(last, end) - max(first, begin) + 1, 0) for begin, end in gaps)


def events_behind(position: int, last: int, gaps: Sequence[Gap]) -> int:
    """How many positions behind ``position``, up to ``last``, are in no gap."""
    return max(last - position, 0) - within(gaps, position + 1, last)


def gaps_of(note: object) -> list[Gap]:
    """What was noted as JSON; none where it cannot be read."""
    if not isinstance(note, str | bytes):
        return []
    try:
        return msgspec.json.decode(note, type=list[Gap])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
