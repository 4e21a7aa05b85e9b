"""The outbox as a file: its names, who may give them, and what is set aside because it is damaged.

``outbox.db`` is whole from the moment it has its name: it is made, or salvaged, under another one. A
name is given by one process alone (:class:`Guard`), in an order that a kill at any point leaves to be
ended by the next one. Nothing here speaks SQL, and nothing opens the database or its shared memory
while a connection of this process is open: closing such a descriptor takes SQLite's locks away.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sessionpipe import faults
from sessionpipe.pages import PAGE
from sessionpipe.places import describe, room

#: How long the lock of another process is waited for.
PATIENCE_S = 30.0
#: Kept free on the disk, so that on a full one something can still be erased, and room made.
RESERVE = 2 << 20
#: What SQLite needs to open a database in WAL mode, and a little more.
_SHARED_MEMORY = 64 << 10
#: What SQLite says of the file itself: bytes that are no database, or no whole one.
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
#: Two rows for one place: a page that went back to what it was, and a counter with it.
_CONTRADICTION = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}


class OutboxError(Exception):
    """The outbox cannot be used; the message says why and what to do."""


class Damaged(OutboxError):
    """The file is no whole outbox; ``why`` in a few words."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the outbox {path} is damaged ({why}); the next worker sets it aside and carries over what can"
            " be read, and so does `sessionpipe flush` at once"
        )
        self.why = why


def damage(error: BaseException | None) -> str | None:
    """What ``error`` says is wrong with the file itself: not that it is locked, or that the disk is full."""
    if isinstance(error, Damaged):
        return error.why
    code = getattr(error, "sqlite_errorcode", None) or 0
    if code & 0xFF in _DAMAGE:
        return str(error)
    return "its counters contradict its events" if code in _CONTRADICTION else None


def full(error: BaseException, path: Path) -> bool:
    """Whether ``error``, met at the outbox at ``path``, is SQLite's that there is no room on the disk."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    # Where it cannot make its shared memory it speaks of input and output only.
    no_room = (room(path.parent) or 0) < _SHARED_MEMORY
    return code == sqlite3.SQLITE_FULL or (
        no_room and code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    )


class Guard:
    """Who may use the name ``outbox.db``: everybody together, or one who puts another file there, alone.

    ``flock`` on the state directory, which the kernel lets go of however a process ends.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Held while the outbox is opened or written. Raises :class:`OutboxError` after a long wait."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Held while its name is given to another file; nobody writes meanwhile."""
        with self._held(fcntl.LOCK_EX):
            yield

    def close(self) -> None:
        """Let go of the folder; once is enough."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(self._fd, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OutboxError("another process puts the outbox in order; try again later") from None
                time.sleep(0.005)
            except OSError:
                break  # A file system without locks: `doctor` says how little it promises.
        try:
            yield
        finally:
            # Closed meanwhile, which lets go of it too.
            with suppress(OSError, ValueError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)


def wal_of(path: Path) -> Path:
    """The write-ahead log of the database at ``path``."""
    return path.with_name(f"{path.name}-wal")


def shm_of(path: Path) -> Path:
    """The shared memory of the connections to the database at ``path``."""
    return path.with_name(f"{path.name}-shm")


def ready(path: Path) -> Path:
    """Where a whole new outbox waits to be given the name ``path`` (:mod:`sessionpipe.salvage`)."""
    return path.with_name(f"{path.name}.salvaged")


def companions(path: Path) -> list[Path]:
    """The names a database at ``path`` uses."""
    return [path, wal_of(path), shm_of(path)]


def sync(path: Path) -> None:
    """Put a file, or the names in a folder, on the disk. No connection of this process may be open to it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def give_name(path: Path, new: Path, aside: Path) -> None:
    """Give the whole outbox ``new`` the name ``path``; what still has one of its names is set ``aside``.

    The database loses its name first: without its WAL it might pass for a whole one, of an earlier
    time. Cut off anywhere behind that, :meth:`Outbox.open` ends it.
    """
    for old, kept in zip(companions(path), companions(aside), strict=True):
        with suppress(FileNotFoundError):
            old.rename(kept)
        faults.point("outbox.set_aside")
    new.rename(path)
    sync(path.parent)


def aside_name(path: Path, now_ms: int) -> Path:
    """A free name that says when an outbox was set aside."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
    names = [
        path.with_name(f"{path.name}.corrupt-{stamp}{more}") for more in ("", *map(".{}".format, range(9)))
    ]
    free = (name for name in names if not any(map(os.path.lexists, companions(name))))
    return next(free, names[-1])


def those_set_aside(path: Path) -> list[Path]:
    """The damaged outboxes that were set aside and are still there, the oldest first."""
    stem = f"{path.name}.corrupt-"
    try:
        names = sorted(entry for entry in path.parent.iterdir() if entry.name.startswith(stem))
    except OSError:
        return []
    return [name for name in names if not name.name.endswith(("-wal", "-shm"))]


def has_wal(path: Path) -> bool:
    try:
        return wal_of(path).lstat().st_size > 0
    except OSError:
        return False


def refuse_others(path: Path) -> None:
    """Raise :class:`OutboxError` when something other than a file has one of the outbox's names.

    A link is not followed, and not moved away either: the outbox may be behind it, and a new one would
    give its numbers again.
    """
    for name in companions(path):
        try:
            mode = name.lstat().st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise OutboxError(f"{name} is {describe(mode)}, not a file; move it away, or the file back")


def refuse_stump(path: Path) -> None:
    """An outbox is given its name when it is whole; SQLite would take a stump for a new one.

    While there is a WAL, the file may just be growing.
    """
    size = path.stat().st_size
    if size < PAGE or (size % PAGE and not has_wal(path)):
        raise Damaged(path, "it is no whole database")


def reserve(path: Path, size: int = RESERVE) -> None:
    """Keep some room free on the disk, for :func:`release`. Raises OSError when there is not so much."""
    kept = _reserve_of(path)
    with suppress(FileNotFoundError):
        if kept.lstat().st_size >= size:
            return
        kept.unlink()
    fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        kept.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def release(path: Path) -> bool:
    """Give up the room that was kept free; whether there was any."""
    try:
        _reserve_of(path).unlink()
    except OSError:
        return False
    return True


def _reserve_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.reserve")
