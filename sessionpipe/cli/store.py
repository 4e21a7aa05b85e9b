"""Looking into the outbox without changing anything: not even creating it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sessionpipe.cli.common import Fail
from sessionpipe.outbox import SCHEMA_VERSION, Outbox
from sessionpipe.paths import State


@contextmanager
def looking(state: State, *, follow: bool = False) -> Iterator[Outbox | None]:
    """:func:`look`, closed at the end, and also told as :class:`Fail` when reading fails only later."""
    outbox = look(state, follow=follow)
    try:
        yield outbox
    except sqlite3.DatabaseError as error:
        raise _unreadable(state, error) from error
    finally:
        if outbox is not None:
            outbox.close()


def look(state: State, *, follow: bool = False) -> Outbox | None:
    """The outbox for reading, or None when nothing was ever recorded.

    With ``follow`` it keeps seeing what is written later. Raises :class:`Fail` when it can't be read.
    """
    try:
        return _open(state.outbox, follow=follow)
    except sqlite3.DatabaseError as error:
        raise _unreadable(state, error) from error


def _unreadable(state: State, error: Exception) -> Fail:
    return Fail(f"the outbox {state.outbox} cannot be read ({error}); move it away to start a new one")


def _open(path: Path, *, follow: bool) -> Outbox | None:
    if not os.path.lexists(path):
        return None
    # A reader of a database in WAL mode creates the -wal and -shm files and leaves them behind. Where
    # there is no -wal nobody has the database open, and SQLite can be told that it stands still.
    still = not follow and not path.with_name(path.name + "-wal").exists()
    how = "immutable=1" if still else "mode=ro"
    connection = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None, timeout=5)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.close()
        return None  # A worker is just making it.
    if version > SCHEMA_VERSION:
        connection.close()
        raise Fail(
            f"the outbox {path} was written by a newer sessionpipe (schema {version}); upgrade this one"
        )
    return Outbox(connection, path)
