"""The receiver's database: events, what they come to, and who was forgotten. The only module with its SQL.

SQLite in WAL mode, one connection that writes and one that reads, so that a page never holds up a
sender. A batch is one transaction, synced before it counts: what was answered with 202 is on disk. It
is another database than the sender's outbox, and knows nothing of it.

Whatever is held can be held twice (a name in the index, a row's old bytes on a free page): with
``secure_delete``, and the log emptied behind it, what is forgotten is gone from the files too.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.paths import make_private
from sessionpipe.protocol import short_id
from sessionpipe.receiver import incoming
from sessionpipe.receiver.board import Memory, folded, tell
from sessionpipe.receiver.incoming import Event
from sessionpipe.receiver.merge import merge

VERSION = 2
_APPLICATION = 0x73707276  # "sprv"
_BUSY_S = 10.0

_SCHEMA = """
CREATE TABLE sessions (
  key      INTEGER PRIMARY KEY,
  harness  TEXT NOT NULL,
  id       TEXT NOT NULL,
  short    TEXT NOT NULL,
  block    TEXT NOT NULL,     -- the session block as far as it is known (merge)
  memory   TEXT NOT NULL,     -- what the events come to (board.Memory)
  events   INTEGER NOT NULL,  -- how many were taken
  last_ms  INTEGER NOT NULL,  -- when it was last heard of, by the sender's clock
  heard_ms INTEGER NOT NULL,  -- and by ours
  open     INTEGER NOT NULL,  -- it may be at work, or wait for the person
  stale    INTEGER NOT NULL,  -- an event came behind a later one: block and memory are to be made anew
  UNIQUE (harness, id)
);
CREATE INDEX sessions_last ON sessions (last_ms);
CREATE INDEX sessions_short ON sessions (short);
CREATE INDEX sessions_open ON sessions (last_ms) WHERE open;
CREATE INDEX sessions_stale ON sessions (key) WHERE stale;
CREATE TABLE events (
  session   INTEGER NOT NULL REFERENCES sessions,
  seq       INTEGER NOT NULL,
  type      TEXT NOT NULL,
  heard_ms  INTEGER NOT NULL,
  body      TEXT NOT NULL,              -- as it came; of one that was overtaken, without what it said
  overtaken INTEGER NOT NULL DEFAULT 0, -- a turn.progress that is the latest no more, and not to be read
  UNIQUE (session, seq)
);
CREATE INDEX events_progress ON events (session, seq) WHERE type = 'turn.progress' AND NOT overtaken;
CREATE TABLE forgotten (
  name     BLOB PRIMARY KEY,  -- a hash of the session's, which keeps not even that
  seq      INTEGER NOT NULL,  -- up to here everything is gone, and stays so
  at_ms    INTEGER NOT NULL
) WITHOUT ROWID;
"""


class Unusable(Exception):
    """The database can't be used; the message says why and what to do."""


class Taken(NamedTuple):
    """What became of a batch's events, and the sessions (``harness:id``) that changed."""

    accepted: int
    duplicates: int
    changed: set[str]


class Row(NamedTuple):
    """A session as it is held."""

    key: int
    harness: str
    id: str
    block: dict[str, Any]
    memory: Memory
    events: int
    last_ms: int
    heard_ms: int

    @property
    def name(self) -> str:
        """``harness:id``, which no other session has."""
        return f"{self.harness}:{self.id}"


#: Where words that are no id are looked for.
_SEARCHED = " || ' ' || ".join(
    f"coalesce(json_extract(block, '$.{name}'), '')" for name in ("title", "cwd", "branch", "repo")
)
_ROW = "key, harness, id, block, memory, events, last_ms, heard_ms"
_memory = msgspec.json.Decoder(Memory)


class Store:
    """The database at ``path``; every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._writer = _open(path)
        self._reader = _connect(path)

    def close(self) -> None:
        """Close it, with everything in one file."""
        with self._read_lock:
            self._reader.close()
        with self._write_lock:
            self._writer.close()

    # -- taking --

    def take(self, events: Sequence[Event], now_ms: int) -> Taken:
        """Store what is new of ``events``, on disk when this returns. Raises :class:`sqlite3.Error`."""
        accepted, forgot = 0, False
        with self._write_lock:
            with self._transaction() as db:
                held = _Held(db, now_ms)
                for event in events:
                    took = held.take(event)
                    accepted += took
                    forgot |= took and event.type == "session.forgotten"
                held.save()
            if forgot:
                self._empty_log()
        return Taken(accepted, len(events) - accepted, held.changed)

    def forget(self, harness: str, session: str, now_ms: int) -> None:
        """Delete a session here, and take nothing more of what it was until now."""
        with self._write_lock:
            with self._transaction() as db:
                held = _Held(db, now_ms)
                held.forget(harness, session, -1)
                held.save()
            self._empty_log()

    def prune(self, before_ms: int) -> int:
        """Delete the sessions not heard of since ``before_ms`` by our clock; how many went."""
        with self._write_lock:
            with self._transaction() as db:
                old = "SELECT key FROM sessions WHERE heard_ms < ?"
                db.execute(f"DELETE FROM events WHERE session IN ({old})", (before_ms,))  # noqa: S608
                gone = db.execute("DELETE FROM sessions WHERE heard_ms < ?", (before_ms,)).rowcount
            if gone:
                self._empty_log()
        return gone

    def _empty_log(self) -> None:
        # A reader that is in the middle of it keeps the log's bytes until the next time.
        with suppress(sqlite3.OperationalError):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise

    def _freshen(self) -> None:
        """Make anew what events that came late have made stale."""
        with self._read_lock:
            if self._reader.execute("SELECT 1 FROM sessions WHERE stale LIMIT 1").fetchone() is None:
                return
        with self._write_lock, self._transaction() as db:
            for key, heard_ms in db.execute("SELECT key, heard_ms FROM sessions WHERE stale").fetchall():
                block: dict[str, Any] = {}

                def told(key: int = key, block: dict[str, Any] = block) -> Iterator[tuple[Event, int]]:
                    rows = db.execute(
                        "SELECT body, heard_ms FROM events WHERE session = ? ORDER BY seq", (key,)
                    )
                    for body, arrived_ms in rows:
                        event = incoming.stored(body.encode())
                        known = merge(block, event.block, of_subagent="agent_id" in event.data)
                        block.clear()
                        block.update(known)
                        yield event, arrived_ms

                _save(db, key, block, folded(told()), heard_ms)

    # -- reading --

    def board(self, now_ms: int, *, open_since_ms: int, most_open: int, most: int) -> list[Row]:
        """The sessions to show: the open ones heard of since, and the latest of all; latest first."""
        self._freshen()
        rows = self._rows(
            "WHERE open AND last_ms >= ? ORDER BY last_ms DESC LIMIT ?", (open_since_ms, most_open)
        ) + self._rows("ORDER BY last_ms DESC LIMIT ?", (most,))
        return sorted({row.key: row for row in rows}.values(), key=lambda row: -row.last_ms)

    def sessions(self, *, before: tuple[int, int] | None, most: int) -> list[Row]:
        """Sessions, latest first; ``before`` is the ``last_ms`` and ``key`` of the last one seen."""
        self._freshen()
        return self._rows(
            "WHERE (last_ms, key) < (?, ?) ORDER BY last_ms DESC, key DESC LIMIT ?",
            (*(before or (1 << 62, 0)), most),
        )

    def session(self, harness: str, id_: str) -> Row | None:
        """The session of that name."""
        self._freshen()
        return next(iter(self._rows("WHERE harness = ? AND id = ?", (harness, id_))), None)

    def find(self, said: str, most: int = 50) -> list[Row]:
        """Every session ``said`` may mean: a whole id, ``harness:id``, the beginning of a short id; newest first.

        Else those whose title or folder has it (protocol §3, *Short id*).
        """
        self._freshen()
        harness, _, rest = said.partition(":")
        for where, values in (
            ("WHERE id = ? OR (harness = ? AND id = ?)", (said, harness, rest)),
            ("WHERE short >= ? AND short < ?", (said.lower(), said.lower() + "g")),
            (f"WHERE instr(casefold({_SEARCHED}), ?)", (said.casefold(),)),
        ):
            if found := self._rows(f"{where} ORDER BY last_ms DESC LIMIT ?", (*values, most)):
                return found
        return []

    def events(self, key: int, *, after: int = -1, most: int = 1000) -> list[tuple[int, str, int]]:
        """A session's events behind ``seq`` ``after``, in its order: (seq, JSON, when it arrived)."""
        with self._read_lock:
            return self._reader.execute(
                "SELECT seq, body, heard_ms FROM events"
                " WHERE session = ? AND seq > ? AND NOT overtaken ORDER BY seq LIMIT ?",
                (key, after, most),
            ).fetchall()

    def latest(self, key: int, *, before: int, most: int) -> list[tuple[int, str, int]]:
        """A session's last events before ``seq`` ``before``, in its order: (seq, JSON, when it arrived)."""
        with self._read_lock:
            return self._reader.execute(
                "SELECT seq, body, heard_ms FROM events"
                " WHERE session = ? AND seq < ? AND NOT overtaken ORDER BY seq DESC LIMIT ?",
                (key, before, most),
            ).fetchall()[::-1]

    def count(self) -> int:
        """How many sessions are held."""
        with self._read_lock:
            return int(self._reader.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def _rows(self, rest: str, values: Sequence[Any]) -> list[Row]:
        with self._read_lock:
            found = self._reader.execute(f"SELECT {_ROW} FROM sessions {rest}", values).fetchall()  # noqa: S608
        return [_row(values) for values in found]


class _Held:
    """The sessions of one batch, within its transaction: each is read and written once."""

    def __init__(self, db: sqlite3.Connection, now_ms: int) -> None:
        self._db = db
        self._now_ms = now_ms
        self._rows: dict[tuple[str, str], Row | None] = {}
        self._stale: set[int] = set()
        self._gone: dict[tuple[str, str], int] = {}
        self.changed: set[str] = set()

    def take(self, event: Event) -> bool:
        """Whether ``event`` was new; its identity is harness, session and ``seq`` (protocol §6)."""
        if event.seq <= self._forgotten(event.harness, event.session):
            return False
        if event.type == "session.forgotten":
            self.forget(event.harness, event.session, event.seq)
            return True
        row = self._row(event)
        new = self._db.execute(
            "INSERT OR IGNORE INTO events (session, seq, type, heard_ms, body) VALUES (?, ?, ?, ?, ?)",
            (row.key, event.seq, event.type, self._now_ms, event.raw.decode()),
        ).rowcount
        if not new:
            return False
        if row.key not in self._stale:
            if event.seq > row.memory.seq:
                tell(row.memory, event, self._now_ms)
                row = row._replace(block=merge(row.block, event.block, of_subagent="agent_id" in event.data))
            else:
                self._stale.add(row.key)
        self._rows[event.harness, event.session] = row._replace(events=row.events + 1, heard_ms=self._now_ms)
        self.changed.add(row.name)
        return True

    def forget(self, harness: str, session: str, seq: int) -> None:
        """Delete everything of a session, and remember up to which ``seq`` that was."""
        name = harness, session
        row = self._find(harness, session)
        if row is not None:
            last = self._db.execute("SELECT max(seq) FROM events WHERE session = ?", (row.key,)).fetchone()[0]
            seq = max(seq, -1 if last is None else last)
            self._db.execute("DELETE FROM events WHERE session = ?", (row.key,))
            self._db.execute("DELETE FROM sessions WHERE key = ?", (row.key,))
            self.changed.add(row.name)
        self._rows[name] = None
        self._gone[name] = max(seq, self._forgotten(harness, session))
        self._db.execute(
            "INSERT OR REPLACE INTO forgotten (name, seq, at_ms) VALUES (?, ?, ?)",
            (_hash(harness, session), self._gone[name], self._now_ms),
        )

    def save(self) -> None:
        """Write what was learnt of every session."""
        for row in self._rows.values():
            if row is None or row.name not in self.changed:
                continue
            _save(self._db, row.key, row.block, row.memory, row.heard_ms, row.events, row.key in self._stale)

    def _row(self, event: Event) -> Row:
        row = self._find(event.harness, event.session)
        if row is None:
            key = self._db.execute(
                "INSERT INTO sessions (harness, id, short, block, memory, events, last_ms, heard_ms, open, stale)"
                " VALUES (?, ?, ?, '{}', '{}', 0, 0, ?, 0, 0)",
                (event.harness, event.session, short_id(event.harness, event.session), self._now_ms),
            ).lastrowid
            row = Row(int(key or 0), event.harness, event.session, {}, Memory(), 0, 0, self._now_ms)
            self._rows[event.harness, event.session] = row
        return row

    def _find(self, harness: str, session: str) -> Row | None:
        name = harness, session
        if name not in self._rows:
            found = self._db.execute(
                f"SELECT {_ROW}, stale FROM sessions WHERE harness = ? AND id = ?",  # noqa: S608
                name,
            ).fetchone()
            self._rows[name] = _row(found[:-1]) if found else None
            if found and found[-1]:
                self._stale.add(found[0])
        return self._rows[name]

    def _forgotten(self, harness: str, session: str) -> int:
        name = harness, session
        if name not in self._gone:
            found = self._db.execute(
                "SELECT seq FROM forgotten WHERE name = ?", (_hash(harness, session),)
            ).fetchone()
            self._gone[name] = found[0] if found else -1
        return self._gone[name]


def _save(
    db: sqlite3.Connection,
    key: int,
    block: dict[str, Any],
    memory: Memory,
    heard_ms: int,
    events: int | None = None,
    stale: bool = False,
) -> None:
    db.execute(
        "UPDATE sessions SET block = ?, memory = ?, events = coalesce(?, events), last_ms = ?, heard_ms = ?,"
        " open = ?, stale = ? WHERE key = ?",
        (
            msgspec.json.encode(block).decode(),
            msgspec.json.encode(memory).decode(),
            events,
            memory.last,
            heard_ms,
            memory.open,
            stale,
            key,
        ),
    )
    if not stale:
        _overtake(db, key, memory.progress.seq if memory.progress else -1)


def _overtake(db: sqlite3.Connection, key: int, latest: int) -> None:
    """Keep of what a session's turns said so far only the event ``latest``: a reading, and no history (§4)."""
    rows = db.execute(
        "SELECT seq, body FROM events WHERE session = ? AND type = 'turn.progress' AND NOT overtaken AND seq != ?",
        (key, latest),
    ).fetchall()
    for seq, body in rows:
        # What it says of its session stays: an event that comes late has all of them told once more.
        db.execute(
            "UPDATE events SET body = ?, overtaken = 1 WHERE session = ? AND seq = ?",
            (incoming.hushed(body), key, seq),
        )


def _row(values: Sequence[Any]) -> Row:
    key, harness, id_, block, memory, events, last_ms, heard_ms = values
    return Row(
        key, harness, id_, msgspec.json.decode(block), _memory.decode(memory), events, last_ms, heard_ms
    )


def _hash(harness: str, session: str) -> bytes:
    return hashlib.sha256(f"{harness}:{session}".encode()).digest()


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA foreign_keys = ON")
    # SQLite's own lower() knows no letters but those of English.
    db.create_function("casefold", 1, str.casefold, deterministic=True)
    return db


def _open(path: Path) -> sqlite3.Connection:
    """The writing connection; the file is made when it is not there. Raises :class:`Unusable`."""
    if not path.parent.is_dir():
        make_private(path.parent)
    # Made here, so that nobody else could ever read it, whatever the umask.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with ExitStack() as undo:
        try:
            db = undo.enter_context(closing(_connect(path)))
            version, application = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in _MARKS)
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application != _APPLICATION and tables:
                raise Unusable(f"{path} is another program's database; choose another --db")
            if tables and version != VERSION:
                which = "a newer" if version > VERSION else "an older"
                raise Unusable(f"{path} is of {which} sessionpipe; use that one, or choose another --db")
            db.execute("PRAGMA journal_mode = WAL").fetchall()
            # With less, a 202 could be answered for what a power cut then takes.
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON").fetchall()
            if not tables:
                db.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA}"
                    f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
                )
        except sqlite3.DatabaseError as error:
            raise Unusable(
                f"{path} can't be used ({error}); mend that, move it away, or choose another --db"
            ) from None
        undo.pop_all()
        return db


_MARKS = ("user_version", "application_id")
