"""When a sink that failed is tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.delivery.backoff import LONGEST_MS, asked_ms, is_due, wait_ms

NOW = 1_790_000_000_000


def test_the_ladder() -> None:
    assert [wait_ms(n) for n in range(1, 8)] == [
        2_000,
        10_000,
        60_000,
        300_000,
        1_800_000,
        1_800_000,
        1_800_000,
    ]


def test_a_wait_that_was_asked_for_is_at_least_a_second_and_at_most_a_day() -> None:
    assert (asked_ms(0), asked_ms(30), asked_ms(1e12)) == (1_000, 30_000, LONGEST_MS)


@given(failures=st.integers(1, 10), late=st.integers(0, 10**9))
def test_an_attempt_is_due_when_its_time_has_come_and_not_before(failures: int, late: int) -> None:
    at = NOW + wait_ms(failures)
    assert is_due(at + late, failures=failures, next_attempt_ms=at)
    assert not is_due(at - 1, failures=failures, next_attempt_ms=at)


@given(failures=st.integers(1, 10), back=st.integers(1, 10**12))
def test_a_clock_set_back_never_makes_a_sink_wait_longer_than_its_ladder_says(
    failures: int, back: int
) -> None:
    at = NOW + wait_ms(failures)
    waits = not is_due(NOW - back, failures=failures, next_attempt_ms=at)
    assert not waits or at - (NOW - back) <= wait_ms(failures)


def test_nor_one_that_was_asked_to_wait_longer_than_a_day() -> None:
    at = NOW + asked_ms(3600)
    assert not is_due(NOW, failures=0, next_attempt_ms=at)
    assert is_due(NOW - 2 * LONGEST_MS, failures=0, next_attempt_ms=at)
