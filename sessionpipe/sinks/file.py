"""The file sink: NDJSON, one event a line, each exactly once even over kills and power cuts.

A batch is on the disk before it is acknowledged, and the cursor moves only then. What a crash
between the two leaves behind is found when the file is opened again: a half-written last line is
cut off, and delivery resumes behind the last event in the file (:meth:`FileSink.tail`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from sessionpipe import faults
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Outcome, Retry
from sessionpipe.sinks.base import Held, Setup, Sink, Tail

_LIMITS = Limits(max_events=1000, max_bytes=1 << 20)

#: How much of the file's end is read when it is opened: a whole batch and what may be torn behind it.
_TAIL = 4 << 20


class NotAFile(OSError):
    """Something else stands where the file should be."""


class _Harness(msgspec.Struct):
    name: str


class _Session(msgspec.Struct):
    id: str
    seq: int


class _Line(msgspec.Struct):
    id: str
    harness: _Harness
    session: _Session


class FileSink(Sink):
    """Appends to the file at ``path``, which may begin with ``~/``."""

    def __init__(self, path: str, env: Mapping[str, str] = os.environ) -> None:
        self.path = expand(path, env)
        self._fd: int | None = None
        self._torn = False

    @classmethod
    def make(cls, setup: Setup) -> FileSink:
        return cls(setup.config.path or "", env=setup.env)

    def limits(self) -> Limits:
        return _LIMITS

    def send(self, batch: Batch) -> Outcome:
        try:
            fd = self._opened()
            end = os.fstat(fd).st_size
            try:
                _write(fd, b"\n".join(batch.events) + b"\n")
                faults.point("file.written")
                os.fsync(fd)
            except OSError:
                # A full disk takes half a batch: take it back, so that no reader ever sees a torn line.
                os.ftruncate(fd, end)
                raise
            faults.point("file.synced")
        except OSError as error:
            self.close()
            return Retry(f"{self.path}: {error.strerror or error}")
        return Acked()

    def tail(self) -> Tail:
        """The last events of the file, once whatever was torn is cut off. Raises OSError."""
        try:
            fd = self._opened()
        except OSError as error:
            raise OSError(error.errno, f"{self.path}: {error.strerror or error}") from error
        torn, self._torn = self._torn, False
        return Tail(tuple(_events(_end(fd))), torn)

    def check(self) -> None:
        """Open the file as delivery would, so that whatever is wrong is known now. Raises OSError."""
        self._opened()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        """The open file: opened again when another one took its name (a rotated log)."""
        if self._fd is not None and not _is_at(self._fd, self.path):
            self.close()
        if self._fd is None:
            self._fd = _open(self.path)
            self._torn = _mend(self._fd)
        return self._fd


def expand(path: str, env: Mapping[str, str] = os.environ) -> Path:
    """``path`` with ``~/`` as the home directory of ``env``, absolute."""
    if path == "~" or path.startswith("~/"):
        home = env.get("HOME")
        expanded = Path(home, path[2:]) if home else Path(path).expanduser()
    else:
        expanded = Path(path)
    return Path(os.path.abspath(expanded))  # noqa: PTH100 - a symlink in it must stay one


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # NOFOLLOW: whoever can write the folder must not be able to point us at another file. NONBLOCK:
    # opening a FIFO would wait for its reader. RDWR: the end is read back.
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.is_symlink():
            raise NotAFile(0, "is a symbolic link; name the file it points to") from None
        fd = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotAFile(0, "is not a regular file") from None
        return fd
    # The name is durable only with its folder.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return fd


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = os.lstat(path)
    except OSError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _end(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    start = max(0, size - _TAIL)
    read = os.pread(fd, size - start, start)
    # Begin at a line: what the window cuts in half is no event.
    return read if start == 0 else read[read.find(b"\n") + 1 :]


def _mend(fd: int) -> bool:
    """End the file with a whole line; whether a half-written event was cut off.

    Only what can be the beginning of an event of ours, or the zeros a power cut leaves, is cut off:
    the person may have named a file of their own, and nothing in it is ours to remove.
    """
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return False
    last = _after_last_newline(fd, size)
    if last is None or not _is_torn(last):
        _write(fd, b"\n")
        return False
    os.ftruncate(fd, size - len(last))
    os.fsync(fd)
    return True


def _after_last_newline(fd: int, size: int) -> bytes | None:
    """The unended last line; None when it is longer than any of ours."""
    start = max(0, size - _TAIL)
    block = os.pread(fd, size - start, start)
    newline = block.rfind(b"\n")
    return None if newline < 0 < start else block[newline + 1 :]


def _is_torn(line: bytes) -> bool:
    text = line.strip(b"\0")
    if not text.startswith(b"{"):
        return not text
    try:
        msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return True
    return text != line


def _events(text: bytes) -> Iterator[Held]:
    """The events among the lines; what else the person keeps in the file is passed over."""
    for line in text.splitlines():
        with suppress(msgspec.MsgspecError):
            event = msgspec.json.decode(line, type=_Line)
            yield Held(event.id, event.harness.name, event.session.id, event.session.seq)
