"""The outbox: one SQLite database that holds events and everything that must change with them.

Events are rows that are only ever inserted; a trigger refuses any other change except through
:meth:`Outbox.rewrite`, :meth:`Outbox.forget` and :meth:`Outbox.prune`. ``position`` is the global
order and is never used twice; ``seq`` counts per (harness, session) from 0 (protocol §3). Bodies are always the tier-3
form, already redacted; each row says by which version of ``secrets@1``.

Durability: WAL with ``synchronous=FULL``, so a commit that returned survives a power cut. One
connection per thread; inside a process writers queue on a lock rather than on SQLite's polling.
Nothing here keeps a read transaction open.

Damage: a file that is no whole outbox is told as :class:`Damaged`, by whoever meets it;
:mod:`sessionpipe.salvage` then puts a new one in its place. So that nothing is committed to a file
that has lost its name, every transaction holds the :class:`Guard` shared and looks whether it still
writes to ``outbox.db``. Positions and ``seq`` go on in the new one where they stood, or further on:
``seq_floor`` is a number that no session that is not in it can have reached.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

from sessionpipe import faults
from sessionpipe.outboxfile import (
    PATIENCE_S,
    RESERVE,
    Damaged,
    Guard,
    OutboxError,
    aside_name,
    companions,
    damage,
    full,
    give_name,
    has_wal,
    ready,
    refuse_others,
    refuse_stump,
    release,
    reserve,
    shm_of,
    sync,
    those_set_aside,
    wal_of,
)
from sessionpipe.outboxgaps import Gap, events_behind, gaps_of, joined, within
from sessionpipe.outboxrows import (
    PendingRead,
    Row,
    Session,
    SessionRow,
    SinkState,
    encode,
    object_of,
    sink_of,
)
from sessionpipe.pages import PAGE, Wal, copied, counted
from sessionpipe.places import identity

__all__ = [
    "SCHEMA_VERSION",
    "Damaged",
    "Outbox",
    "OutboxError",
    "PendingRead",
    "Row",
    "Session",
    "SessionRow",
    "SinkState",
    "Transaction",
    "encode",
]

SCHEMA_VERSION = 2

# One statement a line group; a migration is one more entry at the end, never a changed one.
_MIGRATIONS = [
    """
    CREATE TABLE sessions (
        sid INTEGER PRIMARY KEY,
        harness TEXT NOT NULL,
        id TEXT NOT NULL,
        next_seq INTEGER NOT NULL,
        first_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        last_type TEXT NOT NULL,
        block BLOB NOT NULL,        -- the session block of protocol §3, without id and seq
        state BLOB NOT NULL,        -- what fold remembers
        transcript BLOB NOT NULL,   -- the cursor into the harness's transcript, and the turns sent
        forgotten_ms INTEGER,       -- the tombstone: jobs before it are dropped
        UNIQUE (harness, id)
    );
    CREATE TABLE events (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        sid INTEGER NOT NULL REFERENCES sessions (sid),
        seq INTEGER NOT NULL,
        type TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        ruleset INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (sid, seq)
    );
    CREATE TABLE jobs_done (name TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE pending_reads (
        sid INTEGER PRIMARY KEY REFERENCES sessions (sid),
        want BLOB NOT NULL,
        queued_ms INTEGER NOT NULL,
        due_ms INTEGER              -- NULL: asleep until the session's next hook or the worker's next start
    );
    CREATE TABLE sinks (
        name TEXT PRIMARY KEY,
        position INTEGER NOT NULL,
        state BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE guard (open INTEGER NOT NULL);
    INSERT INTO guard VALUES (0);
    CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
        WHEN (SELECT open FROM guard) = 0
        BEGIN SELECT RAISE(ABORT, 'events are only ever inserted'); END;
    CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
        WHEN (SELECT open FROM guard) = 0
        BEGIN SELECT RAISE(ABORT, 'events are only ever inserted'); END;
    """,
    """
    -- seq_floor: where a session begins that is not here yet; pruned_ms and checked_ms: when that was
    -- last done; erasures: how often something was forgotten; salvaged: what became of a damaged outbox
    -- before this one, as JSON; gaps: positions whose events were deleted, as JSON.
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES ('seq_floor', 0);
    """,
]

# Writers of one process take turns here: SQLite's own busy handler sleeps up to 100 ms between tries.
_WRITER = threading.RLock()

#: How much one small transaction deletes at most: what it writes to the WAL fits the reserve twice.
_SLICE_ROWS, _SLICE_BYTES = 500, 512 << 10
#: Of which sessions there is something to show.
_SHOWN = "last_type NOT IN ('', 'session.forgotten')"
#: So many gaps among the events are noted at most: 40 KB, which fit the room that is kept free.
_GAPS = 2000
#: What the WAL takes at most once nobody reads an old state: it is copied at 4 MB, and a batch goes into it whole.
_WAL_BYTES = 16 << 20
#: So many events are counted one by one sooner than all by their index.
_FEW = 10_000


_open_here: WeakSet[Outbox] = WeakSet()
_opening = threading.Lock()


def _opened(outbox: Outbox) -> Outbox:
    with _opening:
        _open_here.add(outbox)
    return outbox


def _is_open_here(path: Path) -> bool:
    """Whether this process has a connection to the outbox at ``path``."""
    with _opening:
        return any(one.path == path for one in _open_here)


class Outbox:
    """One connection to the outbox, for one thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path, guard: Guard | None = None) -> None:
        self._db = connection
        self.path = path
        self._guard = guard
        #: Which file is open.
        self.file = identity(path)

    @classmethod
    def open(cls, path: Path) -> Outbox:
        """Open the outbox at ``path``, creating or migrating it; the folder must exist.

        The first connection of a process looks whether the WAL is whole. Raises :class:`Damaged` when it is no
        whole outbox, and :class:`OutboxError` when it is newer than this program, when something other than a
        file has its name, and when it cannot be opened just now.
        """
        refuse_others(path)
        # Looking opens the shared memory, and closing that would take another connection's locks away.
        examine = not _is_open_here(path)
        try:
            guard = Guard(path.parent)
        except OSError as error:
            raise OutboxError(f"{path.parent} cannot be opened ({error.strerror})") from error
        try:
            return cls._open(path, guard, examine=examine)
        except OutboxError as error:
            # On a full disk not even its shared memory can be made. What is kept free is large enough
            # for that, and for some of it to be kept again.
            if isinstance(error, Damaged) or not full(error.__cause__ or error, path) or not release(path):
                guard.close()
                raise
        except BaseException:
            guard.close()
            raise
        try:
            outbox = cls._open(path, guard, examine=examine)
        except BaseException:
            guard.close()
            raise
        with suppress(OSError):
            reserve(path, RESERVE // 2)
        return outbox

    @classmethod
    def _open(cls, path: Path, guard: Guard, *, examine: bool) -> Outbox:
        try:
            if os.path.lexists(path) and not (examine and has_wal(path)):
                with guard.shared():
                    if os.path.lexists(path):
                        return cls._connected(path, guard)
            with guard.alone():
                if not os.path.lexists(path):
                    _place_or_make(path)
                try:
                    return cls._connected(path, guard, examine=has_wal(path))
                except Damaged:
                    # Whoever closes the last connection asks nobody, and takes the WAL away.
                    if not copied(path, wal_of(path)):
                        raise
                    return cls._connected(path, guard)
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise OutboxError(f"the outbox {path} cannot be made just now ({why or error})") from error

    @classmethod
    def _connected(cls, path: Path, guard: Guard, *, examine: bool = False) -> Outbox:
        refuse_stump(path)
        wal = keeper = connection = None
        try:
            if examine:
                wal = Wal(wal_of(path))
                count = counted(wal, shm_of(path))
                # The last connection to be closed empties the WAL, of which more can be salvaged than
                # SQLite reads; one that only reads leaves it.
                keeper = _reading(path, "mode=ro")
            # autocommit: transactions are begun and ended where this module says so.
            connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
            outbox = cls(connection, path, guard)
            outbox._prepare()
            if wal is not None:
                outbox._compare(wal, wal.last_commit if count is None else count)
        except BaseException as error:
            for one in (connection, keeper):
                if one is not None:
                    one.close()
            if why := damage(error):
                raise Damaged(path, why) from error
            if isinstance(error, sqlite3.Error):
                # Locked by somebody, a full disk, a folder that is gone: nothing is wrong with the file.
                raise OutboxError(f"the outbox {path} cannot be opened just now ({error})") from error
            raise
        if keeper is not None:
            keeper.close()
        return _opened(outbox)

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        # What forget deletes must be gone from the file's bytes, and so must what an update of a
        # session's row or a pruned event leaves behind. Salvage relies on it too: what is deleted
        # cannot come back.
        self._db.execute("PRAGMA secure_delete=ON")
        # While somebody's shell reads the outbox nothing of the WAL can be written over. What it grew by
        # then is given back, or it would stay as long as this worker does.
        self._db.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")
        self._migrate()

    def _compare(self, wal: Wal, count: int) -> None:
        """Whether SQLite took the ``count`` frames of the WAL that everybody was told of.

        What it cannot read it takes for a crash's torn end, and begins there anew: events would be gone
        without a word, and the numbers they had given again to others. A torn end has no commit in it.
        """
        busy, taken, _ = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if wal.damaged or (not busy and taken < count):
            raise Damaged(self.path, "its write-ahead log is not whole")

    @classmethod
    def look(cls, path: Path, *, follow: bool = False) -> Outbox | None:
        """Open the outbox at ``path`` for reading only, creating nothing; None when there is none yet.

        With ``follow`` it keeps seeing what is written later. Raises :class:`OutboxError` when it is
        newer than this program or no file, :class:`sqlite3.DatabaseError` when it cannot be read.
        """
        refuse_others(path)
        if not os.path.lexists(path):
            if not os.path.lexists(ready(path)):
                return None
            path = ready(path)  # A salvage that was cut off between two names.
        refuse_stump(path)
        # A reader of a database in WAL mode creates the -wal and -shm files and leaves them behind.
        # Where there is no -wal nobody has the database open, and it can be read as standing still.
        still = not follow and not wal_of(path).exists()
        how = "immutable=1" if still else "mode=ro"
        connection = _reading(path, how)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            connection.close()
            raise OutboxError(_newer(path, version))
        return _opened(cls(connection, path))

    def close(self) -> None:
        """Close the connection; the database stays consistent without it too."""
        self._db.close()
        with _opening:
            _open_here.discard(self)
        if self._guard is not None:
            self._guard.close()

    def still_there(self) -> bool:
        """Whether what is open is still what others would open."""
        return self.file == identity(self.path)

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA_VERSION:
            return
        if version > SCHEMA_VERSION:
            raise OutboxError(_newer(self.path, version))
        with self._begun():
            # Read again inside the transaction: another process may have migrated meanwhile.
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            for script in _MIGRATIONS[version:]:
                for statement in _statements(script):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Each waits for the disk, however little it holds: after a power cut, one that was lost before one that was
        # not would look as if the file were damaged.
        with _WRITER, self._shared(), self._begun():
            yield

    @contextmanager
    def _shared(self) -> Iterator[None]:
        """Whatever is written here is written to the file that has the outbox's name."""
        if self._guard is None:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        with self._guard.shared():
            if not self.still_there():
                raise OutboxError(f"the outbox {self.path} was moved or set aside meanwhile; try again")
            yield

    @contextmanager
    def _begun(self) -> Iterator[None]:
        # IMMEDIATE: the write lock is taken before anything is read, so that what is read cannot
        # change before it is written back.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            faults.point("outbox.commit")
            self._db.execute("COMMIT")
            faults.point("outbox.committed")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """A transaction that may change and delete events."""
        with self._transaction():
            self._db.execute("UPDATE guard SET open = 1")
            yield
            self._db.execute("UPDATE guard SET open = 0")

    # --- events -------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One synced commit over events, sessions, done-marks and pending reads, or none of them."""
        with self._transaction():
            yield Transaction(self._db)

    def read(self, after: int, limit: int, max_bytes: int = 8 << 20) -> list[Row]:
        """At most ``limit`` rows behind position ``after``, in order, of about ``max_bytes`` in all."""
        rows: list[Row] = []
        size = 0
        cursor = self._db.execute(
            f"{_EVENTS} WHERE position > ? ORDER BY position LIMIT ?",
            (after, limit),
        )
        try:
            for row in cursor:
                rows.append(Row._make(row))
                size += len(rows[-1].body)
                if size >= max_bytes:
                    break
        finally:
            # An unfinished SELECT is an open read transaction, and would keep the WAL from shrinking.
            cursor.close()
        return rows

    def recent(self, limit: int, *, harness: str | None = None, session: str | None = None) -> list[Row]:
        """The newest ``limit`` rows, oldest first: of all, of one harness, or of its ``session``.

        By an index each, so that it is as fast among millions.
        """
        if harness is None:
            rows = self._events("ORDER BY position DESC LIMIT ?", limit)
        elif session is not None:
            one = "(SELECT sid FROM sessions WHERE harness = ? AND id = ?)"
            # A session's numbers follow its positions, and are in its index.
            rows = self._events(f"WHERE sid = {one} ORDER BY seq DESC LIMIT ?", harness, session, limit)
        else:
            # Of a harness in use they are among the newest of all; of another there are few. The plus keeps
            # SQLite from sorting all that the harness ever did.
            near = "WHERE position > ? AND +sessions.harness = ? ORDER BY position DESC LIMIT ?"
            rows = self._events(near, self.last_position() - _FEW, harness, limit)
            if len(rows) < limit:
                its = "sid IN (SELECT sid FROM sessions WHERE harness = ?)"
                newest = f"SELECT position FROM events WHERE {its} ORDER BY position DESC LIMIT ?"  # noqa: S608
                rows = self._events(f"WHERE position IN ({newest}) ORDER BY position DESC", harness, limit)
        return rows[::-1]

    def _events(self, rest: str, *values: Any) -> list[Row]:
        return [Row._make(row) for row in self._db.execute(f"{_EVENTS} {rest}", values).fetchall()]

    def position_of(self, harness: str, session: str, seq: int) -> int | None:
        """Where the event with this key is, if it is."""
        row = self._db.execute(
            "SELECT position FROM events JOIN sessions USING (sid)"
            " WHERE sessions.harness = ? AND sessions.id = ? AND seq = ?",
            (harness, session, seq),
        ).fetchone()
        return None if row is None else int(row[0])

    def last_position(self) -> int:
        """The position of the newest event ever inserted; 0 before the first."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return 0 if row is None else int(row[0])

    def before(self, time_ms: int) -> int:
        """The position behind which every event is that is of ``time_ms`` or later.

        Of one a little out of order what stands between comes too.
        """
        (first,) = self._db.execute(
            "SELECT MIN(position) FROM events WHERE time_ms >= ?", (time_ms,)
        ).fetchone()
        return self.last_position() if first is None else int(first) - 1

    def behind(self, position: int) -> int:
        """How many events are behind ``position``; see :meth:`all_behind`."""
        return self.all_behind([position])[0]

    def all_behind(self, positions: Sequence[int], events: int | None = None) -> list[int]:
        """How many events are behind each of ``positions``; ``events`` is :meth:`count`'s, where that was asked.

        They follow one upon the other but where it is noted that some were deleted, and are counted by their
        numbers: at a million within some 10 ms. Where the note lacks some (an earlier version deleted them)
        it takes some 50 ms more, and 30 for each further sink in their midst.
        """
        last = self.last_position()
        (first,) = self._db.execute("SELECT MIN(position) FROM events").fetchone()
        if first is None or all(position >= last for position in positions):
            return [0] * len(positions)
        first = int(first)
        if events is None:
            events = self._number("SELECT COUNT(*) FROM events")
        gaps = self._gaps() if events != last - first + 1 else []
        if events + within(gaps, first, last) == last - first + 1:
            return [events_behind(max(position, first - 1), last, gaps) for position in positions]
        near = {position for position in positions if position >= last - _FEW}
        far = sorted({position for position in positions if first <= position < last - _FEW})
        counted = {one: self._number("SELECT COUNT(*) FROM events WHERE position > ?", one) for one in near}
        # The plus keeps SQLite off the table: the positions stand in the index too, without the bodies.
        if len(far) == 1:
            counted[far[0]] = self._number("SELECT COUNT(*) FROM events WHERE +position > ?", *far)
        elif far:
            sums = ", ".join(["SUM(+position > ?)"] * len(far))
            row = self._db.execute(f"SELECT {sums} FROM events", far).fetchone()  # noqa: S608
            counted |= zip(far, row, strict=True)
        return [counted.get(position, events) for position in positions]

    def _number(self, query: str, *values: Any) -> int:
        (number,) = self._db.execute(query, values).fetchone()
        return int(number)

    def waiting_since(self, position: int) -> int | None:
        """When the first event behind ``position`` happened, in epoch ms; None when there is none."""
        row = self._db.execute(
            "SELECT time_ms FROM events WHERE position > ? ORDER BY position LIMIT 1", (position,)
        ).fetchone()
        return None if row is None else int(row[0])

    def behind_of(self, position: int, types: Sequence[str]) -> int:
        """How many events of these ``types`` are behind ``position``; some 0.4 s where a million are.

        Every row is looked at: telling the types apart would be as much again.
        """
        marks = ", ".join("?" * len(types))
        return self._number(
            f"SELECT COUNT(*) FROM events WHERE position > ? AND type IN ({marks})",  # noqa: S608
            position,
            *types,
        )

    def count(self) -> tuple[int, int]:
        """How many events and how many sessions are stored."""
        return (
            self._number("SELECT COUNT(*) FROM events"),
            self._number("SELECT COUNT(*) FROM sessions WHERE last_type != ''"),
        )

    def knows(self, harness: str, session_id: str) -> bool:
        """Whether anything was ever recorded of a session, be it that it was forgotten."""
        query = "SELECT COUNT(*) FROM sessions WHERE harness = ? AND id = ? AND last_type != ''"
        return bool(self._number(query, harness, session_id))

    def sessions(self) -> list[SessionRow]:
        """The sessions with something to show, the most recently active first."""
        return self._sessions("")

    def newest_sessions(self, at_least: int, since_ms: int) -> tuple[list[SessionRow], int]:
        """Of :meth:`sessions` the newest: ``at_least`` so many, and whoever was active at ``since_ms`` or later.

        Also how many there are in all.
        """
        # One look at each: whatever asks for their times once more goes through all that stands beside them again.
        ranked = self._db.execute(f"SELECT last_ms, sid FROM sessions WHERE {_SHOWN}").fetchall()  # noqa: S608
        if not ranked:
            return [], 0
        ranked.sort(reverse=True)
        least = min(since_ms, ranked[:at_least][-1][0])
        first = min(sid for last_ms, sid in ranked if last_ms >= least)
        return self._sessions("AND sid >= ? AND last_ms >= ?", first, least), len(ranked)

    def sessions_named(self, name: str) -> list[SessionRow]:
        """The sessions whose id, or ``harness:id``, is ``name``; see :meth:`sessions`."""
        # Within: names are looked through in their index, without all that stands beside them.
        its = "SELECT sid FROM sessions WHERE id = ? OR harness || ':' || id = ?"
        return self._sessions(f"AND sid IN ({its})", name, name)

    def _sessions(self, rest: str, *values: Any) -> list[SessionRow]:
        rows = self._db.execute(
            "SELECT harness, id, next_seq, first_ms, last_ms, last_type, block, state FROM sessions"  # noqa: S608
            f" WHERE {_SHOWN} {rest} ORDER BY sid DESC",
            values,
        ).fetchall()
        # Sorted here: SQLite would sort the rows with all that stands in them.
        rows.sort(key=itemgetter(4), reverse=True)
        return [SessionRow._make(row) for row in rows]

    # --- sinks --------------------------------------------------------------------------------

    def sink(self, name: str) -> SinkState | None:
        """What is remembered about one sink."""
        row = self._db.execute("SELECT name, position, state FROM sinks WHERE name = ?", (name,)).fetchone()
        return None if row is None else sink_of(*row)

    def sinks(self) -> list[SinkState]:
        """What is remembered about every sink."""
        rows = self._db.execute("SELECT name, position, state FROM sinks ORDER BY name").fetchall()
        return [sink_of(*row) for row in rows]

    def add_sink(self, name: str, position: int) -> SinkState:
        """Remember a new sink that is past ``position``; a known one stays as it is."""
        fresh = SinkState(name=name).placed(position)
        with self._transaction():
            self._db.execute(
                "INSERT INTO sinks (name, position, state) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                (name, position, encode(fresh)),
            )
            return self.sink(name) or fresh

    def _put(self, sink: SinkState) -> None:
        self._db.execute(
            "UPDATE sinks SET position = ?, state = ? WHERE name = ?",
            (sink.position, encode(sink), sink.name),
        )

    def change_sink(self, name: str, change: Callable[[SinkState], SinkState | None]) -> SinkState | None:
        """Load a sink's row, change it and write it back in one commit; what it then is.

        Other processes pause, resume and replay a sink while a courier's request is under way: a
        row written from what was loaded before would undo them. None from ``change`` leaves the row
        alone; an unknown sink is None.
        """
        with self._transaction():
            sink = self.sink(name)
            changed = None if sink is None else change(sink)
            if changed is not None:
                self._put(changed)
            return changed or sink

    def remove_sink(self, name: str) -> None:
        """Forget a sink's cursor and state."""
        with self._transaction():
            self._db.execute("DELETE FROM sinks WHERE name = ?", (name,))

    # --- jobs and transcripts -----------------------------------------------------------------

    def done(self, names: Iterable[str]) -> set[str]:
        """Which of these jobs are already in the outbox."""
        wanted = list(names)
        found: set[str] = set()
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            marks = ",".join("?" * len(part))
            rows = self._db.execute(f"SELECT name FROM jobs_done WHERE name IN ({marks})", part)  # noqa: S608
            found.update(name for (name,) in rows.fetchall())
        return found

    def marks(self) -> list[str]:
        """Every done-mark that was not pruned yet."""
        return [name for (name,) in self._db.execute("SELECT name FROM jobs_done").fetchall()]

    def prune_marks(self, names: Iterable[str]) -> None:
        """Drop done-marks of jobs whose files are durably gone."""
        with self._transaction():
            Transaction(self._db).unmark(names)

    def pending_reads(self) -> list[PendingRead]:
        """Every transcript that is owed a read, the longest waiting first."""
        rows = self._db.execute(
            "SELECT harness, id, first_ms, transcript, want, queued_ms, due_ms"
            " FROM pending_reads JOIN sessions USING (sid) ORDER BY queued_ms"
        ).fetchall()
        return [PendingRead._make((*row[:3], object_of(row[3]), object_of(row[4]), *row[5:])) for row in rows]

    def wake_reads(self, due_ms: int) -> None:
        """A worker started: every read that sleeps is due again."""
        if not self._number("SELECT COUNT(*) FROM pending_reads WHERE due_ms IS NULL"):
            return  # As a rule; a commit waits for the disk.
        with self._transaction():
            self._db.execute("UPDATE pending_reads SET due_ms = ? WHERE due_ms IS NULL", (due_ms,))

    def owes_reads(self, queued_ms: int) -> bool:
        """Whether a transcript that was to be read by ``queued_ms`` is still being waited for."""
        return bool(
            self._number(
                "SELECT COUNT(*) FROM pending_reads WHERE due_ms IS NOT NULL AND queued_ms <= ?", queued_ms
            )
        )

    def drop_reads(self, before_ms: int) -> int:
        """Let go of reads that have been owed since before ``before_ms``; how many there were.

        Their file never came. Should it yet, the session's next turn takes all that is in it.
        """
        if not self._number("SELECT COUNT(*) FROM pending_reads WHERE queued_ms < ?", before_ms):
            return 0
        with self._transaction():
            return self._db.execute("DELETE FROM pending_reads WHERE queued_ms < ?", (before_ms,)).rowcount

    # --- erasing ------------------------------------------------------------------------------

    def rewrite(self, rows: Iterable[tuple[Row, int, bytes]]) -> int:
        """Give events other bodies, in one commit: same id, same seq, same position; how many there were.

        Each is a row as it was read, the stamp of the rules that redacted it now, and its body by them.
        One that was forgotten or rewritten meanwhile is passed over. The old bytes are gone from the
        files after :meth:`checkpoint`.
        """
        with self._opened():
            return sum(
                self._db.execute(
                    "UPDATE events SET ruleset = ?, body = ? WHERE position = ? AND ruleset = ? AND body = ?",
                    (ruleset, body, row.position, row.ruleset, row.body),
                ).rowcount
                for row, ruleset, body in rows
            )

    def forget(self, harness: str, session_id: str, now_ms: int, ruleset: int, body: Any) -> int | None:
        """Erase a session and leave its tombstone; ``body(seq)`` is its ``session.forgotten`` event.

        One transaction: the session's events, facts, transcript cursor and pending reads go, the
        tombstone keeps (harness, id, next seq, when), and the event that tells every sink takes the
        next seq. Returns that seq, or None when the session is unknown. The bytes are gone from the
        files after :meth:`checkpoint`.

        On a full disk the room that was kept free is used, and the events go in small transactions
        before the last one: cut off there, the session is still one that can be forgotten.
        """
        try:
            return self._forget(harness, session_id, now_ms, ruleset, body)
        except sqlite3.OperationalError as error:
            if not (full(error, self.path) and release(self.path)):
                raise
        while self._erase_some(harness, session_id):
            faults.point("forget.erased_some")
            self.checkpoint()
        return self._forget(harness, session_id, now_ms, ruleset, body)

    def _forget(self, harness: str, session_id: str, now_ms: int, ruleset: int, body: Any) -> int | None:
        with self._opened():
            row = self._db.execute(
                "SELECT sid, next_seq FROM sessions WHERE harness = ? AND id = ?", (harness, session_id)
            ).fetchone()
            if row is None:
                return None
            sid, seq = int(row[0]), int(row[1])
            rows = self._db.execute("SELECT position FROM events WHERE sid = ?", (sid,)).fetchall()
            self._db.execute("DELETE FROM events WHERE sid = ?", (sid,))
            self._note_gaps([position for (position,) in rows])
            self._db.execute("DELETE FROM pending_reads WHERE sid = ?", (sid,))
            self._db.execute(
                "UPDATE sessions SET next_seq = ?, first_ms = ?, last_ms = ?, last_type = 'session.forgotten',"
                " block = '{}', state = '{}', transcript = '{}', forgotten_ms = ? WHERE sid = ?",
                (seq + 1, now_ms, now_ms, now_ms, sid),
            )
            self._db.execute(
                "INSERT INTO events (sid, seq, type, time_ms, ruleset, body) VALUES (?, ?, ?, ?, ?, ?)",
                (sid, seq, "session.forgotten", now_ms, ruleset, body(seq)),
            )
            self._db.execute(
                "INSERT INTO meta VALUES ('erasures', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1"
            )
            faults.point("forget.erased")
            return seq

    def erasures(self) -> int:
        """How often something was forgotten: what was read before another number may not be sent."""
        return int(self.note("erasures") or 0)

    def _erase_some(self, harness: str, session_id: str) -> int:
        with self._opened():
            rows = self._db.execute(
                "SELECT position, LENGTH(body) FROM events JOIN sessions USING (sid)"
                " WHERE harness = ? AND id = ? ORDER BY position LIMIT ?",
                (harness, session_id, _SLICE_ROWS),
            )
            return self._delete(_slice(rows.fetchall()))

    def _delete(self, positions: list[int]) -> int:
        self._db.executemany("DELETE FROM events WHERE position = ?", [(one,) for one in positions])
        self._note_gaps(positions)
        return len(positions)

    def _note_gaps(self, positions: Collection[int]) -> None:
        """Note in the transaction that deleted them that nothing stands at ``positions``, nor ever will.

        The note may lack some, and is then of no use; it never has one too many. What is before the first
        event needs none, so it stays small where only the oldest go.
        """
        before = self._gaps()
        (first,) = self._db.execute("SELECT MIN(position) FROM events").fetchone()
        now = [gap for gap in joined(before, positions) if first is not None and gap[1] > first][-_GAPS:]
        if now != before:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('gaps', ?)", (encode(now).decode(),))

    def _gaps(self) -> list[Gap]:
        return gaps_of(self.note("gaps"))

    def checkpoint(self) -> bool:
        """Move the WAL into the database and truncate it; whether that was possible just now."""
        with self._shared():
            (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    # --- keeping within bounds ----------------------------------------------------------------

    def prune(self, before_ms: int, up_to: int, after: int = 0) -> tuple[int, int]:
        """Delete events older than ``before_ms`` among the next few behind ``after``, up to ``up_to``.

        A small transaction, or none when nothing is that old. Returns how many went, and the position
        to go on behind: ``up_to`` at the end.
        """
        rows = self._db.execute(
            "SELECT position, LENGTH(body), time_ms FROM events WHERE position > ? AND position <= ?"
            " ORDER BY position LIMIT ?",
            (after, up_to, _SLICE_ROWS),
        ).fetchall()
        if not rows:
            return 0, up_to
        seen = _slice([row[:2] for row in rows])
        old = [position for position, _, time_ms in rows[: len(seen)] if time_ms < before_ms]
        if old:
            with self._opened():
                self._delete(old)
                faults.point("prune.deleted")
        return len(old), seen[-1]

    def prune_oldest(self, sinks: Collection[str], now_ms: int) -> tuple[int, dict[str, int]]:
        """Delete some of the oldest events whoever needs them; how many, and by sink those it had not.

        A sink that is being sent some of them this moment may get them yet, and counts them as lost
        all the same: its cursor is its courier's to move.
        """
        lost: dict[str, int] = {}
        with self._opened():
            rows = self._db.execute(
                "SELECT position, LENGTH(body) FROM events ORDER BY position LIMIT ?", (_SLICE_ROWS,)
            )
            gone = _slice(rows.fetchall())
            for sink in self.sinks():
                count = sum(position > sink.position for position in gone)
                if sink.name in sinks and count:
                    lost[sink.name] = count
                    sink.lost, sink.lost_ms = sink.lost + count, now_ms
                    self._put(sink)
            self._delete(gone)
            faults.point("prune.bounded")
        return len(gone), lost

    def occupied(self) -> int:
        """How many bytes of the database something stands in."""
        return (self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")) * PAGE

    def returnable(self) -> int:
        """How many bytes nothing stands in that :meth:`shrink` can give back to the disk."""
        if self._number("PRAGMA auto_vacuum") == 0:
            return 0  # Made by an earlier version: its empty pages are only written to again.
        return self._number("PRAGMA freelist_count") * PAGE

    def shrink(self, size: int = 256 << 10) -> bool:
        """Give up to ``size`` empty bytes back to the disk in one small transaction; whether any were."""
        before = self.returnable()
        with _WRITER, self._shared():
            # As a script: executed alone, Python's module takes the first page of it and stops.
            self._db.executescript(f"PRAGMA incremental_vacuum({size // PAGE})")
        return self.returnable() < before

    def check(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Look through the whole file for damage; seconds when it is large. Raises :class:`Damaged`.

        ``stop`` is asked now and then; False when it ended the look.
        """
        self._db.set_progress_handler(stop, 10_000)
        try:
            found = self._db.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.DatabaseError as error:
            if why := damage(error):
                raise Damaged(self.path, why) from error
            if stop():
                return False
            raise
        finally:
            self._db.set_progress_handler(None, 0)
        if found != [("ok",)]:
            raise Damaged(self.path, str(found[0][0]).replace("\n", " "))
        return True

    def note(self, key: str) -> Any:
        """What was remembered under ``key`` with :meth:`remember`; None when nothing was."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def remember(self, key: str, value: int | str) -> None:
        """Keep a number or a text about the outbox itself."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


class Transaction:
    """What intake, the transcript reader and ``ingest`` write, inside :meth:`Outbox.transaction`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def session(self, harness: str, session_id: str, now_ms: int) -> Session:
        """The session's row, made when there is none yet."""
        self._db.execute(
            "INSERT INTO sessions (harness, id, next_seq, first_ms, last_ms, last_type, block, state, transcript)"
            " VALUES (?, ?, (SELECT value FROM meta WHERE key = 'seq_floor'), ?, ?, '', '{}', '{}', '{}')"
            " ON CONFLICT (harness, id) DO NOTHING",
            (harness, session_id, now_ms, now_ms),
        )
        row = self._db.execute(
            "SELECT sid, harness, id, next_seq, first_ms, last_ms, last_type, block, state, transcript,"
            " forgotten_ms FROM sessions WHERE harness = ? AND id = ?",
            (harness, session_id),
        ).fetchone()
        sid, name, id_, seq, first, last, kind, block, state, transcript, forgotten = row
        return Session(
            sid,
            name,
            id_,
            seq,
            first,
            last,
            kind,
            object_of(block),
            object_of(state),
            object_of(transcript),
            forgotten,
        )

    def save(self, session: Session) -> None:
        """Write a session's counters, facts and state back."""
        self._db.execute(
            "UPDATE sessions SET next_seq = ?, last_ms = ?, last_type = ?, block = ?, state = ?, transcript = ?"
            " WHERE sid = ?",
            (
                session.next_seq,
                session.last_ms,
                session.last_type,
                encode(session.block),
                encode(session.state),
                encode(session.transcript),
                session.sid,
            ),
        )

    def first_heard(self, session: Session, at_ms: int) -> None:
        """A session that was known from files alone was heard of itself: what we were there for begins now."""
        self._db.execute("UPDATE sessions SET first_ms = ? WHERE sid = ?", (at_ms, session.sid))

    def append(self, session: Session, type_: str, time_ms: int, ruleset: int, body: bytes) -> None:
        """Insert an event with the session's next ``seq``, which its ``body`` must already carry."""
        self._db.execute(
            "INSERT INTO events (sid, seq, type, time_ms, ruleset, body) VALUES (?, ?, ?, ?, ?, ?)",
            (session.sid, session.next_seq, type_, time_ms, ruleset, body),
        )
        session.next_seq += 1
        session.last_type = type_
        session.last_ms = max(session.last_ms, time_ms)

    def discard(self, session: Session) -> None:
        """Take back a session's row that :meth:`session` made and nothing was written for."""
        self._db.execute(
            "DELETE FROM sessions WHERE sid = ? AND last_type = '' AND forgotten_ms IS NULL"
            " AND next_seq = (SELECT value FROM meta WHERE key = 'seq_floor')"
            " AND NOT EXISTS (SELECT 1 FROM events WHERE events.sid = sessions.sid)",
            (session.sid,),
        )

    def mark_done(self, names: Iterable[str]) -> None:
        """Mark jobs as recorded: their files may go once this has committed."""
        self._db.executemany(
            "INSERT INTO jobs_done (name) VALUES (?) ON CONFLICT (name) DO NOTHING",
            [(name,) for name in names],
        )

    def unmark(self, names: Iterable[str]) -> None:
        """Drop done-marks of jobs whose files are durably gone."""
        self._db.executemany("DELETE FROM jobs_done WHERE name = ?", [(name,) for name in names])

    def remember(self, key: str, value: int | str) -> None:
        """Keep a number or a text about the outbox itself."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def queue_read(self, session: Session, want: dict[str, Any], now_ms: int, due_ms: int) -> None:
        """Owe the session's transcript a read. A later turn's end takes the place of an earlier one."""
        self._db.execute(
            "INSERT INTO pending_reads (sid, want, queued_ms, due_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (sid) DO UPDATE SET want = excluded.want, queued_ms = excluded.queued_ms,"
            " due_ms = excluded.due_ms",
            (session.sid, encode(want), now_ms, due_ms),
        )

    def pending_read(self, session: Session) -> dict[str, Any] | None:
        """What the session's transcript is owed, if anything."""
        row = self._db.execute("SELECT want FROM pending_reads WHERE sid = ?", (session.sid,)).fetchone()
        return None if row is None else object_of(row[0])

    def postpone_read(self, session: Session, due_ms: int | None) -> None:
        """Try the session's transcript again at ``due_ms``; None: at its next hook or the next start."""
        self._db.execute("UPDATE pending_reads SET due_ms = ? WHERE sid = ?", (due_ms, session.sid))

    def wake_read(self, session: Session, due_ms: int) -> None:
        """A hook came: a read that sleeps is due again."""
        self._db.execute(
            "UPDATE pending_reads SET due_ms = ? WHERE sid = ? AND due_ms IS NULL", (due_ms, session.sid)
        )

    def settle_read(self, session: Session) -> None:
        """The transcript held what it was read for."""
        self._db.execute("DELETE FROM pending_reads WHERE sid = ?", (session.sid,))


class Restoration:
    """A new outbox that is filled with what was salvaged of another, at positions and ``seq`` it had there.

    Made at ``path``, which nobody else knows yet; nothing is synced before :meth:`finish`.
    """

    def __init__(self, path: Path, seq_floor: int) -> None:
        make(path, seq_floor)
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        # If this dies before it is finished it is begun anew, so nothing is waited for.
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("BEGIN IMMEDIATE")

    def session(self, session: Session) -> None:
        """Add a session under its ``sid``."""
        self._db.execute(
            "INSERT INTO sessions (sid, harness, id, next_seq, first_ms, last_ms, last_type, block, state,"
            " transcript, forgotten_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.sid,
                session.harness,
                session.id,
                session.next_seq,
                session.first_ms,
                session.last_ms,
                session.last_type,
                encode(session.block),
                encode(session.state),
                encode(session.transcript),
                session.forgotten_ms,
            ),
        )

    def event(self, sid: int, row: Row) -> bool:
        """Add an event of the session ``sid``; False when its position or its ``seq`` is taken already."""
        done = self._db.execute(
            "INSERT OR IGNORE INTO events (position, sid, seq, type, time_ms, ruleset, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.position, sid, row.seq, row.type, row.time_ms, row.ruleset, row.body),
        )
        return done.rowcount == 1

    def job(self, name: str) -> None:
        """Add a done-mark."""
        self._db.execute("INSERT OR IGNORE INTO jobs_done (name) VALUES (?)", (name,))

    def read(self, sid: int, want: dict[str, Any], queued_ms: int) -> None:
        """Add a read that is owed to the session ``sid``; it is due at the next start."""
        self._db.execute(
            "INSERT OR IGNORE INTO pending_reads (sid, want, queued_ms) VALUES (?, ?, ?)",
            (sid, encode(want), queued_ms),
        )

    def sink(self, name: str, position: int, state: bytes) -> None:
        """Add a sink where it stood."""
        self._db.execute(
            "INSERT OR IGNORE INTO sinks (name, position, state) VALUES (?, ?, ?)", (name, position, state)
        )

    def note(self, key: str, value: int | str) -> None:
        """Keep a number or a text about the outbox itself."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def finish(self, last_position: int) -> None:
        """Go on behind ``last_position``, and put everything on the disk."""
        self._db.execute("DELETE FROM sqlite_sequence")
        self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)", (last_position,))
        self._db.execute("COMMIT")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.close()
        sync(self._path)

    def close(self) -> None:
        """Let go of it, finished or not."""
        self._db.close()


_EVENTS = (
    "SELECT position, sessions.harness, sessions.id, seq, type, time_ms, ruleset, body"
    " FROM events JOIN sessions USING (sid)"
)


def make(path: Path, seq_floor: int) -> None:
    """Make an empty outbox at ``path``, whose sessions begin at ``seq_floor``; it is on the disk then."""
    for name in companions(path):
        name.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # Only before the first table: pages that deleted events leave can be given back to the disk.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        outbox = Outbox(connection, path)
        outbox._prepare()
        connection.execute("UPDATE meta SET value = ? WHERE key = 'seq_floor'", (seq_floor,))
    finally:
        connection.close()
    sync(path)


def _place_or_make(path: Path) -> None:
    """There is no outbox yet: put one in its place, whole from the moment it has its name."""
    now_ms = int(time.time() * 1000)
    if os.path.lexists(ready(path)):
        # A worker was killed between giving the damaged one its new name and the new one this one.
        named = those_set_aside(path)
        give_name(path, ready(path), named[-1] if named else aside_name(path, now_ms))
        return
    making = path.with_name(f"{path.name}.making")
    # Where there was one, nobody knows how far its sessions had come: they begin at the time in
    # milliseconds, which is further than any can have counted.
    was_one = has_wal(path) or bool(those_set_aside(path))
    make(making, now_ms if was_one else 0)
    give_name(path, making, aside_name(path, now_ms))
    with suppress(OSError):
        reserve(path)


def _reading(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None, timeout=5)
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _newer(path: Path, version: int) -> str:
    return f"the outbox {path} was written by a newer sessionpipe (schema {version}); upgrade this one"


def _slice(rows: list[tuple[int, int]]) -> list[int]:
    """Of rows as (position, bytes) the first positions that one small transaction may delete."""
    size = 0
    for number, (_, length) in enumerate(rows):
        size += length
        if number and size > _SLICE_BYTES:
            return [position for position, _ in rows[:number]]
    return [position for position, _ in rows]


def _statements(script: str) -> Iterator[str]:
    """The statements of a script: sqlite3's own splitter commits the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
