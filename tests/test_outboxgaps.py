"""Positions that nothing stands at, against the plain sets that they are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.outboxgaps import events_behind, gaps_of, joined, within

POSITIONS = st.sets(st.integers(1, 40))


def filled(gaps: list[tuple[int, int]]) -> list[int]:
    return [position for first, last in gaps for position in range(first, last + 1)]


@given(POSITIONS, POSITIONS)
def test_gaps_that_are_joined_hold_what_each_held_once_and_in_order(some: set[int], more: set[int]) -> None:
    gaps = joined(joined([], some), more)
    assert filled(gaps) == sorted(some | more)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(gaps))


@given(POSITIONS, st.integers(0, 45), st.integers(0, 45))
def test_what_is_within_and_what_is_behind_are_counted(gone: set[int], one: int, last: int) -> None:
    gaps = joined([], gone)
    assert within(gaps, one, last) == len(gone & set(range(one, last + 1)))
    assert events_behind(one, last, gaps) == len(set(range(one + 1, last + 1)) - gone)


def test_a_note_that_cannot_be_read_is_of_no_gaps() -> None:
    assert gaps_of("[[3,4],[7,7]]") == [(3, 4), (7, 7)]
    assert [gaps_of(note) for note in (None, 7, "[[3", "[[3]]", b"\xff")] == [[]] * 5
