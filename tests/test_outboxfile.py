"""The outbox's names: who may give them, and what is kept."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sessionpipe.outbox import Outbox
from sessionpipe.outboxfile import (
    RESERVE,
    Damaged,
    Guard,
    OutboxError,
    aside_name,
    companions,
    damage,
    full,
    refuse_others,
    release,
    reserve,
    those_set_aside,
)

NOW = 1_800_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def raised(query: str, path: Path) -> sqlite3.Error:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute(query)
    except sqlite3.Error as error:
        return error
    finally:
        db.close()
    raise AssertionError("nothing was raised")


class TestDamage:
    def test_of_a_file_that_is_no_database(self, path: Path) -> None:
        path.write_bytes(b"no database" * 1000)
        assert damage(raised("PRAGMA journal_mode", path)) == "file is not a database"

    def test_of_two_rows_for_one_place(self, path: Path) -> None:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE a (x UNIQUE)")
        db.execute("INSERT INTO a VALUES (1)")
        db.commit()
        db.close()
        assert damage(raised("INSERT INTO a VALUES (1)", path)) == "its counters contradict its events"

    def test_what_is_told_as_such_is(self, path: Path) -> None:
        assert damage(Damaged(path, "why")) == "why"

    @pytest.mark.parametrize(
        "error", [None, OSError(28, "full"), ValueError(), sqlite3.OperationalError("database is locked")]
    )
    def test_nothing_else_is_the_files_fault(self, error: Exception | None) -> None:
        assert damage(error) is None

    def test_a_table_that_is_not_there_is_ours(self, path: Path) -> None:
        assert damage(raised("SELECT * FROM nothing", path)) is None
        assert not full(raised("SELECT * FROM nothing", path), path)


class TestNames:
    def test_those_set_aside_are_listed_without_what_belongs_to_them(self, path: Path) -> None:
        one, two = aside_name(path, NOW), aside_name(path, NOW - 1000)
        for name in (*companions(one), two):
            name.touch()
        assert those_set_aside(path) == [two, one]
        assert one.name == "outbox.db.corrupt-20270115T080000Z"

    def test_a_name_that_is_taken_is_not_given_again(self, path: Path) -> None:
        first = aside_name(path, NOW)
        companions(first)[1].touch()
        assert aside_name(path, NOW).name == f"{first.name}.0"

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_a_link_at_any_of_them_is_refused(self, path: Path, tmp_path: Path, number: int) -> None:
        (tmp_path / "victim").write_bytes(b"precious")
        companions(path)[number].symlink_to(tmp_path / "victim")
        with pytest.raises(OutboxError, match="is a link, not a file"):
            refuse_others(path)
        with pytest.raises(OutboxError):
            Outbox.open(path)
        assert (tmp_path / "victim").read_bytes() == b"precious"

    def test_one_that_is_being_made_has_no_name_yet(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("sessionpipe.outbox.sync", full)
        with pytest.raises(OutboxError, match="cannot be made just now"):
            Outbox.open(path)
        assert not path.exists()


class TestGuard:
    def test_many_may_share_and_one_may_be_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessionpipe.outboxfile.PATIENCE_S", 0.02)
        one, other = Guard(tmp_path), Guard(tmp_path)
        with one.shared(), other.shared():
            pass
        with one.alone(), pytest.raises(OutboxError, match="try again later"), other.shared():
            pass
        with other.alone():
            pass
        one.close()
        one.close()
        other.close()

    def test_who_is_killed_holds_nothing(self, tmp_path: Path) -> None:
        script = (
            "import os, signal, sys; from pathlib import Path; from sessionpipe.outboxfile import Guard\n"
            "with Guard(Path(sys.argv[1])).alone(): os.kill(os.getpid(), signal.SIGKILL)"
        )
        died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode
        assert died == -signal.SIGKILL
        guard = Guard(tmp_path)
        with guard.alone():
            pass
        guard.close()


class TestReserve:
    def test_it_takes_room_until_it_is_given_up(self, path: Path) -> None:
        reserve(path)
        (kept,) = path.parent.glob("*.reserve")
        assert kept.stat().st_blocks * 512 >= RESERVE
        assert release(path)
        assert not release(path)

    def test_a_smaller_one_is_made_larger_and_what_has_its_name_is_not_followed(self, path: Path) -> None:
        reserve(path, RESERVE // 2)
        reserve(path)
        kept = path.with_name("outbox.db.reserve")
        assert kept.stat().st_size == RESERVE
        kept.unlink()
        (path.parent / "victim").write_bytes(b"precious")
        kept.symlink_to(path.parent / "victim")
        reserve(path)
        assert (path.parent / "victim").read_bytes() == b"precious"
        assert os.path.lexists(kept) and not kept.is_symlink()
