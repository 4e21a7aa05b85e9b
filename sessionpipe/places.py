"""What stands where something of ours should be, and getting it out of the way without following it.

Below the state directory nothing is a link, and everything is what :data:`KINDS` says. Anything else
was put there by somebody, or is left of an accident: what holds nothing of ours is renamed aside,
never followed, opened or deleted, and what belongs there is made.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from sessionpipe.paths import State

Kind = Literal["folder", "file", "FIFO"]

_SAYS: dict[int, str] = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_KIND: dict[Kind, int] = {"folder": stat.S_IFDIR, "file": stat.S_IFREG, "FIFO": stat.S_IFIFO}

#: Below this much free space a worker cannot be relied on to record anything.
NO_ROOM, LITTLE_ROOM = 4 << 20, 200 << 20


class Wrong(NamedTuple):
    """Something that is not as it must be: a plain sentence, and what to do about it."""

    path: Path
    what: str
    mend: str


def kinds(state: State) -> list[tuple[Path, Kind, str]]:
    """Every fixed name below the state directory: what it must be, and what fails otherwise."""
    spool = state.spool
    return [
        (spool, "folder", "hooks record nothing"),
        (spool / "tmp", "folder", "hooks record nothing"),
        (spool / "new", "folder", "hooks record nothing"),
        (spool / "rejected", "folder", "jobs that are not understood stay in the spool"),
        (state.outbox, "file", "nothing is recorded, and jobs wait in the spool"),
        (state.outbox.with_name(f"{state.outbox.name}-wal"), "file", "nothing is recorded"),
        (state.outbox.with_name(f"{state.outbox.name}-shm"), "file", "nothing is recorded"),
        (state.lock, "file", "no worker works"),
        (state.fifo, "FIFO", "hooks cannot wake the worker"),
        (state.yielding, "FIFO", "a worker without a network makes way for none"),
        (state.log.parent, "folder", "nothing is logged"),
        (state.log, "file", "nothing is logged"),
        (state.live, "folder", "a session that is streamed may be told twice"),
        (state.compiled, "folder", "each worker compiles the rules anew"),
        (state.bin, "folder", "the hook may not be ours"),
        (state.launcher, "file", "the hook is not ours"),
        (state.manifest, "file", "`install` and `uninstall` do not know what they wrote"),
    ]


def wrong(state: State) -> Iterator[Wrong]:
    """What is not as it must be below the state directory, the directory itself first."""
    root = state.root
    try:
        info = root.stat()
    except FileNotFoundError:
        return  # The first event makes it.
    except OSError as error:
        yield Wrong(root, f"{root} cannot be looked at: {error.strerror}", "see to the folders above it")
        return
    if not stat.S_ISDIR(info.st_mode):
        yield Wrong(root, f"{root} is {describe(info.st_mode)}, not a folder", "move it away")
        return
    if info.st_uid != os.getuid():
        yield Wrong(
            root,
            f"{root} belongs to user {info.st_uid}, not to you: hooks record nothing there",
            f"sudo chown -R {os.getuid()} {root}",
        )
    elif os.statvfs(root).f_flag & os.ST_RDONLY:
        yield Wrong(root, f"{root} is on a read-only file system: hooks record nothing", "make it writable")
    elif not os.access(root, os.W_OK | os.X_OK):
        yield Wrong(root, f"{root} is not writable: hooks record nothing", f"chmod u+rwx {root}")
    for path, kind, fails in kinds(state):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError:
            continue  # Below something that was named already.
        if stat.S_IFMT(mode) != _KIND[kind]:
            yield Wrong(path, f"{path} is {describe(mode)}, not a {kind}: {fails}", f"mv {path} {path}.aside")


def room(root: Path) -> int | None:
    """How many bytes this person can still write below ``root``; None where that cannot be told."""
    try:
        there = os.statvfs(root)
    except OSError:
        return None
    return there.f_bavail * there.f_frsize


def identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name, a link itself; None when there is none."""
    try:
        info = path.lstat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def describe(mode: int) -> str:
    """What a file of this ``st_mode`` is, with its article."""
    return _SAYS.get(stat.S_IFMT(mode), "something else")


def make_ours(folder: Path) -> None:
    """Make ``folder``, which is below the state directory, a private folder of ours.

    Whatever else stands in its place, a link to a folder included, is renamed aside. The folder it is
    in is not made. Raises OSError.
    """
    try:
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode):
            put_aside(folder)
            raise FileNotFoundError
    except FileNotFoundError:
        folder.mkdir(mode=0o700, exist_ok=True)
    else:
        if info.st_uid == os.getuid() and info.st_mode & 0o077:
            folder.chmod(0o700)


def put_aside(path: Path) -> Path:
    """Rename what stands at ``path``, whatever it is, so that its name is free; its new name.

    Raises OSError when it cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.aside-{time.time_ns()}")
    path.rename(aside)
    return aside


def read_file(path: Path, *, follow: bool = False) -> bytes:
    """The content of the regular file at ``path``: a FIFO is not waited at, a device not read for ever.

    Raises OSError. ``follow`` for what people may keep behind a link.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"it is {describe(mode)}, not a file", str(path))
        chunks = []
        while chunk := os.read(fd, 1 << 20):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def those_put_aside(state: State) -> list[Path]:
    """What :func:`put_aside` renamed below the state directory and is still there."""
    found = []
    for folder in (state.root, state.spool, state.log.parent):
        with suppress(OSError):
            found += sorted(folder.glob("*.aside-*"))
    return found


def open_file(path: Path, flags: int) -> int:
    """A descriptor of the regular file of ours at ``path``; what else stands there is put aside first.

    Never waits at a FIFO, never follows a link. Raises OSError.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for _ in range(3):
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV):
                raise
        else:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            os.close(fd)
        try:
            put_aside(path)
        except FileNotFoundError:
            continue  # Somebody else was faster.
    raise OSError(errno.EEXIST, "something that is no file stands there again and again", str(path))
