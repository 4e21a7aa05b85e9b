"""sessionpipe.harnesses.tail: what a file said last costs what is new in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.tail import TAIL, Tail


class Words(Tail):
    """Remembers every line that says something, and how many lines there were."""

    SAYING = (b"word",)

    def __init__(self, begins: int | None = 0) -> None:
        super().__init__()
        self.seen: list[bytes] = []
        self.passed = 0
        self._begins = begins

    def begins(self, opened: Opened) -> int | None:
        return self._begins

    def see(self, line: bytes) -> None:
        self.seen.append(line)

    def pass_by(self, line: bytes) -> None:
        self.passed += 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.jsonl"


def look(tail: Words, file: Path) -> list[bytes]:
    tail.seen.clear()
    tail.catch_up(Files().open(file))
    return tail.seen


def test_each_line_is_seen_once(file: Path) -> None:
    tail = Words()
    file.write_bytes(b"word 1\nnoise\nword 2\n")
    assert look(tail, file) == [b"word 1", b"word 2"]
    assert tail.passed == 3
    assert look(tail, file) == []
    with file.open("ab") as grown:
        grown.write(b"word 3\nword")
    assert look(tail, file) == [b"word 3"]
    with file.open("ab") as grown:
        grown.write(b" 4\n")
    assert look(tail, file) == [b"word 4"]


def test_of_a_large_file_only_the_end_is_looked_at(file: Path, bytes_read: list[int]) -> None:
    file.write_bytes(b"word early\n" + b"x" * (4 * TAIL) + b"\nword late\n")
    assert look(Words(), file) == [b"word late"]
    assert sum(bytes_read) <= 2 * TAIL


def test_a_file_that_begins_anew_is_looked_at_anew(file: Path) -> None:
    tail = Words()
    file.write_bytes(b"word 1\nword 2\n")
    look(tail, file)
    file.write_bytes(b"word 3\n")
    assert look(tail, file) == [b"word 3"]


def test_what_comes_before_a_files_own_beginning_is_not_looked_at(file: Path) -> None:
    file.write_bytes(b"word 1\nword 2\n")
    assert look(Words(7), file) == [b"word 2"]


def test_a_file_without_its_own_beginning_waits(file: Path) -> None:
    tail = Words(None)
    file.write_bytes(b"word 1\n")
    assert look(tail, file) == []
    assert tail.is_new


def test_a_file_that_is_not_there_says_nothing(file: Path) -> None:
    assert look(Words(), file) == []
