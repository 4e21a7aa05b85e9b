"""Lines of JSON, forwards and backwards, within bounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files, Opened

ANYTHING = msgspec.json.Decoder(Any)


@contextmanager
def reading(file: Path) -> Iterator[Opened]:
    opened = Files().open(file)
    assert opened
    with opened:
        yield opened


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12)


@given(lines=LINES, rest=st.binary(max_size=5), block=st.integers(1, 9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_give_the_complete_lines_and_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], rest: bytes, block: int
) -> None:
    monkeypatch.setattr(jsonl, "_BLOCK", block)
    text = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    (tmp_path / "file").write_bytes(text)
    with reading(tmp_path / "file") as opened:
        found = list(jsonl.forward(opened))
        assert [line.data for line in found] == lines
        assert all(text[line.start : line.end] == line.data + b"\n" for line in found)
        assert list(jsonl.backward(opened, len(text))) == found[::-1]
        for line in found:
            assert list(jsonl.forward(opened, line.start)) == [
                each for each in found if each.start >= line.start
            ]
        for budget in range(len(text)):
            within = [line for line in found if line.start > len(text) - budget]
            assert [line for line in jsonl.backward(opened, budget) if line.start][: len(within)] == within[
                ::-1
            ]


def test_a_separator_of_unicode_ends_no_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a":"x\u2028y\u0085z\x0c"}\n', encoding="utf-8")
    with reading(tmp_path / "file") as opened:
        assert len(list(jsonl.forward(opened))) == 1


def test_a_line_beyond_the_bound_costs_no_memory_and_hides_no_other(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before\n")
        file.truncate(jsonl.MAX_LINE * 4)
        file.seek(0, 2)
        file.write(b"\nafter\n")
    with reading(tmp_path / "file") as opened:
        tracemalloc.start()
        try:
            forwards = [line.data for line in jsonl.forward(opened)]
            backwards = [line.data for line in jsonl.backward(opened, opened.size)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert forwards == [b"before", b"", b"after"]
    assert backwards == forwards[::-1]
    assert peak < jsonl.MAX_LINE * 2.5


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":[1]}', {"a": [1]}),
        (b'{"a":"half \\ud83d pair"}', {"a": "half ? pair"}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":NaN}', {"a": None}),
        (b"", None),
        (b"{", None),
        (b"\0\0", None),
        (b"[" * 100_000, None),
        (b'{"a":' * 100_000, None),
    ],
)
def test_json_is_read_as_programs_write_it(data: bytes, value: object) -> None:
    assert jsonl.decode(data, ANYTHING) == value


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    jsonl.decode(data, ANYTHING)


@pytest.mark.parametrize(
    ("timestamp", "ms"),
    [
        ("2026-11-29T18:04:34.878Z", 1_795_975_474_878),
        ("2026-11-29T19:04:34.878+01:00", 1_795_975_474_878),
        ("1970-01-01T00:00:00Z", 0),
        ("yesterday", None),
        ("", None),
        (None, None),
        (1_795_975_474_878, None),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
    ],
)
def test_a_time_is_read_to_the_millisecond(timestamp: object, ms: int | None) -> None:
    assert jsonl.epoch_ms(timestamp) == ms


class Endless:
    """A file of one line whose end is nowhere near, behind a short one or not; it knows what was read of it."""

    size = 8 << 30

    def __init__(self, before: bytes) -> None:
        self.before, self.farthest = before, 0

    def read_at(self, offset: int, length: int) -> bytes:
        self.farthest = max(self.farthest, offset + length)
        return self.before[offset : offset + length].ljust(length, b"x")


@pytest.mark.parametrize("before", [b"", b"{}\n"])
def test_who_wants_the_beginning_does_not_look_for_the_end_of_an_endless_line(before: bytes) -> None:
    source = Endless(before)
    for line in jsonl.forward(source, within=1 << 20, longest=1 << 20):
        assert line.data == b"{}"
    assert source.farthest < 3 << 20
    jsonl.first(source)
    assert source.farthest < jsonl.MAX_LINE + (1 << 20)


def test_a_line_that_begins_in_what_is_wanted_is_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\n" + b"b" * 1000 + b"\n")
    with reading(tmp_path / "file") as opened:
        assert [line.data for line in jsonl.forward(opened, within=10)] == [b"a", b"b" * 1000]
