"""Rules as the matcher compiled them, kept in ``<state>/compiled`` so that a process need not compile them again.

Compiling takes some 60 ms, which is a good part of a worker's start. ``install`` and workers keep what they compiled;
commands that redact what they print only look.

What is kept decides what is redacted, so it is believed only if nobody but its owner can have written it
and if it is whole: each file is a SHA-256 and what that is of, the file's own name included. The name is a
digest of all that went into the compiling, so other rules, another version of the matcher or another kind
of processor look for another file. Whatever is not as it should be is not there: the rules are compiled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from contextlib import suppress

from sessionpipe.paths import State
from sessionpipe.places import make_ours, read_file
from sessionpipe.privacy import keeping

#: A set of rules makes about ten; beyond this many the oldest go.
_AT_MOST = 64
_DIGEST = hashlib.sha256().digest_size


class Compiled:
    """The kept files of one state directory: a :class:`sessionpipe.privacy.keeping.Kept`."""

    def __init__(self, state: State) -> None:
        self._folder = state.compiled

    def get(self, name: str) -> bytes | None:
        """What was kept under ``name``, a hexadecimal digest."""
        path = self._folder / name
        try:
            for place in (self._folder, path):
                info = place.lstat()
                if info.st_uid != os.getuid() or info.st_mode & 0o022:
                    return None
            data = read_file(path)
        except OSError:
            return None
        kept = data[_DIGEST:]
        return kept if data[:_DIGEST] == _digest(name, kept) else None

    def put(self, name: str, data: bytes) -> None:
        """Keep ``data`` if that can be done. Never the state directory's maker: what is gone stays gone."""
        path = self._folder / name
        temporary = self._folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
        with suppress(OSError):
            make_ours(self._folder)
            try:
                # Not synced: what a power cut leaves of it is not whole, and is made again.
                with open(temporary, "xb", opener=_private) as file:
                    file.write(_digest(name, data) + data)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            self._thin()

    def _thin(self) -> None:
        files = sorted(self._folder.iterdir(), key=lambda path: path.lstat().st_mtime_ns)
        for path in files[:-_AT_MOST]:
            path.unlink()


class Looking(Compiled):
    """The same for who only prints something: what is kept is taken, and nothing is written."""

    def put(self, name: str, data: bytes) -> None:
        """Keep nothing."""


def use(kept: Compiled) -> None:
    """Look in ``kept`` first from now on; not where nobody can tell whose a file is."""
    if hasattr(os, "getuid"):
        keeping.keep_in(kept)


def remove(state: State) -> None:
    """Remove what was kept; what is behind a link is somebody else's."""
    with suppress(OSError):
        if not stat.S_ISDIR(state.compiled.lstat().st_mode):
            return
        for path in state.compiled.iterdir():
            path.unlink()
        state.compiled.rmdir()


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + data).digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


__all__ = ["Compiled", "Looking", "remove", "use"]
