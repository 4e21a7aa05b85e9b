"""Who works: the lock one worker holds, and the FIFO it listens on.

Imported before anything heavy, because a worker that loses the lock should have cost nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from pathlib import Path

from sessionpipe.paths import State
from sessionpipe.places import open_file, put_aside

#: The descriptor on which a hook hands the FIFO's reading end to the worker it starts.
INHERITED = 3
#: How many bytes a worker says of its trouble at most.
_SAID = 1000
#: The third line that a worker writes into its lock when it listens no more.
_LEAVING = "leaving"


class Lock:
    """``flock`` on the worker's lock file; the kernel lets go of it however the process ends."""

    def __init__(self, state: State) -> None:
        self._path = state.lock
        self._fd: int | None = None

    def acquire(self, patience_s: float = 0) -> bool:
        """Take the lock, waiting at most ``patience_s`` for it; whether it is held now."""
        deadline = time.monotonic() + patience_s
        # A link or a FIFO in its place keeps nobody out who matters: no worker ever holds one, so it is
        # put aside, and what a worker holds is looked for by name again (:meth:`still_there`).
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT)
        while not _locked(fd):
            if time.monotonic() >= deadline:
                os.close(fd)
                return False
            time.sleep(0.02)
        self._fd = fd
        self.say("")
        return True

    def say(self, trouble: str, *, leaving: bool = False) -> None:
        """Write down who works, and what keeps it from its work just now, for `status` and people.

        ``leaving``: it listens no more, and whoever waits for the lock will have it.
        """
        line = trouble.replace("\n", " ").encode("utf-8", "replace")[:_SAID]
        text = b"%d\n%s\n%s" % (os.getpid(), line, _LEAVING.encode() if leaving else b"")
        # A full disk may have no room for it: no reason not to work, which would make room.
        with contextlib.suppress(OSError):
            if self._fd is not None:
                os.pwrite(self._fd, text, 0)
                os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        """Let go of the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def still_there(self) -> bool:
        """Whether the file that is locked is still the one others would lock.

        When somebody removed the state directory, what this worker holds keeps nobody out any more.
        """
        try:
            named = self._path.lstat()
        except OSError:
            return False
        held = os.fstat(self._fd) if self._fd is not None else None
        return held is not None and (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _locked(fd: int) -> bool:
    """Take the lock on ``fd`` unless a worker has it."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            pass
        # Somebody who only looks whether a worker lives holds it shared, for a moment. Taken for a
        # worker, it would send away the one that was started, and leave a job to nobody.
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.001)


class Fifo:
    """The FIFO a worker listens on: whoever opens it for writing knows that somebody reads."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = Path(path)
        self._reading: int | None = None
        self._writing: int | None = None
        # A byte must never go to a descriptor that was just closed: its number may already be the
        # outbox's. Reentrant, because a signal handler pokes too.
        self._guard = threading.RLock()

    def open(self, inherited: int | None = None) -> None:
        """Listen, on the ``inherited`` reading end if a hook handed one over."""
        if self._reading is not None:
            return
        self._make()
        flags = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        self._reading = os.open(self._path, os.O_RDONLY | flags)
        # A writing end of our own, or every hook that closes its end would leave us an end-of-file
        # that reads as "ready" for ever.
        self._writing = os.open(self._path, os.O_WRONLY | flags)
        if inherited is not None:
            # Ours is open before the hook's is closed: no hook of the burst finds no reader.
            os.close(inherited)

    def _make(self) -> None:
        """Make the FIFO; whatever else has its name is put aside."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISFIFO(self._path.lstat().st_mode):
                return
            put_aside(self._path)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self._path, 0o600)

    def still_there(self) -> bool:
        """Whether what is open is still what a hook would open."""
        try:
            named = self._path.lstat()
        except OSError:
            return False
        held = os.fstat(self._reading) if self._reading is not None else None
        return held is not None and (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)

    def fileno(self) -> int | None:
        """The reading end, for ``select``; None while closed."""
        return self._reading

    def drain(self) -> bytes:
        """The bytes that have come since the last time."""
        got = b""
        with contextlib.suppress(BlockingIOError):
            while self._reading is not None and (more := os.read(self._reading, 4096)):
                got += more
        return got

    def poke(self) -> None:
        """Make this process's own ``select`` return."""
        with self._guard, contextlib.suppress(OSError):
            if self._writing is not None:
                os.write(self._writing, b"i")

    def close(self) -> None:
        """Stop listening: from now on a hook starts a worker."""
        with self._guard:
            reading, writing = self._reading, self._writing
            self._reading = self._writing = None
            for fd in (reading, writing):
                if fd is not None:
                    os.close(fd)


def send(path: os.PathLike[str], byte: bytes) -> bool:
    """Write ``byte`` to a FIFO somebody reads; whether somebody does."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A regular file in its place would take any byte and tell nobody.
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        with contextlib.suppress(BlockingIOError):
            os.write(fd, byte)  # Full of earlier bytes: they will do.
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def inherited_fifo(state: State) -> int | None:
    """The descriptor a hook handed over, when this process was started by one."""
    try:
        handed, named = os.fstat(INHERITED), state.fifo.lstat()
    except OSError:
        return None
    same = (handed.st_dev, handed.st_ino) == (named.st_dev, named.st_ino)
    return INHERITED if same and stat.S_ISFIFO(handed.st_mode) else None


def worker_alive(state: State) -> tuple[bool, int | None]:
    """Whether a worker holds the lock, and its process id. Creates nothing."""
    said = _said(state)
    if said is None:
        return False, None
    pid = said.partition("\n")[0]
    return True, int(pid) if pid.isdigit() else None


def worker_trouble(state: State) -> str | None:
    """What keeps the worker that lives from its work just now, in its own words."""
    trouble = (_said(state) or "").split("\n")[1:2]
    return "".join(trouble).strip() or None


def worker_leaves(state: State) -> bool:
    """Whether the worker that holds the lock listens no more, and will let go of it in a moment."""
    return (_said(state) or "").split("\n")[2:3] == [_LEAVING]


def _said(state: State) -> str | None:
    """What the worker that holds the lock wrote into it; None when nobody holds it."""
    try:
        # NONBLOCK: a FIFO in its place would be waited at.
        fd = os.open(state.lock, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(fd, 32 + _SAID).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
    return None
