"""A SQLite file read without SQLite: the same records, and each page for itself when some are damaged."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe import pages
from sessionpipe.pages import PAGE, Frame, Pages, Record, Wal, committed

FRAME = 24 + PAGE

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -1, 127, 128, 2**23, -(2**31), 2**47]),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    st.binary(max_size=40),
    # Around what fits a cell of a table and of an index, and over many pages.
    st.sampled_from([900, 1000, 1001, 1002, 1003, 4060, 4061, 4062, 4100, 30_000]).map(
        lambda size: b"b" * size
    ),
)


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def records(path: Path) -> list[Record]:
    with Pages(path, wal(path)) as pages:
        return list(pages.records())


class TestRecords:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(rows=st.lists(st.tuples(values, values, values), max_size=12), first=st.integers(-(2**63), 2**62))
    def test_they_are_what_was_inserted(self, tmp_path: Path, rows: list[Any], first: int) -> None:
        path = tmp_path / "a.db"
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x, y, z)")
        db.executemany("INSERT INTO a VALUES (?, ?, ?, ?)", [(first + n, *row) for n, row in enumerate(rows)])
        db.close()
        found = {r.rowid: r.values[1:] for r in records(path) if len(r.values) == 4}
        assert found == {first + n: row for n, row in enumerate(rows)}

    def test_a_table_without_row_ids_has_some_of_its_rows_in_inner_pages(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("CREATE TABLE a (name TEXT PRIMARY KEY, n) WITHOUT ROWID")
        rows = [(f"{n:05d}{'x' * 200}", n) for n in range(500)]
        db.executemany("INSERT INTO a VALUES (?, ?)", rows)
        db.close()
        found = [r.values for r in records(path) if len(r.values) == 2 and r.rowid is None]
        assert sorted(found) == rows

    @pytest.mark.parametrize("behind", [0x00, 0x01, 0x07, 0x0D])
    def test_a_value_of_exabytes_is_none_whatever_stands_behind_it(self, behind: int) -> None:
        kinds = b"\xff" * 9 + bytes([behind])
        with pytest.raises(pages._Torn):
            pages._values(bytes([1 + len(kinds)]) + kinds + b"12345678")

    def test_no_bytes_raise_anything(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        for kind in (0x0D, 0x0A, 0x02):
            for seed in range(40):
                noise = bytearray(os.urandom(PAGE * 3))
                noise[0] = noise[PAGE] = kind
                noise[3:5] = (seed * 40).to_bytes(2)
                path.write_bytes(noise)
                records(path)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A database in WAL mode, of which ten transactions of one row each are in the WAL alone."""
    path = tmp_path / "a.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, body)")
    db.execute("INSERT INTO a VALUES (0, 'in the file')")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(1, 11):
        db.execute("INSERT INTO a VALUES (?, ?)", (number, b"x" * 3000))
    yield path
    db.close()


def ids(path: Path) -> list[int]:
    return sorted(r.rowid for r in records(path) if r.rowid is not None and len(r.values) == 2)


def spoil(path: Path, start: int, size: int) -> None:
    content = bytearray(path.read_bytes())
    content[start : start + size] = os.urandom(size)
    path.write_bytes(content)


class TestWal:
    def test_its_pages_lie_over_those_of_the_file(self, path: Path) -> None:
        assert ids(path) == list(range(11))
        with Pages(path, wal(path)) as pages:
            assert not pages.lost

    def test_what_an_earlier_round_left_behind_does_not_count(self, path: Path, tmp_path: Path) -> None:
        db = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        frames = len(Wal(wal(path)).frames)
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        db.execute("INSERT INTO a VALUES (11, 'x')")
        assert len(Wal(wal(path)).frames) < frames
        assert ids(path) == list(range(12))
        db.close()

    def test_a_transaction_without_its_end_is_none(self, path: Path) -> None:
        whole = Wal(wal(path))
        cut = wal(path).read_bytes()[: 32 + (len(whole.frames) - 1) * FRAME]
        wal(path).write_bytes(cut)
        assert ids(path) == list(range(10))
        with Pages(path, wal(path)) as pages:
            assert not pages.lost

    @pytest.mark.parametrize("what", ["a page", "a frame's header", "both"])
    def test_a_damaged_frame_costs_what_stands_in_it_and_its_neighbour_at_most(
        self, path: Path, what: str
    ) -> None:
        start, size = {"a page": (24, PAGE), "a frame's header": (0, 24), "both": (0, FRAME)}[what]
        spoil(wal(path), 32 + 4 * FRAME + start, size)
        with Pages(path, wal(path)) as pages:
            assert pages.lost
        assert 1 <= len(set(range(11)) - set(ids(path))) <= 2
        assert {0, 10} <= set(ids(path))

    def test_behind_a_header_that_is_none_the_frames_still_hold(self, path: Path) -> None:
        spoil(wal(path), 0, 32)
        with Pages(path, wal(path)) as pages:
            assert pages.lost
        assert 10 in ids(path)

    @pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"\0" * 32])
    def test_one_that_was_never_written_is_not_damaged(self, path: Path, content: bytes) -> None:
        wal(path).write_bytes(content)
        assert not Wal(wal(path)).damaged
        assert ids(path) == [0]

    @pytest.mark.parametrize("content", [b"noise" * 2000, b"\0" * 5000 + b"x"])
    def test_one_of_noise_is_damaged_and_hides_nothing_of_the_file(self, path: Path, content: bytes) -> None:
        wal(path).write_bytes(content)
        with Pages(path, wal(path)) as pages:
            assert pages.lost
        assert ids(path) == [0]

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
    def test_what_counts_as_committed(self, frames: list[tuple[bool, bool]]) -> None:
        """Whole frames up to the last whole commit, unless something in that last transaction is not whole."""
        given_ = [Frame(n, commits, n, whole) for n, (commits, whole) in enumerate(frames)]
        kept = committed(given_)
        ends = [n for n, frame in enumerate(given_) if frame.commits and frame.whole]
        if not ends:
            assert kept == []
            return
        last = given_[ends[-2] + 1 if len(ends) > 1 else 0 : ends[-1] + 1]
        until = ends[-1] if all(frame.whole for frame in last) else ends[-2] if len(ends) > 1 else -1
        assert kept == [frame for frame in given_[: until + 1] if frame.whole]


def test_an_index_over_numbers_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x INTEGER UNIQUE, y TEXT)")
    db.executemany("INSERT INTO a (x, y) VALUES (?, 'y')", [(n,) for n in range(300)])
    db.close()
    shapes = Counter(tuple(type(value) for value in record.values) for record in records(path))
    assert shapes[type(None), int, str] == 300
    assert not any(shape[:1] == (int,) for shape in shapes)
