"""Which sessions are being told by hooks: marks that Pi's extension leaves below ``<state>/live``.

``sessionpipe ingest`` reads a stream beside hooks that may tell the same session. A stream does not say
whether they do, and what they leave in the spool comes when it comes; so the extension writes a mark before
a session's first message, which is when it matters. A mark is a small JSON file named for its session:
``{"pid": …, "since": epoch ms, "until": epoch ms, once the session has ended}``.
"""

from __future__ import annotations

import contextlib
import os
import time

import msgspec

from sessionpipe.paths import State
from sessionpipe.places import read_file

#: How long a mark is kept after it was written.
KEPT_S = 7 * 86_400
#: How long before a stream was first read a mark of its own session can have been made.
_BEFORE_MS = 60_000


class Mark(msgspec.Struct):
    """What the extension wrote."""

    pid: int
    since: int
    until: int | None = None


def told_by_hooks(state: State, harness: str, session_id: str, at_ms: int, reading_since_ms: int) -> bool:
    """Whether hooks tell what happens in a session at ``at_ms``, by the clock of this machine.

    ``reading_since_ms``: when we began to read. A mark without an end whose process is gone is of this very
    run only when it was made about then; else that run was killed long ago.
    """
    try:
        mark = msgspec.json.decode(read_file(state.live / f"{harness}-{session_id}"), type=Mark)
    except (OSError, msgspec.DecodeError):
        return False
    if at_ms < mark.since:
        return False
    if mark.until is not None:
        return at_ms <= mark.until
    return _alive(mark.pid) or mark.since >= reading_since_ms - _BEFORE_MS


def prune(state: State) -> None:
    """Remove marks of sessions nobody reads a stream of any more."""
    before = time.time() - KEPT_S
    with contextlib.suppress(OSError), os.scandir(state.live) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)  # noqa: PTH108


def unmark(state: State, harness: str, session_id: str) -> None:
    """Remove a session's mark, if it has one: a file's name is a trace, too."""
    with contextlib.suppress(OSError):
        (state.live / f"{harness}-{session_id}").unlink()


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
