"""The door to other programs' SQLite stores, beside real programs that write them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.sqlitefile import Look, look

PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
for line in sys.stdin:
    try:
        print("ok", connection.execute(line).fetchall(), flush=True)
    except Exception as error:
        print("failed", error, flush=True)
"""


class Program:
    """Another program that has a store open; it never waits for a lock."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def does(self, *statements: str) -> str:
        """What the last of these came to."""
        answer = ""
        assert self._process.stdin
        assert self._process.stdout
        for statement in statements:
            self._process.stdin.write(statement + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
        return answer

    def leave(self) -> None:
        self._process.communicate()

    def die(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A WAL database with one row that nobody has open."""
    return made(tmp_path / "store" / "a b?#.db", "wal")


@pytest.fixture
def program(store: Path) -> Iterator[Program]:
    running = Program(store)
    yield running
    running.die()


def made(path: Path, mode: str) -> Path:
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, words TEXT)")
        connection.execute("INSERT INTO note VALUES (1, 'one')")
    aged(path)
    return path


def aged(path: Path) -> None:
    """A file last written a moment ago: one just written is not trusted yet."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))


def count(found: Look) -> int:
    ((rows,),) = found.rows("SELECT count(*) FROM note")
    assert isinstance(rows, int)
    return rows


def seen(path: Path) -> int | None:
    return look(path, Files(), count)


def everything(path: Path) -> dict[str, bytes]:
    """All that is in a store's folder, byte for byte."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


# --- what is read, and that nobody can tell -------------------------------------------------------


def test_a_store_nobody_has_open_is_read_and_nothing_is_left_beside_it(store: Path) -> None:
    before = everything(store)
    assert seen(store) == 1
    assert everything(store) == before
    assert list(before) == [store.name]


def test_what_is_in_the_log_alone_is_read(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")
    before = everything(store)
    assert seen(store) == 2
    assert everything(store) == before
    assert len(before) == 3


def test_a_row_that_is_not_committed_is_none(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')", "BEGIN IMMEDIATE", "INSERT INTO note VALUES (3, 'x')")
    assert seen(store) == 2


def test_a_program_that_was_killed_left_its_log(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")
    program.die()
    before = everything(store)
    assert seen(store) == 2
    assert everything(store) == before


def test_after_a_checkpoint_and_after_the_program_left(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')", "PRAGMA wal_checkpoint(TRUNCATE)")
    aged(store)
    assert seen(store) == 2
    program.does("INSERT INTO note VALUES (3, 'three')")
    assert seen(store) == 3
    program.leave()
    aged(store)
    assert list(everything(store)) == [store.name]
    assert seen(store) == 3


@pytest.mark.parametrize("mode", ["wal", "delete", "persist"])
def test_the_program_neither_waits_nor_fails_while_it_is_looked_at(tmp_path: Path, mode: str) -> None:
    store = made(tmp_path / "store" / "x.db", mode)
    program = Program(store)
    answers: list[str] = []

    def busy(found: Look) -> int:
        rows = found.rows("SELECT id FROM note")
        next(rows)  # a statement in the middle of its rows holds what locks a reader has
        if not answers:
            answers.append(program.does(f"PRAGMA journal_mode={mode}", "INSERT INTO note VALUES (2, 'two')"))
            answers.append(program.does("PRAGMA wal_checkpoint(PASSIVE)"))
            aged(store)
        return 1 + len(list(rows))

    try:
        program.does("INSERT INTO note VALUES (7, 'seven')")
        aged(store)
        assert look(store, Files(), busy) is not None
        assert [answer.split()[0] for answer in answers] == ["ok", "ok"]
    finally:
        program.die()


def test_a_program_that_leaves_while_it_is_looked_at_leaves_its_log_to_the_next(
    store: Path, program: Program
) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")

    def leaving(found: Look) -> int:
        rows = found.rows("SELECT id FROM note")
        next(rows)
        program.leave()
        return 1 + len(list(rows))

    assert look(store, Files(), leaving) == 2
    assert seen(store) == 2
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert list(everything(store)) == [store.name]


def test_a_look_that_was_overtaken_looks_again(tmp_path: Path) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    looks: list[int] = []

    def overtaken(found: Look) -> int:
        rows = count(found)
        if not looks:
            with closing(sqlite3.connect(store, isolation_level=None)) as other:
                other.execute("INSERT INTO note VALUES (2, 'two')")
            aged(store)
        looks.append(rows)
        return rows

    assert look(store, Files(), overtaken) == 2
    assert looks == [1, 2]


def test_all_of_a_look_is_of_one_state(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")

    def twice(found: Look) -> tuple[int, int]:
        first = count(found)
        program.does("INSERT INTO note VALUES (3, 'three')")
        return first, count(found)

    assert look(store, Files(), twice) == (2, 2)


def test_a_busy_store_is_read_in_whole_states_only(store: Path) -> None:
    """Somebody writes two rows at a time; nobody ever sees one of them."""
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(store, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint=20")
            while not stop.is_set():
                connection.execute("BEGIN")
                connection.execute("INSERT INTO note(words) VALUES (?)", ("x" * 3000,))
                connection.execute("INSERT INTO note(words) VALUES (?)", ("y" * 3000,))
                connection.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = [rows for _ in range(200) if (rows := seen(store)) is not None]
    finally:
        stop.set()
        writer.join()
    assert counts
    assert {rows % 2 for rows in counts} == {1}
    assert counts == sorted(counts)


# --- what is absent -------------------------------------------------------------------------------


def test_no_store_is_absent(tmp_path: Path) -> None:
    assert seen(tmp_path / "none.db") is None
    assert seen(tmp_path) is None
    assert not list(tmp_path.glob("none*"))


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\0", b"{}" * 500, b"SQLite format 3\0" + b"\2" * 5000]
)
def test_a_file_that_is_no_database_is_absent(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    aged(tmp_path / "x.db")
    assert seen(tmp_path / "x.db") is None
    assert (tmp_path / "x.db").read_bytes() == content


def test_an_empty_database_s_log_is_not_taken_away(tmp_path: Path) -> None:
    """SQLite deletes a log beside a database of no pages, even when it may only read."""
    (tmp_path / "x.db").touch()
    (tmp_path / "x.db-wal").write_bytes(b"x" * 40)
    assert seen(tmp_path / "x.db") is None
    assert (tmp_path / "x.db-wal").stat().st_size == 40


@pytest.mark.parametrize("keep", [100, 4096, 5000])
def test_a_truncated_database_is_absent(tmp_path: Path, keep: int) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    os.truncate(store, keep)
    aged(store)
    assert seen(store) is None


def test_a_damaged_database_is_absent(tmp_path: Path) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    store.write_bytes(store.read_bytes()[:4096] + b"\xff" * 4096)
    aged(store)
    assert seen(store) is None


def test_another_programs_tables_are_absent(store: Path) -> None:
    def other(found: Look) -> int:
        return len(list(found.rows("SELECT id FROM message")))

    assert look(store, Files(), other) is None
    assert look(store, Files(), lambda found: sorted(found.columns("message"))) == []
    assert look(store, Files(), lambda found: sorted(found.columns("note"))) == ["id", "words"]


def test_a_log_without_its_index_is_absent(store: Path, program: Program) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")
    program.die()
    Path(f"{store}-shm").unlink()
    assert seen(store) is None
    assert not Path(f"{store}-shm").exists()


def test_a_store_its_program_has_for_itself_is_absent(store: Path, program: Program) -> None:
    program.does("PRAGMA locking_mode=EXCLUSIVE", "INSERT INTO note VALUES (2, 'two')")
    assert seen(store) is None


def test_a_transaction_that_may_have_reached_the_file_is_waited_for(tmp_path: Path) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    program = Program(store)
    try:
        program.does("BEGIN EXCLUSIVE", "INSERT INTO note VALUES (2, 'two')")
        assert seen(store) == 1
        # More than its memory may hold: the file is no longer what it was.
        program.does("PRAGMA cache_size=1", "INSERT INTO note VALUES (3, zeroblob(100000))")
        aged(store)
        assert seen(store) is None
        program.does("ROLLBACK")
        aged(store)
        assert seen(store) == 1
    finally:
        program.die()


def test_what_was_written_this_very_moment_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    monkeypatch.setattr(time, "time_ns", lambda: store.stat().st_mtime_ns + 1)
    assert seen(store) is None


def test_a_link_is_not_followed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(store)
    assert seen(tmp_path / "link.db") is None


def test_a_linked_folder_is(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.parent)
    assert seen(tmp_path / "link" / store.name) == 1


@pytest.mark.parametrize("companion", ["-wal", "-shm"])
def test_a_companion_that_is_no_file_makes_it_absent(store: Path, program: Program, companion: str) -> None:
    program.does("INSERT INTO note VALUES (2, 'two')")
    program.die()
    beside = Path(f"{store}{companion}")
    beside.rename(store.parent / "elsewhere")
    beside.symlink_to(store.parent / "elsewhere")
    assert seen(store) is None


# --- bounds ---------------------------------------------------------------------------------------


def test_a_query_without_end_is_ended(store: Path) -> None:
    def endless(found: Look) -> list[Any]:
        return list(
            found.rows("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n")
        )

    assert look(store, Files(), endless, seconds=0.05) is None


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT zeroblob(1 << 22) FROM n",
        "SELECT zeroblob(1 << 27)",
    ],
    ids=["rows", "text", "one value"],
)
def test_more_than_a_look_may_return_is_absent(store: Path, sql: str) -> None:
    assert look(store, Files(), lambda found: sum(1 for _ in found.rows(sql)), seconds=60) is None


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM note", "ATTACH '/tmp/x.db' AS x", "CREATE TEMP TABLE x(y)", "SELECT load_extension('x')"],
)
def test_nothing_but_reading_is_possible(store: Path, sql: str) -> None:
    assert look(store, Files(), lambda found: list(found.rows(sql))) is None
    assert seen(store) == 1


def test_text_that_is_none_is_still_read(tmp_path: Path) -> None:
    store = made(tmp_path / "store" / "x.db", "delete")
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE note SET words = CAST(x'61ff62' AS TEXT)")
    aged(store)
    assert look(store, Files(), lambda found: list(found.rows("SELECT words FROM note"))) == [("a\ufffdb",)]


@pytest.mark.parametrize("parameter", [1 << 70, "\ud800"])
def test_a_parameter_sqlite_cannot_take_finds_nothing(store: Path, parameter: object) -> None:
    assert look(store, Files(), lambda found: list(found.rows("SELECT ?", (parameter,)))) is None


def test_an_error_of_the_asker_s_own_comes_through(store: Path) -> None:
    def wrong(found: Look) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look(store, Files(), wrong)
