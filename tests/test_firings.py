"""sessionpipe/firings.py: what is kept of the hooks that fired."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.firings import TIMED, Event, Firing, percentile, read, with_fired

STOP = Firing("claude-code", "Stop", 2_000, 3, "2.1.332")


def test_an_event_keeps_when_it_fired_last_and_how_often() -> None:
    note = with_fired(with_fired(None, [STOP]), [STOP._replace(at_ms=5_000), STOP._replace(at_ms=4_000)])
    assert read(note)["claude-code"].events == {"Stop": Event(5_000, 3)}


def test_an_event_that_means_nothing_here_has_fired_all_the_same() -> None:
    assert read(with_fired(None, [STOP._replace(event="PostCompact")]))["claude-code"].events


@pytest.mark.parametrize(
    "unknown",
    [STOP._replace(harness="nobody"), STOP._replace(event="Nothing"), STOP._replace(harness="../x")],
)
def test_what_no_table_knows_is_not_kept(unknown: Firing) -> None:
    assert read(with_fired(None, [unknown])) == {}


def test_the_latest_hooks_times_are_kept() -> None:
    note = with_fired(None, [STOP._replace(took_ms=number) for number in range(TIMED + 5)])
    assert read(note)["claude-code"].took == list(range(5, TIMED + 5))


def test_a_hook_whose_time_is_not_known_counts_without_one() -> None:
    told = read(with_fired(None, [STOP._replace(took_ms=None)]))["claude-code"]
    assert (told.events["Stop"].count, told.took) == (1, [])


def test_the_version_is_the_last_one_that_was_said() -> None:
    fired = [
        STOP,
        STOP._replace(version="2.2.0"),
        STOP._replace(version=None),
        STOP._replace(version="a b\n"),
    ]
    assert read(with_fired(None, fired))["claude-code"].version == "2.2.0"


@pytest.mark.parametrize("note", [None, 7, "", "[]", '{"claude-code": 1}', '{"claude-code": {"took": "x"}}'])
def test_a_note_that_is_none_of_ours_is_begun_anew(note: object) -> None:
    assert read(with_fired(note, [STOP]))["claude-code"].took == [3]


@given(st.lists(st.integers(0, 1000), min_size=1), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_one_of_the_values_and_its_share_is_no_larger(
    values: list[int], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_of_no_values_there_is_no_percentile() -> None:
    assert percentile([], 0.5) is None
