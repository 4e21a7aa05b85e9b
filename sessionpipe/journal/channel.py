"""The way from our extension inside Pi to the recorder: a private pipe, one JSON object a line.

The pipe is a FIFO in a folder of its own (0700), named to Pi by an environment variable that the
extension takes out of Pi's environment at once. The extension (``adapters/pi/journal.js``) is given to Pi for
the one run by its ``--extension`` flag; nothing is installed. It takes each event's time itself, so how long
a line stands in the pipe doesn't matter.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from sessionpipe.harnesses.pi_lines import read
from sessionpipe.journal.recorder import Recorder
from sessionpipe.paths import data_dir


class _Stored(msgspec.Struct):
    """A line with an entry, which stays as Pi wrote it."""

    entry: msgspec.Raw
    key: Any = None
    t: Any = None


_STORED: Final = msgspec.json.Decoder(_Stored)
_IS_ENTRY: Final = b'{"type":"entry",'
VARIABLE: Final = "SESSIONPIPE_JOURNAL"
#: Larger than anything the extension lets wait.
_LONGEST = 32 << 20
_BLOCK = 1 << 20
_F_SETPIPE_SZ: Final = 1031  # Linux; `fcntl` names it only where it is


class Channel:
    """A pipe for one run of Pi; a context manager that removes it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sessionpipe-"))
        self._path = self._folder / "journal"
        os.mkfifo(self._path, 0o600)
        self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Held open, so that the pipe has an end only when we say so: a Pi that is started again inside
        # the command goes on where the last one stopped.
        self._writing = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        _widen(self._fd)
        self._over, self._tell = os.pipe()
        self._held = b""
        self._recorder: Recorder
        self._reader: threading.Thread | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What Pi's environment must have besides."""
        return {VARIABLE: str(self._path)}

    @property
    def words(self) -> list[str]:
        """What Pi's command line must have besides, at its end."""
        return ["--extension", str(data_dir("adapters") / "pi" / "journal.js")]

    def feed(self, recorder: Recorder) -> None:
        """Hand on what comes, and what came already, from now on."""
        self._recorder = recorder
        self._reader = threading.Thread(target=self._read, name="journal-channel", daemon=True)
        self._reader.start()

    def finish(self) -> None:
        """Pi has ended: hand on what is left."""
        if self._reader is not None:
            os.write(self._tell, b"\0")
            self._reader.join()
            self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()
        for fd in (self._fd, self._writing, self._over, self._tell):
            os.close(fd)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            more = True
            while more:
                more = self._take()
            if self._over in ready:
                return

    def _take(self) -> bool:
        """Read what is there; whether there was anything."""
        try:
            block = os.read(self._fd, _BLOCK)
        except BlockingIOError:
            return False
        except OSError:
            self._recorder.fail("source_failed", "the pipe from Pi can't be read")
            return False
        *lines, self._held = (self._held + block).split(b"\n")
        for line in lines:
            self._told(line)
        if len(self._held) > _LONGEST:
            self._held = b""
            self._recorder.fail("line_too_long", "what Pi told is longer than anything that is recorded")
        return bool(block)

    def _told(self, line: bytes) -> None:
        if line.startswith(_IS_ENTRY) and self._stored(line):
            self._recorder.pace()
            return
        event = read(line)
        kind = event.get("type") if event is not None else None
        if event is None or kind == "entry":
            self._recorder.miss("what Pi told can't be read")
        elif kind == "session_start":
            self._bind(event)
        elif kind == "link":
            self._recorder.link(event.get("key"), event.get("entry"))
        elif kind == "failed":
            self._recorder.fail("source_failed", str(event.get("message"))[:200])
        else:
            self._recorder.receive(event, _seconds(event.get("t")), len(line))
        # What is written there while we wait stays in the pipe, and then in the extension, which says
        # so when that is too much.
        self._recorder.pace()

    def _stored(self, line: bytes) -> bool:
        """Hand on an entry; False when it isn't one."""
        raw: bytes | None = None
        try:
            stored = _STORED.decode(line)
            raw = bytes(stored.entry)
            told = {"entry": read(raw), "key": stored.key, "t": stored.t}
        except (msgspec.DecodeError, RecursionError):
            told = read(line) or {}
        if not isinstance(entry := told.get("entry"), dict):
            return False
        self._recorder.entry(entry, raw=raw, key=told.get("key"), at=_seconds(told.get("t")), size=len(line))
        return True

    def _bind(self, event: dict[str, Any]) -> None:
        session, file, cwd = event.get("sessionId"), event.get("file"), event.get("cwd")
        if isinstance(session, str) and session:
            place = Path(file) if isinstance(file, str) and file else None
            self._recorder.bind(session, cwd=cwd if isinstance(cwd, str) else "", file=place)


def _seconds(milliseconds: object) -> float:
    """The extension's time as epoch seconds; what is none is now."""
    if isinstance(milliseconds, int | float) and 0 <= milliseconds < 1e14:
        return milliseconds / 1000
    return time.time()


def _widen(fd: int) -> None:
    """Let the pipe hold as much as it may, where that can be asked for."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, _F_SETPIPE_SZ, 1 << 20)
