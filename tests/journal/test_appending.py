"""Files that only grow, and files that are there whole."""

from __future__ import annotations

import json
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessionpipe.journal.appending import Journal, encode, replace


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """No file may become larger than ``size`` bytes."""
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_lines_are_appended_and_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append([b"one\n", b"two\n"])
    journal.append([b"three\n"])
    journal.sync()
    assert (journal.lines, (tmp_path / "j").read_bytes()) == (3, b"one\ntwo\nthree\n")
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600


def test_a_file_that_is_there_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("somebody's\n")
    with pytest.raises(FileExistsError):
        Journal(tmp_path / "j")


def test_after_a_failure_half_a_line_stays_the_last_and_only_whole_lines_count(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append([b"one\n"])
    with no_file_over(14), pytest.raises(OSError, match="large"):
        journal.append([b"two\n", b"three\n", b"four\n"])
    with pytest.raises(OSError, match="earlier"):
        journal.append([b"five\n"])
    assert (journal.lines, (tmp_path / "j").read_bytes()) == (3, b"one\ntwo\nthree\n")


def test_half_a_line_is_not_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    with no_file_over(6), pytest.raises(OSError, match="large"):
        journal.append([b"one\n", b"two\n"])
    assert (journal.lines, (tmp_path / "j").read_bytes()) == (1, b"one\ntw")


def test_a_small_file_is_replaced_whole(tmp_path: Path) -> None:
    replace(tmp_path / "capture.json", {"status": "recording"})
    before = (tmp_path / "capture.json").stat().st_ino
    replace(tmp_path / "capture.json", {"status": "complete"})
    assert json.loads((tmp_path / "capture.json").read_text()) == {"status": "complete"}
    assert (tmp_path / "capture.json").stat().st_ino != before
    assert stat.S_IMODE((tmp_path / "capture.json").stat().st_mode) == 0o600
    assert list(tmp_path.glob("*capture*")) == [tmp_path / "capture.json"]


def test_one_that_can_t_be_written_stays_as_it_was(tmp_path: Path) -> None:
    replace(tmp_path / "capture.json", {"status": "recording"})
    with no_file_over(10), pytest.raises(OSError, match="large"):
        replace(tmp_path / "capture.json", {"status": "complete"})
    assert json.loads((tmp_path / "capture.json").read_text()) == {"status": "recording"}
    assert list(tmp_path.glob("*capture*")) == [tmp_path / "capture.json"]


def test_json_is_compact_and_keeps_what_it_was_given() -> None:
    assert encode({"a": ["é\u2028", 1]}) == '{"a":["é\u2028",1]}'.encode()
    assert encode({"a": "\ud83d"}) == rb'{"a":"\ud83d"}'
