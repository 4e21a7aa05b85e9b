"""Reading and writing other people's files: all or nothing, and what we may not touch is left alone.

A write keeps the file's mode, owner, extended attributes, symbolic link and hard links. It is made
in a temporary file beside the real one and renamed over it, so that a reader (a harness watches its
settings) never sees half a file; a file with more than one hard link, or one whose owner we could
not restore, is written in place instead, because a rename would part it from them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sessionpipe import faults
from sessionpipe.install.leftalone import LeftAlone, NoFile

MAX_BYTES = 16 * 1024 * 1024

_CHANGED = "it changed while we were at it; try again"


@dataclass(frozen=True)
class Snapshot:
    """What a file held when it was read. ``data`` is None where there was no file.

    ``path`` is the name we were given, ``real`` what its links lead to.
    """

    path: Path
    real: Path
    data: bytes | None
    info: os.stat_result | None = None

    @property
    def text(self) -> str:
        """The data as text, empty where there was no file; raises :class:`LeftAlone`."""
        data = self.data or b""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise LeftAlone(f"a byte that is no UTF-8 at line {line}") from None


def read(path: Path) -> Snapshot:
    """Read ``path`` through its links; raises :class:`LeftAlone` for what is no readable file."""
    try:
        real = path.resolve(strict=path.is_symlink())
        if not os.path.lexists(real):
            return Snapshot(path, real, None)
        # Without waiting: a FIFO in the file's place would keep us until somebody writes to it.
        with os.fdopen(os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise NoFile("it is not a regular file")
            if info.st_size > MAX_BYTES:
                raise LeftAlone(f"it is larger than {MAX_BYTES // 1024 // 1024} MiB")
            return Snapshot(path, real, file.read(), info)
    except FileNotFoundError:
        raise NoFile("it is a link to a file that does not exist") from None
    except IsADirectoryError:
        raise NoFile("it is a folder") from None
    except (OSError, RuntimeError) as error:
        # Links that lead in a circle: a RuntimeError before Python 3.13.
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            raise NoFile("it cannot be read (its links lead in a circle)") from None
        raise LeftAlone(f"it cannot be read ({error.strerror})") from None


def write(seen: Snapshot, data: bytes) -> None:
    """Replace what ``seen`` saw with ``data``; raises :class:`LeftAlone` with nothing written."""
    check_writable(seen)
    if seen.info is None or seen.data is None:
        raise ValueError("there is no file to replace; create it")
    if read(seen.path).data != seen.data:
        raise LeftAlone(_CHANGED)
    try:
        if seen.info.st_nlink > 1 or not _replace_like(seen.real, data, seen.info):
            _overwrite(seen.real, data, seen.data)
    except OSError as error:
        raise LeftAlone(f"it cannot be written ({error.strerror})") from None


def missing_folders(path: Path) -> list[Path]:
    """The parents of ``path`` that do not exist, outermost first."""
    return [folder for folder in reversed(path.parents) if not os.path.lexists(folder)]


def create(path: Path, data: bytes) -> None:
    """Create ``path`` (0600) and its missing parents (0700); raises :class:`LeftAlone`."""
    made = missing_folders(path)
    try:
        for folder in made:
            folder.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(path):
            raise LeftAlone("it appeared while we were at it; try again")
        replace(path, data, mode=0o600)
    except OSError as error:
        remove_folders(made)
        raise LeftAlone(f"it cannot be created ({error.strerror})") from None


def delete(seen: Snapshot) -> None:
    """Delete the file that ``seen`` saw; raises :class:`LeftAlone`."""
    check_writable(seen)
    if read(seen.path).data != seen.data:
        raise LeftAlone(_CHANGED)
    try:
        seen.path.unlink()
    except OSError as error:
        raise LeftAlone(f"it cannot be deleted ({error.strerror})") from None


def remove_folders(folders: list[Path]) -> None:
    """Remove those of ``folders`` that are empty, innermost first."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()


def sweep(path: Path) -> None:
    """Delete what writes of ours that were cut off, by a kill or a power cut, left beside ``path``.

    Only while no other ``install`` of ours is at work: it may be what that one is about to rename.
    """
    leftover = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.tmp")
    with suppress(OSError):
        for beside in path.parent.iterdir():
            if leftover.fullmatch(beside.name):
                beside.unlink()


def check_writable(seen: Snapshot) -> None:
    """Raise :class:`LeftAlone` for what the person has made read-only, even where root could write."""
    if seen.info is not None and not _writable(seen.real):
        raise LeftAlone("it is read-only" if os.path.lexists(seen.real) else _CHANGED)
    folder = next(parent for parent in seen.real.parents if os.path.lexists(parent))
    if not folder.is_dir():
        raise LeftAlone(f"{folder.name} is no folder")
    if not _writable(folder):
        raise LeftAlone("its folder is read-only")


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o222)


def replace(path: Path, data: bytes, *, mode: int) -> None:
    """Write ``path`` whole or not at all, durably, with ``mode``; raises :class:`OSError`."""
    temporary = _temporary(path, data, mode)
    _rename(temporary, path)


def _replace_like(path: Path, data: bytes, info: os.stat_result) -> bool:
    """Replace ``path`` by a file of the same mode, owner and attributes; False if that can't be had."""
    temporary = _temporary(path, data, 0o600)
    try:
        made = temporary.stat()
        if (made.st_uid, made.st_gid) != (info.st_uid, info.st_gid):
            os.chown(temporary, info.st_uid, info.st_gid)
        if hasattr(os, "listxattr"):
            for name in os.listxattr(path):
                os.setxattr(temporary, name, os.getxattr(path, name))
        temporary.chmod(stat.S_IMODE(info.st_mode))  # last: a change of owner clears bits of it
    except OSError:
        temporary.unlink()
        return False
    _rename(temporary, path)
    return True


def _temporary(path: Path, data: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.chmod(mode)
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _rename(temporary: Path, path: Path) -> None:
    try:
        faults.point("install.written")
        temporary.replace(path)
        faults.point("install.renamed")
    except OSError:
        temporary.unlink()
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _overwrite(path: Path, data: bytes, before: bytes) -> None:
    """Put ``data`` in the place of ``before``, or leave that there and raise :class:`OSError`.

    All of it goes in one write, the rest of a longer file as empty lines: if we are killed before the file
    is cut, what stands there is still whole to every reader.
    """
    with path.open("r+b", buffering=0) as file:
        try:
            _write_at_start(file, data.ljust(len(before), b"\n"))
        except OSError:
            _write_at_start(file, before)  # the room for this is the file's already
            file.truncate(len(before))
            raise
        faults.point("install.overwritten")
        file.truncate(len(data))
        os.fsync(file.fileno())


def _write_at_start(file: FileIO, data: bytes) -> None:
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


__all__ = [
    "Snapshot",
    "check_writable",
    "create",
    "delete",
    "missing_folders",
    "read",
    "remove_folders",
    "replace",
    "sweep",
    "write",
]
