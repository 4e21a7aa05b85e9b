"""harnesses.pi_lines: a line ends at a line feed and nowhere else, and its type is what it says."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.pi_lines import Lines, checked_kind, kind, read


def split(pieces: list[bytes], longest: int = 1 << 20) -> tuple[list[bytes], int]:
    lines = Lines(longest)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.finish(), lines.skipped


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 400), max_size=8), st.integers(1, 12))
def test_it_does_not_matter_how_a_stream_is_cut_up(
    wanted: list[bytes], cuts: list[int], longest: int
) -> None:
    wanted = [line.replace(b"\n", b"") for line in wanted]
    stream = b"\n".join(wanted)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    if wanted and not wanted[-1]:
        wanted.pop()  # The stream ended with the end of a line.
    kept = [line for line in wanted if len(line) <= longest]
    assert split(pieces, longest) == (kept, len(wanted) - len(kept))


def test_separators_that_are_no_line_feed_end_nothing() -> None:
    line = '{"text":"a\u2028b\u2029c\x85d\x0b\x0ce"}\r'.encode()
    assert split([line + b"\n" + line]) == ([line, line], 0)


def test_a_line_that_is_too_long_takes_no_memory_and_no_other_line_with_it() -> None:
    lines = Lines(10)
    assert lines.feed(b"x" * 11) == []
    for _ in range(100):
        assert lines.feed(b"y" * 1000) == []
    assert lines._held == []
    assert lines.feed(b"\nshort\n") == [b"short"]
    assert lines.skipped == 1


def test_behind_a_gap_the_line_it_is_in_is_given_up() -> None:
    lines = Lines()
    assert lines.feed(b"one\nha") == [b"one"]
    lines.gap()
    assert lines.feed(b"lf\ntwo\nthr") == [b"two"]
    assert lines.finish() == [b"thr"]
    lines.gap()
    assert lines.finish() == []


@pytest.mark.parametrize(
    ("line", "is_"),
    [
        (b'{"type":"message_end","message":{}}', "message_end"),
        (b'{"type":"agent_start"}', "agent_start"),
        (b'{"id":"1","type":"response"}', "response"),
        (b'{ "type" : "spaced" }\r', "spaced"),
        (b'{"nested":{"type":"inner"},"type":"outer"}', "outer"),
        ('{"type":"ünïcödé"}'.encode(), "ünïcödé"),
        (b'{"text":"\\ud800","type":"half a pair"}', "half a pair"),
        (b'{"type":7}', None),
        (b'{"kind":"other"}', None),
        (b'["type"]', None),
        (b"null", None),
        (b"not json", None),
        (b"", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_type_is_read_wherever_it_stands(line: bytes, is_: str | None) -> None:
    assert kind(line) == checked_kind(line) == is_


def test_only_the_checked_type_says_that_a_line_can_be_read() -> None:
    torn = b'{"type":"message_update","usage":{"inp'
    assert kind(torn) == "message_update"
    assert checked_kind(torn) is None
    assert read(torn) is None


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.just({"type": "x"}))
)
def test_the_quick_look_and_the_whole_one_agree(value: dict[str, object]) -> None:
    line = json.dumps(value, separators=(",", ":")).encode()
    found = value.get("type")
    assert kind(line) == checked_kind(line) == (found if isinstance(found, str) else None)
    assert read(line) == value
