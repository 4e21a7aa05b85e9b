"""The only door to another program's SQLite store: it looks, and the program can't tell.

SQLite's own ``mode=ro`` is not that: beside a WAL database nobody has open it makes ``-wal`` and ``-shm``
files, and while it reads a rollback database the program's commit fails or waits. So, by what the file's
header says it is:

- A WAL database with something in its ``-wal`` is read through the ``-shm`` its program keeps, opened for
  reading only. The locks are those of any reader of a WAL database: no writer waits for them, and at most
  a checkpoint leaves the log as it is.
- Everything else is read without a lock and without its companions (``immutable``), and what was read
  counts only if the file was the same behind it as before.

A store that is missing, no regular file, not SQLite, damaged, locked by its program or in the middle of a
transaction is absent.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sessionpipe.harnesses.files import Files, Opened

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
Row = tuple[Any, ...]

#: How long one look may take, what it waits for the file to settle included.
SECONDS = 1.0
#: Rows and characters (bytes of a blob) one look may return.
MOST_ROWS = 20_000
MOST_TEXT = 64 << 20

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_ATTEMPTS = 3
_PAUSE_S = 0.015
_OPS = 5_000
# A file's time moves in steps of a clock's tick: within one, another write could go unseen.
_TICK_NS = 20_000_000
# Another connection's doing, over in a moment: SQLITE_BUSY, _LOCKED, _READONLY (of an index that is being
# made), _PROTOCOL.
_PASSING = frozenset({5, 6, 8, 15})
# Where SQLite's readers lock a database (its file format, "the lock-byte page").
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510


class _Unsettled(Exception):
    """The store is in the middle of something, or changed while it was read."""


class _Excess(Exception):
    """There is more than one look may return."""


class Look:
    """One look at a store, all of it of one state. Made by :func:`look`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows = MOST_ROWS
        self._text = MOST_TEXT

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table or view; none when there is no such table."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", (table,)))

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        """A query's rows as they come; whatever varies goes into ``parameters``, never into ``sql``.

        Text has U+FFFD for what is no UTF-8. More than :data:`MOST_ROWS` or :data:`MOST_TEXT` in one look
        makes the store absent: a query says how much it wants.
        """
        for row in self._connection.execute(sql, parameters):
            self._rows -= 1
            self._text -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._rows < 0 or self._text < 0:
                raise _Excess
            yield row


def look(path: str | Path, files: Files, ask: Callable[[Look], T], *, seconds: float = SECONDS) -> T | None:
    """What ``ask`` finds in the store at ``path``; None when there is no store, or none to be read now.

    ``ask`` may be called again when the store changed meanwhile, so it does nothing but ask. Whatever
    SQLite objects to (a table that isn't there, a damaged page) makes the store absent; what ``ask`` raises
    of its own comes through. ``seconds``: how long all of it may take.
    """
    until = time.monotonic() + seconds
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
        if (opened := files.open(path)) is None:
            return None
        try:
            with opened:
                return _ask(opened, ask, until)
        except _Unsettled:
            continue
        except (sqlite3.Error, OverflowError, UnicodeEncodeError, _Excess):
            return None
    return None


def _ask(opened: Opened, ask: Callable[[Look], T], until: float) -> T:
    header = opened.head(_HEADER)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise sqlite3.DatabaseError("no SQLite database")
    place = Path(os.path.realpath(opened.path))
    if 2 in header[18:20]:
        _keep_log(opened)
        if _size(place, "-wal"):
            if not _size(place, "-shm"):
                raise sqlite3.OperationalError("its log has no index")
            return _query(place, "mode=ro&readonly_shm=1", ask, until)
    before = _state(opened, place)
    try:
        found = _query(place, "mode=ro&immutable=1", ask, until)
    except sqlite3.Error:
        # A page that was being written looks damaged.
        if _state(opened, place) == before:
            raise
        raise _Unsettled from None
    if _state(opened, place) != before:
        raise _Unsettled
    return found


def _keep_log(opened: Opened) -> None:
    """Make sure that a WAL database's log, if there is one, is there until ``opened`` is closed.

    Whoever closes it last takes the log away, and SQLite would make another. It does not where somebody
    else has this lock, which every reader has: then it leaves the log to whoever opens it next.
    """
    if fcntl is None:
        return
    try:
        fcntl.lockf(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
    except OSError:
        raise _Unsettled from None


def _query(place: Path, how: str, ask: Callable[[Look], T], until: float) -> T:
    with closing(
        sqlite3.connect(f"{place.as_uri()}?{how}", uri=True, timeout=0, isolation_level=None)
    ) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_TEXT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(lambda: time.monotonic() > until, _OPS)
        # What stands in the file is not to be trusted, and what is sorted may not lie on a disk. A mapped
        # file that is cut under its reader would end the process.
        connection.executescript(
            "PRAGMA query_only=1; PRAGMA trusted_schema=0; PRAGMA cell_size_check=1;"
            "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0"
        )
        try:
            connection.execute("BEGIN")
            return ask(Look(connection))
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
                raise _Unsettled from error
            raise


class _State(NamedTuple):
    """What tells one state of a database file from another."""

    size: int
    changed_ns: int
    header: bytes


def _state(opened: Opened, place: Path) -> _State:
    """The state of a database nobody is about to change, or it is unsettled."""
    try:
        info = os.stat(place, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        raise _Unsettled from None
    fresh = 0 <= time.time_ns() - info.st_mtime_ns < _TICK_NS
    if fresh or (info.st_dev, info.st_ino) != opened.identity or _size(place, "-wal") or _is_busy(place):
        raise _Unsettled
    header = opened.head(_HEADER)
    # SQLite takes what is cut off for zeros.
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    if header[24:28] == header[92:96] and (1 << 16 if page == 1 else page) * pages > info.st_size:
        raise sqlite3.DatabaseError("it is truncated")
    return _State(info.st_size, info.st_mtime_ns, header)


def _size(place: Path, suffix: str) -> int | None:
    """The size of a database's companion; None when there is none."""
    try:
        info = os.lstat(f"{place}{suffix}")
    except OSError:
        return None
    if not stat.S_ISREG(info.st_mode):
        raise sqlite3.OperationalError("its companion is no file")
    return info.st_size


def _is_busy(place: Path) -> bool:
    """Whether a transaction is under way: its journal is there, and its header is not blanked."""
    if not _size(place, "-journal"):
        return False
    try:
        with open(f"{place}-journal", "rb") as journal:  # noqa: PTH123
            return journal.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return False
    except OSError:
        return True
