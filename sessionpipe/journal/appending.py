"""Writing a bundle's files: journals that only grow, and small files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.journal.files import dump


def encode(value: Any) -> bytes:
    """``value`` as compact JSON; raises :class:`ValueError` or :class:`RecursionError` when it is none."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return dump(value)


class Journal:
    """An NDJSON file that is appended to, made by this process and readable by its owner alone.

    ``lines`` counts the complete lines in it. After a failure nothing more is written, so that half a
    line can only be the last.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._failed = False
        self.lines = 0

    def append(self, lines: Sequence[bytes]) -> None:
        """Append lines, which have their line ends, in one write. Raises :class:`OSError`."""
        if self._failed:
            raise OSError("an earlier write failed")
        data = b"".join(lines)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, memoryview(data)[done:])
        except OSError:
            self._failed = True
            raise
        finally:
            self.lines += len(lines) if done == len(data) else data.count(b"\n", 0, done)

    def sync(self) -> None:
        """Make what was written durable. Raises :class:`OSError`."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; nothing is appended afterwards."""
        self._failed = True
        os.close(self._fd)


def replace(path: Path, value: Any) -> None:
    """Make ``path`` hold ``value`` as JSON, durably and all at once. Raises :class:`OSError`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(encode(value) + b"\n")
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # The new name is durable only when the folder is.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
