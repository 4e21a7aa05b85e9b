"""The outbox: one SQLite database that holds events and everything that must change with them.

Events are rows that are only ever inserted; a trigger refuses any other change except through
:meth:`Outbox.forget` and :meth:`Outbox.prune`. ``position`` is the global order and is never used
twice; ``seq`` counts per (harness, session) from 0 (protocol §3). Bodies are always the tier-3
form, already redacted; each row says by which version of ``secrets@1``.

Durability: WAL with ``synchronous=FULL``, so a commit that returned survives a power cut. One
connection per thread; inside a process writers queue on a lock rather than on SQLite's polling.
Nothing here keeps a read transaction open.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from sessionpipe import faults

SCHEMA_VERSION = 1

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
]

_LONE = re.compile("[\ud800-\udfff]")

# Writers of one process take turns here: SQLite's own busy handler sleeps up to 100 ms between tries.
_WRITER = threading.RLock()


class OutboxError(Exception):
    """The outbox cannot be used; the message says why and what to do."""


class Row(NamedTuple):
    """One event as it is stored."""

    position: int
    harness: str
    session: str
    seq: int
    type: str
    time_ms: int
    ruleset: int
    body: bytes


class SessionRow(NamedTuple):
    """One session as ``sessions`` and ``status`` see it. Times are epoch milliseconds."""

    harness: str
    id: str
    next_seq: int
    first_ms: int
    last_ms: int
    last_type: str
    block: dict[str, Any]
    state: dict[str, Any]


class SinkState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What delivery remembers about one sink, changed in one commit with its cursor.

    ``position`` is the last row the sink is past, ``last_id`` the last event it was given.
    ``paused`` is a pause the receiver caused, with its reason; the person's own pause is in the
    config. ``failures`` and ``next_attempt_ms`` are the backoff, ``since_ms`` is when it was paused
    or began to fail. ``batch_end`` is the last position of the batch being sent, so that a retry
    after a restart is the same message; ``series`` tells the messages of one run over the outbox
    from those of another. ``sent`` events the sink has; ``dropped`` were given up, ``withheld`` are
    of types its receiver does not take. ``discovery`` is what its well-known file said.
    """

    name: str
    position: int = 0
    last_id: str | None = None
    series: str = ""
    thinning: dict[str, Any] = {}
    paused: str | None = None
    max_tier: int | None = None
    failures: int = 0
    next_attempt_ms: int = 0
    since_ms: int = 0
    batch_end: int = 0
    sent: int = 0
    dropped: int = 0
    withheld: int = 0
    last_error: str | None = None
    discovery: dict[str, Any] = {}

    def placed(self, position: int) -> SinkState:
        """The row of a sink that starts anew behind ``position``, once more over what it may have had.

        Its messages are others than those before: a receiver that knows messages by their id must
        not take what the person asked for again for a retry.
        """
        return msgspec.structs.replace(
            self, position=position, series=os.urandom(8).hex(), thinning={}, batch_end=0
        )


class Session(msgspec.Struct):
    """A session inside a :class:`Transaction`: change it, then :meth:`Transaction.save` it."""

    sid: int
    harness: str
    id: str
    next_seq: int
    first_ms: int
    last_ms: int
    last_type: str
    block: dict[str, Any]
    state: dict[str, Any]
    transcript: dict[str, Any]
    forgotten_ms: int | None


class PendingRead(NamedTuple):
    """A transcript that is owed a read. ``due_ms`` is None while it sleeps."""

    harness: str
    session: str
    first_ms: int
    transcript: dict[str, Any]
    want: dict[str, Any]
    queued_ms: int
    due_ms: int | None


def encode(value: Any) -> bytes:
    """``value`` as JSON. A lone surrogate, which no UTF-8 can carry, becomes U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_scrub(value))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_scrub(key): _scrub(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_scrub(inner) for inner in value]
    return value


class Outbox:
    """One connection to the outbox, for one thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Outbox:
        """Open the outbox at ``path``, creating or migrating it; the folder must exist.

        Raises :class:`OutboxError` when it is newer than this program, a link, or no database.
        """
        if path.is_symlink():
            # Ours is never one: somebody planted it, and what is behind it would be written over.
            raise OutboxError(f"the outbox {path} is a link; move it away to start a new one")
        connection = None
        try:
            # autocommit: transactions are begun and ended where this module says so.
            connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            # What forget deletes must be gone from the file's bytes, and so must what an update
            # of a session's row or a pruned event leaves behind.
            connection.execute("PRAGMA secure_delete=ON")
            outbox = cls(connection, path)
            outbox._migrate()
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.OperationalError):
                # Locked by somebody, a full disk, a folder that is gone: nothing is wrong with the file.
                raise OutboxError(f"the outbox {path} cannot be opened just now ({error})") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise OutboxError(
                    f"the outbox {path} cannot be opened ({error}); move it away to start a new one"
                ) from error
            raise
        return outbox

    @classmethod
    def look(cls, path: Path, *, follow: bool = False) -> Outbox | None:
        """Open the outbox at ``path`` for reading only, creating nothing; None when there is none yet.

        With ``follow`` it keeps seeing what is written later. Raises :class:`OutboxError` when it is
        newer than this program, :class:`sqlite3.DatabaseError` when it cannot be read.
        """
        if not os.path.lexists(path):
            return None
        # A reader of a database in WAL mode creates the -wal and -shm files and leaves them behind.
        # Where there is no -wal nobody has the database open, and it can be read as standing still.
        still = not follow and not path.with_name(path.name + "-wal").exists()
        how = "immutable=1" if still else "mode=ro"
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None, timeout=5
        )
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise OutboxError(_newer(path, version))
        except BaseException:
            connection.close()
            raise
        if version == 0:
            connection.close()
            return None  # A worker is just making it.
        return cls(connection, path)

    def close(self) -> None:
        """Close the connection; the database stays consistent without it too."""
        self._db.close()

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA_VERSION:
            return
        if version > SCHEMA_VERSION:
            raise OutboxError(_newer(self.path, version))
        with self._transaction():
            # Read again inside the transaction: another process may have migrated meanwhile.
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            for script in _MIGRATIONS[version:]:
                for statement in _statements(script):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self, *, synced: bool = True) -> Iterator[None]:
        with _WRITER:
            # In a WAL, NORMAL commits without waiting for the disk: safe against kill -9, not a power cut.
            self._db.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
            # IMMEDIATE: the write lock is taken before anything is read, so that what is read
            # cannot change before it is written back.
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
        """The newest ``limit`` rows, oldest first, of one harness and one session where given."""
        where, values = [], []
        if harness is not None:
            where.append("sessions.harness = ?")
            values.append(harness)
        if session is not None:
            where.append("sessions.id = ?")
            values.append(session)
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        rows = self._db.execute(
            f"{_EVENTS} {clause} ORDER BY position DESC LIMIT ?",
            (*values, limit),
        ).fetchall()
        return [Row._make(row) for row in reversed(rows)]

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
        """How many events are behind ``position``."""
        (count,) = self._db.execute("SELECT COUNT(*) FROM events WHERE position > ?", (position,)).fetchone()
        return int(count)

    def tally(self, position: int) -> dict[str, int]:
        """How many events of each type are behind ``position``."""
        return dict(
            self._db.execute(
                "SELECT type, COUNT(*) FROM events WHERE position > ? GROUP BY type ORDER BY type",
                (position,),
            ).fetchall()
        )

    def count(self) -> tuple[int, int]:
        """How many events and how many sessions are stored."""
        (events,) = self._db.execute("SELECT COUNT(*) FROM events").fetchone()
        (sessions,) = self._db.execute("SELECT COUNT(*) FROM sessions WHERE next_seq > 0").fetchone()
        return int(events), int(sessions)

    def sessions(self, limit: int | None = None) -> list[SessionRow]:
        """The sessions with something to show, the most recently active first."""
        rows = self._db.execute(
            "SELECT harness, id, next_seq, first_ms, last_ms, last_type, block, state FROM sessions"
            " WHERE last_type NOT IN ('', 'session.forgotten') ORDER BY last_ms DESC, sid DESC LIMIT ?",
            (-1 if limit is None else limit,),
        ).fetchall()
        decode = msgspec.json.decode
        return [SessionRow._make((*row[:6], decode(row[6]), decode(row[7]))) for row in rows]

    # --- sinks --------------------------------------------------------------------------------

    def sink(self, name: str) -> SinkState | None:
        """What is remembered about one sink."""
        row = self._db.execute("SELECT position, state FROM sinks WHERE name = ?", (name,)).fetchone()
        return None if row is None else _sink(*row)

    def sinks(self) -> list[SinkState]:
        """What is remembered about every sink."""
        rows = self._db.execute("SELECT position, state FROM sinks ORDER BY name").fetchall()
        return [_sink(*row) for row in rows]

    def add_sink(self, name: str, position: int) -> SinkState:
        """Remember a new sink that is past ``position``; a known one stays as it is."""
        fresh = SinkState(name=name).placed(position)
        with self._transaction():
            self._db.execute(
                "INSERT INTO sinks (name, position, state) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                (name, position, encode(fresh)),
            )
            return self.sink(name) or fresh

    def put_sink(self, sink: SinkState) -> None:
        """Write a sink's whole state, cursor included, in one synced commit.

        A sink that was removed meanwhile stays removed.
        """
        with self._transaction():
            self._db.execute(
                "UPDATE sinks SET position = ?, state = ? WHERE name = ?",
                (sink.position, encode(sink), sink.name),
            )

    def change_sink(
        self, name: str, change: Callable[[SinkState], SinkState | None], *, synced: bool = True
    ) -> SinkState | None:
        """Load a sink's row, change it and write it back in one commit; what it then is.

        Other processes pause, resume and replay a sink while a courier's request is under way: a
        row written from what was loaded before would undo them. None from ``change`` leaves the row
        alone; an unknown sink is None. A commit that is not ``synced`` survives this process, not a
        power cut.
        """
        with self._transaction(synced=synced):
            sink = self.sink(name)
            changed = None if sink is None else change(sink)
            if changed is not None:
                self._db.execute(
                    "UPDATE sinks SET position = ?, state = ? WHERE name = ?",
                    (changed.position, encode(changed), name),
                )
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
        decode = msgspec.json.decode
        return [PendingRead._make((*row[:3], decode(row[3]), decode(row[4]), *row[5:])) for row in rows]

    def wake_reads(self, due_ms: int) -> None:
        """A worker started: every read that sleeps is due again."""
        with self._transaction():
            self._db.execute("UPDATE pending_reads SET due_ms = ? WHERE due_ms IS NULL", (due_ms,))

    # --- erasing ------------------------------------------------------------------------------

    def forget(self, harness: str, session_id: str, now_ms: int, ruleset: int, body: Any) -> int | None:
        """Erase a session and leave its tombstone; ``body(seq)`` is its ``session.forgotten`` event.

        One transaction: the session's events, facts, transcript cursor and pending reads go, the
        tombstone keeps (harness, id, next seq, when), and the event that tells every sink takes the
        next seq. Returns that seq, or None when the session is unknown. The bytes are gone from the
        files after :meth:`checkpoint`.
        """
        with self._opened():
            row = self._db.execute(
                "SELECT sid, next_seq FROM sessions WHERE harness = ? AND id = ?", (harness, session_id)
            ).fetchone()
            if row is None:
                return None
            sid, seq = int(row[0]), int(row[1])
            self._db.execute("DELETE FROM events WHERE sid = ?", (sid,))
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
            return seq

    def checkpoint(self) -> bool:
        """Move the WAL into the database and truncate it; whether that was possible just now."""
        (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def prune(self, before_ms: int, up_to: int, limit: int = 5_000) -> int:
        """Delete at most ``limit`` events at or before position ``up_to`` that are older than ``before_ms``."""
        with self._opened():
            gone = self._db.execute(
                "DELETE FROM events WHERE position IN"
                " (SELECT position FROM events WHERE position <= ? AND time_ms < ? ORDER BY position LIMIT ?)",
                (up_to, before_ms, limit),
            )
            return gone.rowcount


class Transaction:
    """What intake, the transcript reader and ``ingest`` write, inside :meth:`Outbox.transaction`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def session(self, harness: str, session_id: str, now_ms: int) -> Session:
        """The session's row, made when there is none yet."""
        self._db.execute(
            "INSERT INTO sessions (harness, id, next_seq, first_ms, last_ms, last_type, block, state, transcript)"
            " VALUES (?, ?, 0, ?, ?, '', '{}', '{}', '{}') ON CONFLICT (harness, id) DO NOTHING",
            (harness, session_id, now_ms, now_ms),
        )
        row = self._db.execute(
            "SELECT sid, harness, id, next_seq, first_ms, last_ms, last_type, block, state, transcript,"
            " forgotten_ms FROM sessions WHERE harness = ? AND id = ?",
            (harness, session_id),
        ).fetchone()
        decode = msgspec.json.decode
        sid, name, id_, seq, first, last, kind, block, state, transcript, forgotten = row
        return Session(
            sid,
            name,
            id_,
            seq,
            first,
            last,
            kind,
            decode(block),
            decode(state),
            decode(transcript),
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
            "DELETE FROM sessions WHERE sid = ? AND next_seq = 0 AND last_type = '' AND forgotten_ms IS NULL"
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
        return None if row is None else msgspec.json.decode(row[0])

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


_EVENTS = (
    "SELECT position, sessions.harness, sessions.id, seq, type, time_ms, ruleset, body"
    " FROM events JOIN sessions USING (sid)"
)


def _newer(path: Path, version: int) -> str:
    return f"the outbox {path} was written by a newer sessionpipe (schema {version}); upgrade this one"


def _sink(position: int, state: bytes) -> SinkState:
    found = msgspec.json.decode(state, type=SinkState)
    found.position = position
    return found


def _statements(script: str) -> Iterator[str]:
    """The statements of a script: sqlite3's own splitter commits the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
