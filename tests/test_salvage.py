"""A damaged outbox: what is carried over, and that no number is ever given twice."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from sessionpipe import salvage
from sessionpipe.outbox import Damaged, Outbox, OutboxError, Row, SinkState
from sessionpipe.outboxfile import Guard, ready, those_set_aside, wal_of
from sessionpipe.pages import PAGE
from sessionpipe.places import identity
from sessionpipe.salvage import Salvage, set_aside
from tests.delivery.events import record

NOW = 1_800_000_000_000
SESSIONS = ("first", "second", "third")


class Truth(NamedTuple):
    """What stood in the outbox before it was damaged."""

    rows: dict[int, Row]
    next_seq: dict[str, int]
    cursors: dict[str, int]
    marks: set[str]
    last: int


def fill(outbox: Outbox) -> None:
    """Three sessions, one of them forgotten; two sinks; a job that was not unlinked; a read that is owed."""
    for number in range(40):
        record(outbox, "tool.ended", {"out": "y" * 300}, session=SESSIONS[number % 3], count=3)
    record(outbox, "turn.transcript", {"turn": 7, "user": "u", "assistant": "a" * 9000}, session="first")
    outbox.forget("claude-code", "third", NOW - 1000, 1, forgotten(outbox))
    outbox.add_sink("board", 50)
    outbox.add_sink("file", 122)
    with outbox.transaction() as tx:
        tx.mark_done(["00000000000000000001.job"])
        second = tx.session("claude-code", "second", 1)
        second.transcript = {"turn": 4, "cursor": {"offset": 99}}
        tx.queue_read(second, {"path": "/x", "said": None, "final": False, "ended_ms": 1}, 5, 5)
        tx.save(second)


def forgotten(outbox: Outbox) -> Callable[[int], bytes]:
    def body(seq: int) -> bytes:
        event = {
            "id": "01JZZZZZZZZZZZZZZZZZZZZZZZ",
            "type": "session.forgotten",
            "harness": {"name": "claude-code"},
            "session": {"id": "third", "seq": seq},
            "data": {},
        }
        return msgspec.json.encode(event)

    return body


def truth(path: Path) -> Truth:
    outbox = Outbox.open(path)
    try:
        rows = {row.position: row for row in outbox.read(0, 10_000, 1 << 40)}
        with outbox.transaction() as tx:
            next_seq = {name: tx.session("claude-code", name, 1).next_seq for name in SESSIONS}
        cursors = {sink.name: sink.position for sink in outbox.sinks()}
        return Truth(rows, next_seq, cursors, set(outbox.marks()), outbox.last_position())
    finally:
        outbox.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "outbox.db"
    outbox = Outbox.open(path)
    fill(outbox)
    outbox.close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, whole: bytes) -> Path:
    path = tmp_path / "outbox.db"
    path.write_bytes(whole)
    return path


def spoil(path: Path, page: int, noise: bytes = b"") -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(noise or os.urandom(PAGE))


def renewed(path: Path) -> Salvage:
    done = set_aside(path, "told", NOW, file=identity(path))
    assert done is not None
    return done


def assert_no_number_is_given_twice(path: Path, before: Truth) -> Truth:
    """The law: what goes on behind the new outbox can be told from all that was in the old one."""
    after = truth(path)
    for position, row in after.rows.items():
        assert row == before.rows[position]
    for session, next_seq in before.next_seq.items():
        assert after.next_seq[session] >= next_seq
    assert after.last >= max(after.cursors.values(), default=0)
    for sink, position in after.cursors.items():
        assert position == before.cursors[sink]
    outbox = Outbox.open(path)
    outbox.check()
    fresh = record(outbox, session="one that nobody has heard of")[0]
    outbox.close()
    assert fresh["session"]["seq"] == 0 or fresh["session"]["seq"] > max(before.next_seq.values())
    return after


def pages(path: Path) -> dict[int, str]:
    """Which table each page of a whole outbox belongs to."""
    db = sqlite3.connect(path)
    try:
        roots = dict(db.execute("SELECT rootpage, name FROM sqlite_master WHERE rootpage").fetchall())
    finally:
        db.close()
    return {1: "schema", **roots}


class TestWhole:
    def test_all_of_it_is_carried_over_as_it_was(self, path: Path) -> None:
        before = truth(path)
        done = renewed(path)
        after = assert_no_number_is_given_twice(path, before)
        assert (after.rows, after.next_seq, after.cursors, after.marks) == (
            before.rows,
            before.next_seq,
            before.cursors,
            before.marks,
        )
        assert after.last == before.last
        assert (done.events, done.sessions, done.sinks) == (83, 3, 2)
        # Of those behind the cursor the forgotten ones are not there, and nobody can tell.
        assert done.missing == {"board": 72 - sum(position > 50 for position in before.rows)}

    def test_what_sessions_remember_goes_with_them(self, path: Path) -> None:
        renewed(path)
        outbox = Outbox.open(path)
        with outbox.transaction() as tx:
            second = tx.session("claude-code", "second", 1)
            third = tx.session("claude-code", "third", 1)
        (owed,) = outbox.pending_reads()
        outbox.close()
        assert second.transcript == {"turn": 4, "cursor": {"offset": 99}}
        assert third.forgotten_ms == NOW - 1000
        assert (owed.session, owed.want["path"], owed.due_ms) == ("second", "/x", None)

    def test_the_old_one_stays_byte_for_byte(self, path: Path) -> None:
        content = path.read_bytes()
        done = renewed(path)
        (aside,) = those_set_aside(path)
        assert aside.name == done.aside == "outbox.db.corrupt-20270115T080000Z"
        assert aside.read_bytes() == content

    def test_the_new_one_remembers_where_it_comes_from(self, path: Path) -> None:
        done = renewed(path)
        outbox = Outbox.open(path)
        assert msgspec.json.decode(outbox.note("salvaged"), type=Salvage) == done
        outbox.close()


class TestPages:
    """Each page by itself, as noise and as zeros: a disk's bad block."""

    @pytest.mark.parametrize("noise", [b"", b"\0" * PAGE], ids=["noise", "zeros"])
    def test_no_page_whatever_costs_more_than_what_stands_in_it(
        self, path: Path, whole: bytes, noise: bytes
    ) -> None:
        before, tables = truth(path), pages(path)
        for page in range(1, len(whole) // PAGE + 1):
            for left in (*those_set_aside(path), path, wal_of(path), path.with_name("outbox.db-shm")):
                left.unlink(missing_ok=True)
            path.write_bytes(whole)
            spoil(path, page, noise)
            renewed(path)
            after = assert_no_number_is_given_twice(path, before)
            lost = before.rows.keys() - after.rows.keys()
            if page in tables:
                # Inner pages, indexes, the schema: none of them holds an event.
                assert not lost, tables[page]
            else:
                assert len(lost) <= 15
                assert not lost or max(lost) - min(lost) < 30
            if tables.get(page) != "sinks":
                assert after.cursors == before.cursors
            if tables.get(page) != "jobs_done":
                assert after.marks == before.marks
            if tables.get(page) not in ("sessions", "sqlite_sequence", "meta"):
                assert after.next_seq == before.next_seq

    def test_a_session_whose_row_is_lost_goes_on_with_all_that_its_events_tell(self, path: Path) -> None:
        roots = {name: page for page, name in pages(path).items()}
        spoil(path, roots["sessions"])
        renewed(path)
        outbox = Outbox.open(path)
        with outbox.transaction() as tx:
            first = tx.session("claude-code", "first", 1)
            third = tx.session("claude-code", "third", 1)
        outbox.close()
        # Not a number less than the old ones; what was said before is not told again.
        assert (first.transcript, first.first_ms) == ({"turn": 7}, NOW)
        assert third.forgotten_ms == NOW - 1000

    @pytest.mark.parametrize("lost", ["sqlite_sequence", "meta"])
    def test_without_a_count_of_events_unknown_sessions_begin_at_the_time(
        self, path: Path, lost: str
    ) -> None:
        roots = {name: page for page, name in pages(path).items()}
        spoil(path, roots["sessions"])
        spoil(path, roots[lost])
        renewed(path)
        outbox = Outbox.open(path)
        assert record(outbox, session="unknown")[0]["session"]["seq"] == NOW
        assert record(outbox, session="first")[0]["session"]["seq"] == NOW
        outbox.close()


class TestRuins:
    @pytest.mark.parametrize(
        "content",
        [b"", b"x", b"noise, and not a database" * 1000, b"\0" * (64 << 10)],
        ids=["empty", "a byte", "noise", "zeros"],
    )
    def test_of_nothing_nothing_is_carried_over_and_sessions_begin_where_none_has_been(
        self, path: Path, content: bytes
    ) -> None:
        path.write_bytes(content)
        with pytest.raises(Damaged):
            Outbox.open(path)
        done = renewed(path)
        assert (done.events, done.sessions, done.sinks) == (0, 0, 0)
        outbox = Outbox.open(path)
        assert record(outbox, session="first")[0]["session"]["seq"] == NOW
        outbox.close()

    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
    def test_of_a_file_that_was_cut_off_all_that_is_left_is_carried_over(
        self, path: Path, kept: float
    ) -> None:
        before, size = truth(path), path.stat().st_size
        os.truncate(path, int(size * kept))
        with pytest.raises(Damaged):
            Outbox.open(path)
        renewed(path)
        after = assert_no_number_is_given_twice(path, before)
        assert bool(after.rows) == (kept > 0.2)


@pytest.fixture
def unclean(path: Path) -> Iterator[Path]:
    """The outbox after a kill: its last transactions stand in the WAL alone."""
    outbox = Outbox.open(path)
    for _ in range(12):
        record(outbox, "tool.ended", {"out": "z" * 200}, session="first")
        outbox.change_sink("file", lambda sink: msgspec.structs.replace(sink, position=sink.position + 1))
    content = path.read_bytes(), wal_of(path).read_bytes()
    outbox.close()
    for name in path.parent.glob("outbox.db*"):
        name.unlink()
    path.write_bytes(content[0])
    wal_of(path).write_bytes(content[1])
    return path


class TestWal:
    def test_a_whole_one_is_no_damage(self, unclean: Path) -> None:
        outbox = Outbox.open(unclean)
        assert outbox.last_position() == 134
        outbox.close()

    def test_a_torn_end_is_no_damage(self, unclean: Path) -> None:
        os.truncate(wal_of(unclean), wal_of(unclean).stat().st_size - 100)
        Outbox.open(unclean).close()

    @pytest.mark.parametrize(
        ("at", "size"),
        [(0, 32), (32, 24), (32 + 24, PAGE), (32 + 5 * (PAGE + 24), 3 * (PAGE + 24)), (0, 1 << 20)],
        ids=["its header", "its first frame's header", "its first page", "its middle", "all of it"],
    )
    def test_noise_in_it_is_noticed_before_a_number_is_given_again(
        self, unclean: Path, at: int, size: int
    ) -> None:
        wal = bytearray(wal_of(unclean).read_bytes())
        size = min(size, len(wal) - at)
        wal[at : at + size] = os.urandom(size)
        wal_of(unclean).write_bytes(wal)
        with pytest.raises(Damaged, match="write-ahead log"):
            Outbox.open(unclean)
        assert wal_of(unclean).read_bytes() == wal, "looking must not take it away"
        done = renewed(unclean)
        outbox = Outbox.open(unclean)
        # 134 positions, of which the first session had 54: whatever was read of them, it goes on behind.
        assert record(outbox, session="first")[0]["session"]["seq"] > 54
        assert record(outbox, session="new")[0]["session"]["seq"] > 134
        assert outbox.last_position() > 136
        outbox.close()
        (aside,) = those_set_aside(unclean)
        assert aside.name == done.aside
        assert wal_of(aside).read_bytes() == wal

    def test_what_stands_behind_the_damage_is_carried_over_too(self, unclean: Path) -> None:
        wal = bytearray(wal_of(unclean).read_bytes())
        wal[32 + 24 : 32 + 24 + PAGE] = os.urandom(PAGE)
        wal_of(unclean).write_bytes(wal)
        renewed(unclean)
        outbox = Outbox.open(unclean)
        assert outbox.read(133, 10)[0].position == 134
        assert {sink.name: sink.position for sink in outbox.sinks()} == {"board": 50, "file": 134}
        outbox.close()

    def test_one_without_its_database_is_set_aside_and_sessions_begin_where_none_has_been(
        self, unclean: Path
    ) -> None:
        content = wal_of(unclean).read_bytes()
        unclean.unlink()
        outbox = Outbox.open(unclean)
        assert record(outbox, session="first")[0]["session"]["seq"] > NOW // 2
        outbox.close()
        (left,) = unclean.parent.glob("outbox.db.corrupt-*-wal")
        assert left.read_bytes() == content


class TestOthers:
    def test_who_is_slower_does_nothing(self, path: Path) -> None:
        file = identity(path)
        assert set_aside(path, "told", NOW, file=file) is not None
        assert set_aside(path, "told", NOW, file=file) is None
        assert len(those_set_aside(path)) == 1

    def test_nobody_commits_to_a_file_that_lost_its_name(self, path: Path) -> None:
        slow = Outbox.open(path)
        renewed(path)
        with pytest.raises(OutboxError, match="set aside meanwhile"):
            slow.add_sink("late", 0)
        assert not slow.still_there()
        slow.close()
        assert wal_of(path).exists() is False or Outbox.open(path).sink("late") is None

    def test_it_waits_for_who_writes_and_they_wait_for_it(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessionpipe.outboxfile.PATIENCE_S", 0.05)
        outbox = Outbox.open(path)
        with outbox.transaction(), pytest.raises(OutboxError, match="in order"):
            renewed(path)
        guard = Guard(path.parent)
        with guard.alone(), pytest.raises(OutboxError, match="in order"):
            outbox.add_sink("x", 0)
        guard.close()
        outbox.close()

    def test_who_reads_sees_one_or_the_other(self, path: Path) -> None:
        new = path.with_name("new")
        renewed(path)
        # Cut off between the two names: the new one is whole, and waits for its own.
        path.rename(new)
        new.rename(ready(path))
        outbox = Outbox.look(path)
        assert outbox is not None
        assert outbox.count() == (83, 3)
        outbox.close()
        opened = Outbox.open(path)
        assert opened.count() == (83, 3)
        opened.close()
        assert not ready(path).exists()

    def test_when_it_cannot_be_written_all_is_as_it_was(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = path.read_bytes()

        def full(*_args: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr("sessionpipe.salvage.Restoration.event", full)
        with pytest.raises(sqlite3.OperationalError):
            renewed(path)
        assert [name.name for name in path.parent.glob("outbox.db*")] == ["outbox.db"]
        assert path.read_bytes() == content

    def test_a_disk_that_is_dying_is_not_filled_with_copies(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(salvage, "MOST", 2)
        now = int(path.stat().st_ctime * 1000)
        for _ in range(2):
            assert set_aside(path, "again", now, file=identity(path)) is not None
        with pytest.raises(OutboxError, match="is the disk failing"):
            set_aside(path, "again", now, file=identity(path))
        assert set_aside(path, "days later", now + 3 * salvage.WITHIN_MS, file=identity(path)) is not None


def test_a_sinks_state_that_is_no_json_keeps_its_place(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE sinks SET state = X'7B22' WHERE name = 'board'")
    db.commit()
    db.close()
    outbox = Outbox.open(path)
    assert outbox.sink("board") == SinkState(name="board", position=50)
    outbox.close()


def test_a_session_whose_facts_are_no_json_learns_them_again(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE sessions SET state = X'FF00', block = X'7B22' WHERE id = 'first'")
    db.commit()
    db.close()
    outbox = Outbox.open(path)
    assert record(outbox, session="first")[0]["session"]["seq"] == 43
    outbox.close()
