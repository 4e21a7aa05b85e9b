"""Looking into the outbox without changing anything: not even creating it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sessionpipe.cli.common import Fail
from sessionpipe.outbox import Damaged, Outbox, OutboxError
from sessionpipe.outboxfile import damage
from sessionpipe.paths import State


@contextmanager
def looking(state: State, *, follow: bool = False) -> Iterator[Outbox | None]:
    """:func:`look`, closed at the end, and also told as :class:`Fail` when reading fails only later."""
    outbox = look(state, follow=follow)
    try:
        yield outbox
    except sqlite3.DatabaseError as error:
        raise unreadable(state, error) from error
    finally:
        if outbox is not None:
            outbox.close()


def look(state: State, *, follow: bool = False) -> Outbox | None:
    """The outbox for reading, or None when nothing was ever recorded.

    With ``follow`` it keeps seeing what is written later. Raises :class:`Fail` when it can't be read.
    """
    if state.root.is_dir() and not os.access(state.root, os.R_OK | os.X_OK):
        # Else it would look as if nothing had ever been recorded.
        raise Fail(f"{state.root} cannot be read by you; `sessionpipe doctor` says how to mend it")
    try:
        return Outbox.look(state.outbox, follow=follow)
    except OutboxError as error:
        raise Fail(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise unreadable(state, error) from error


def unreadable(state: State, error: Exception) -> Fail:
    """``error``, met while the outbox was read, for people."""
    if why := damage(error):
        return Fail(str(Damaged(state.outbox, why)))
    return Fail(f"the outbox {state.outbox} cannot be read ({error}); `sessionpipe doctor` says more")
