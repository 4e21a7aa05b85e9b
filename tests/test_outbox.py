"""The outbox: append-only rows, cursors, tombstones, and bytes that are gone when they should be."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from sessionpipe.outbox import _WAL_BYTES, SCHEMA_VERSION, Damaged, Outbox, OutboxError, encode
from sessionpipe.outboxfile import wal_of
from tests.sinkrow import put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
def outbox(path: Path) -> Iterator[Outbox]:
    outbox = Outbox.open(path)
    yield outbox
    outbox.close()


def record(
    outbox: Outbox, session: str, *bodies: bytes, harness: str = "codex", job: str | None = None
) -> None:
    with outbox.transaction() as tx:
        row = tx.session(harness, session, 1)
        for body in bodies:
            tx.append(row, "turn.started", 5, 1, body)
        tx.save(row)
        if job:
            tx.mark_done([job])


class TestEvents:
    def test_seq_counts_per_session_and_position_over_all(self, outbox: Outbox) -> None:
        record(outbox, "a", b"1", b"2")
        record(outbox, "b", b"3")
        record(outbox, "a", b"4")
        rows = [(row.position, row.session, row.seq, row.body) for row in outbox.read(0, 10)]
        assert rows == [(1, "a", 0, b"1"), (2, "a", 1, b"2"), (3, "b", 0, b"3"), (4, "a", 2, b"4")]

    def test_reading_is_bounded_in_rows_and_in_bytes(self, outbox: Outbox) -> None:
        record(outbox, "a", *[b"x" * 100] * 10)
        assert [row.position for row in outbox.read(3, 2)] == [4, 5]
        assert len(outbox.read(0, 10, max_bytes=250)) == 3

    @pytest.mark.parametrize("far", [10_000, 0], ids=["near the end", "far from it"])
    @pytest.mark.parametrize("hole", [False, True])
    @pytest.mark.parametrize("gaps", [2000, 1], ids=["noted", "too many to note"])
    def test_how_many_are_behind_whatever_was_forgotten(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch, gaps: int, hole: bool, far: int
    ) -> None:
        monkeypatch.setattr("sessionpipe.outbox._FEW", far)
        monkeypatch.setattr("sessionpipe.outbox._GAPS", gaps)
        assert outbox.all_behind([0, 3]) == [0, 0]
        for session in ("a", "b", "a", "b", "c"):
            record(outbox, session, b"1", b"2")
        outbox.prune(before_ms=6, up_to=1)
        if hole:
            outbox.forget("codex", "b", 9, 1, lambda _seq: b"gone")
        places = range(outbox.last_position() + 2)
        assert outbox.all_behind(places) == [len(outbox.read(place, 99)) for place in places]

    def test_how_many_of_some_types_are_behind(self, outbox: Outbox) -> None:
        record(outbox, "a", b"1", b"2", b"3")
        assert outbox.behind_of(1, ["turn.started", "turn.ended"]) == 2
        assert outbox.behind_of(0, ["turn.ended"]) == outbox.behind_of(0, []) == 0

    def test_what_is_noted_of_gaps_is_what_is_missing_behind_the_first_event(self, outbox: Outbox) -> None:
        for session in ("a", "b", "c", "b", "a"):
            record(outbox, session, b"1", b"2")
        outbox.forget("codex", "b", 9, 1, lambda _seq: b"gone")
        assert outbox.note("gaps") == "[[3,4],[7,8]]"
        outbox.prune(before_ms=6, up_to=5)
        assert outbox.note("gaps") == "[[7,8]]"
        outbox.forget("codex", "c", 9, 1, lambda _seq: b"gone")
        assert outbox.note("gaps") == "[]"

    @pytest.mark.parametrize(
        "note", ["[[1", "[[0,99]]", 7], ids=["no JSON", "not what is missing", "a number"]
    )
    def test_a_note_of_gaps_that_is_not_right_is_not_believed(self, outbox: Outbox, note: str | int) -> None:
        for session in ("a", "b", "a"):
            record(outbox, session, b"1", b"2")
        outbox.forget("codex", "b", 9, 1, lambda _seq: b"gone")
        outbox.remember("gaps", note)
        assert outbox.all_behind([0, 2, 5]) == [5, 3, 2]

    def test_a_session_is_found_by_its_id_and_a_forgotten_one_is_not(self, outbox: Outbox) -> None:
        for session in ("a", "b", "c"):
            record(outbox, session, b"1")
        outbox.forget("codex", "c", 9, 1, lambda _seq: b"gone")
        found = {
            name: [row.id for row in outbox.sessions_named(name)] for name in ("a", "codex:b", "pi:a", "c")
        }
        assert found == {"a": ["a"], "codex:b": ["b"], "pi:a": [], "c": []}

    @pytest.mark.parametrize("near", [10_000, 2], ids=["all are new", "most are old"])
    @pytest.mark.parametrize(
        ("wanted", "bodies"),
        [
            ({}, [b"5", b"6"]),
            ({"harness": "codex"}, [b"3", b"6"]),
            ({"harness": "pi"}, [b"4", b"5"]),
            ({"harness": "codex", "session": "a"}, [b"2", b"3"]),
            ({"harness": "pi", "session": "a"}, []),
        ],
    )
    def test_the_newest_of_all_of_a_harness_or_of_a_session(
        self,
        outbox: Outbox,
        monkeypatch: pytest.MonkeyPatch,
        near: int,
        wanted: dict[str, str],
        bodies: list[bytes],
    ) -> None:
        monkeypatch.setattr("sessionpipe.outbox._FEW", near)
        record(outbox, "a", b"1", b"2", b"3")
        record(outbox, "p", b"4", b"5", harness="pi")
        record(outbox, "b", b"6")
        assert [row.body for row in outbox.recent(2, **wanted)] == bodies

    @pytest.mark.parametrize("change", ["UPDATE events SET body = ''", "DELETE FROM events"])
    def test_nothing_but_this_module_changes_a_row(self, outbox: Outbox, path: Path, change: str) -> None:
        record(outbox, "a", b"1")
        other = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError, match="only ever inserted"):
            other.execute(change)
        other.close()

    def test_a_position_is_never_used_twice(self, outbox: Outbox) -> None:
        record(outbox, "a", b"1", b"2")
        assert outbox.prune(before_ms=6, up_to=2) == (2, 2)
        record(outbox, "a", b"3")
        assert [row.position for row in outbox.read(0, 9)] == [3]

    def test_a_transaction_that_fails_leaves_nothing(self, outbox: Outbox) -> None:
        with pytest.raises(RuntimeError), outbox.transaction() as tx:
            tx.append(tx.session("codex", "a", 1), "turn.started", 1, 1, b"1")
            tx.mark_done(["j"])
            raise RuntimeError
        assert (outbox.count(), outbox.marks()) == ((0, 0), [])

    def test_a_lone_surrogate_becomes_a_replacement_character(self) -> None:
        assert msgspec.json.decode(encode({"\udc80": ["a\ud800?"]})) == {"�": ["a�?"]}


class TestJobs:
    def test_a_done_mark_commits_with_its_events(self, outbox: Outbox) -> None:
        record(outbox, "a", b"1", job="j1")
        assert outbox.done(["j1", "j2"]) == {"j1"}
        outbox.prune_marks(["j1"])
        assert outbox.marks() == []

    def test_asking_for_many_at_once(self, outbox: Outbox) -> None:
        assert outbox.done(str(number) for number in range(2_000)) == set()

    def test_a_commit_that_returned_survives_a_kill(self, path: Path) -> None:
        script = (
            "import os, signal, sys\nfrom pathlib import Path\nfrom sessionpipe.outbox import Outbox\n"
            "outbox = Outbox.open(Path(sys.argv[1]))\n"
            "with outbox.transaction() as tx:\n"
            "    row = tx.session('codex', 'a', 1); tx.append(row, 'turn.started', 1, 1, b'1'); tx.save(row)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=False)
        outbox = Outbox.open(path)
        assert outbox.count() == (1, 1)
        outbox.close()


class TestSinks:
    def test_a_sink_is_added_once(self, outbox: Outbox) -> None:
        outbox.add_sink("a", 4)
        assert outbox.add_sink("a", 9).position == 4

    def test_its_whole_state_is_one_commit(self, outbox: Outbox) -> None:
        sink = outbox.add_sink("a", 0)
        put(outbox, msgspec.structs.replace(sink, position=3, thinning={"k": 1}, failures=2))
        assert outbox.sinks() == [msgspec.structs.replace(sink, position=3, thinning={"k": 1}, failures=2)]

    def test_a_change_sees_what_another_process_wrote(self, outbox: Outbox, path: Path) -> None:
        outbox.add_sink("a", 0)
        other = Outbox.open(path)
        other.change_sink("a", lambda sink: msgspec.structs.replace(sink, paused="no"))
        other.close()
        changed = outbox.change_sink("a", lambda sink: msgspec.structs.replace(sink, position=2))
        assert changed is not None
        assert (changed.paused, changed.position) == ("no", 2)

    def test_every_commit_waits_for_the_disk(self, outbox: Outbox) -> None:
        outbox.add_sink("a", 0)
        outbox.change_sink("a", lambda sink: msgspec.structs.replace(sink, batch_end=7))
        assert outbox._db.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_one_that_is_placed_anew_begins_another_series_of_messages(self, outbox: Outbox) -> None:
        sink = msgspec.structs.replace(outbox.add_sink("a", 4), thinning={"k": 1}, batch_end=9, sent=3)
        again = sink.placed(0)
        assert again.series not in ("", sink.series)
        assert (again.position, again.thinning, again.batch_end, again.sent) == (0, {}, 0, 3)

    def test_a_removed_sink_stays_removed(self, outbox: Outbox) -> None:
        sink = outbox.add_sink("a", 0)
        outbox.remove_sink("a")
        put(outbox, sink)
        assert (outbox.sink("a"), outbox.change_sink("a", lambda s: s)) == (None, None)


class TestPendingReads:
    def test_the_newest_end_is_what_is_waited_for(self, outbox: Outbox) -> None:
        with outbox.transaction() as tx:
            row = tx.session("codex", "a", 1)
            tx.queue_read(row, {"said": "one"}, 10, 10)
            tx.queue_read(row, {"said": "two"}, 20, 20)
        (pending,) = outbox.pending_reads()
        assert (pending.want, pending.queued_ms) == ({"said": "two"}, 20)

    def test_a_sleeping_one_wakes_at_the_next_hook_and_at_the_next_start(self, outbox: Outbox) -> None:
        def due() -> int | None:
            return outbox.pending_reads()[0].due_ms

        with outbox.transaction() as tx:
            row = tx.session("codex", "a", 1)
            tx.queue_read(row, {}, 10, 10)
            tx.postpone_read(row, None)
        assert due() is None
        with outbox.transaction() as tx:
            tx.wake_read(row, 30)
        assert due() == 30
        with outbox.transaction() as tx:
            tx.postpone_read(row, None)
        outbox.wake_reads(40)
        assert due() == 40


class TestForgetting:
    def test_what_is_left_is_a_tombstone_and_the_event_that_tells(self, outbox: Outbox) -> None:
        record(outbox, "a", b"1", b"2")
        record(outbox, "b", b"3")
        assert outbox.forget("codex", "a", 99, 1, lambda seq: b"bye %d" % seq) == 2
        rows = [(row.session, row.seq, row.body) for row in outbox.read(0, 9)]
        assert rows == [("b", 0, b"3"), ("a", 2, b"bye 2")]
        with outbox.transaction() as tx:
            row = tx.session("codex", "a", 1)
        assert (row.next_seq, row.forgotten_ms, row.block, row.state) == (3, 99, {}, {})

    def test_an_unknown_session_is_none(self, outbox: Outbox) -> None:
        assert outbox.forget("codex", "a", 99, 1, lambda seq: b"") is None

    def test_its_bytes_are_gone_from_the_files(self, outbox: Outbox, path: Path) -> None:
        record(outbox, "a", *[b"remember-me " * 500] * 20)
        record(outbox, "b", b"keep-me")
        outbox.forget("codex", "a", 99, 1, lambda seq: b"bye")
        assert outbox.checkpoint()
        for file in path.parent.glob("outbox.db*"):
            assert b"remember-me" not in file.read_bytes()
        assert b"keep-me" in path.read_bytes()


class TestAmongMillions:
    """What is done at every hook, batch and look is found by an index, or begins at an end and is bounded."""

    def test_no_query_goes_through_a_table(self, outbox: Outbox) -> None:
        outbox.add_sink("board", 0)
        asked: list[str] = []
        outbox._db.set_trace_callback(asked.append)
        record(outbox, "a", b"1", b"2", job="j")
        with outbox.transaction() as tx:
            session = tx.session("codex", "a", 2)
            tx.queue_read(session, {}, 3, 3)
            tx.pending_read(session)
            tx.postpone_read(session, None)
            tx.wake_read(session, 4)
            tx.settle_read(session)
            tx.discard(session)
            tx.unmark(["j"])
        outbox.done(["j"])
        outbox.knows("codex", "a")
        outbox.read(0, 5)
        outbox.recent(5)
        outbox.recent(1, harness="codex", session="a")
        outbox.recent(9, harness="codex")
        outbox.position_of("codex", "a", 1)
        outbox.last_position()
        outbox.waiting_since(1)
        outbox.change_sink("board", lambda sink: sink)
        outbox.prune(before_ms=6, up_to=1)
        outbox.prune_oldest(["board"], 9)
        outbox.forget("codex", "a", 9, 1, lambda _seq: b"gone")
        outbox.erasures()
        outbox._db.set_trace_callback(None)
        queries = {query for query in asked if query.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))}
        through = [
            query
            for query in sorted(queries)
            for (*_, step) in outbox._db.execute(f"EXPLAIN QUERY PLAN {query}")
            if re.match("SCAN (events|sessions|jobs_done)", step)
        ]
        assert len(queries) > 25
        # In the order of their positions, from an end.
        assert [
            query for query in through if not re.search(r"ORDER BY position( DESC)? LIMIT \d+$", query)
        ] == []

    def test_what_the_wal_grew_by_while_somebody_read_is_given_back(self, outbox: Outbox, path: Path) -> None:
        record(outbox, "a", b"1")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as shell:
            shell.execute("BEGIN")
            shell.execute("SELECT * FROM events").fetchall()
            for _ in range(3):
                record(outbox, "a", *[b"x" * 1_000_000] * 6)
            assert wal_of(path).stat().st_size > _WAL_BYTES
        record(outbox, "a", b"1")
        record(outbox, "a", b"2")
        assert wal_of(path).stat().st_size == _WAL_BYTES


class TestOpening:
    def test_it_is_private_and_waits_for_the_disk(self, outbox: Outbox, path: Path) -> None:
        assert outbox._db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert outbox._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert outbox._db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)

    def test_one_from_a_newer_program_is_left_alone(self, path: Path) -> None:
        other = sqlite3.connect(path)
        other.execute("PRAGMA user_version = 99")
        other.close()
        with pytest.raises(OutboxError, match="newer"):
            Outbox.open(path)

    def test_what_is_no_database_says_so(self, path: Path) -> None:
        path.write_bytes(b"not a database at all, but long enough" * 200)
        with pytest.raises(Damaged, match="no whole database"):
            Outbox.open(path)

    def test_a_link_planted_in_its_place_is_not_followed(self, path: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_bytes(b"p")
        path.symlink_to(victim)
        with pytest.raises(OutboxError, match="is a link"):
            Outbox.open(path)
        assert victim.read_bytes() == b"p"


# A process that ends before, or right after, its transaction counts, as a kill or a full disk may have it. It is
# another process than the one that has the outbox open all the time, and so keeps the shared memory.
CUT_SHORT = """
import os, resource, signal, sys
from pathlib import Path
from sessionpipe.outbox import Outbox
from sessionpipe.outboxfile import shm_of

path, how = Path(sys.argv[1]), sys.argv[2]
outbox = Outbox.open(path)

def record(events):
    with outbox.transaction() as tx:
        session = tx.session("codex", "cut short", 1)
        for _ in range(events):
            tx.append(session, "turn.started", 5, 1, b"x" * 5000)
        tx.save(session)

if how == "before its first frame":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        record(1)
    finally:
        os._exit(0)
record(1)
with shm_of(path).open("r+b") as file:
    counts = file.read(96)  # how many frames of the WAL, said twice
    record(9)
    file.seek(0)
    file.write(counts)
    file.flush()
    os._exit(0)
"""
OPEN = "import sys; from pathlib import Path; from sessionpipe.outbox import Outbox; Outbox.open(Path(sys.argv[1]))"


class TestCutShort:
    """Frames that look committed, and were not."""

    def elsewhere(self, code: str, *words: object) -> None:
        subprocess.run([sys.executable, "-c", code, *map(str, words)], check=True)

    def test_before_the_wal_was_begun_anew(self, outbox: Outbox, path: Path) -> None:
        record(outbox, "s", b"{}")
        _, frames, copied = outbox._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert frames == copied > 0
        self.elsewhere(CUT_SHORT, path, "before its first frame")
        assert outbox._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1] == 0
        self.elsewhere(OPEN, path)
        assert outbox.count() == (1, 1)

    def test_behind_the_frames_of_a_transaction(self, outbox: Outbox, path: Path) -> None:
        record(outbox, "s", b"{}")
        before = wal_of(path).stat().st_size
        self.elsewhere(CUT_SHORT, path, "behind its last frame")
        assert wal_of(path).stat().st_size > before
        self.elsewhere(OPEN, path)
        # A shorter one over it, and what is left of the longer one behind that.
        record(outbox, "s", b"{}")
        self.elsewhere(OPEN, path)
        assert outbox.count() == (3, 2)


def test_one_that_is_only_locked_is_not_to_be_moved_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Outbox.open(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    connect = sqlite3.connect
    monkeypatch.setattr(
        "sessionpipe.outbox.sqlite3.connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0})
    )
    with pytest.raises(OutboxError, match=r"just now .*locked"):
        Outbox.open(path)
    other.close()
    Outbox.open(path).close()
