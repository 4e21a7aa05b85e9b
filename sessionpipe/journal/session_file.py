"""Pi's session file while Pi appends to it: the entries that came after recording began.

The file is made when the first user message ends, so it may not be there yet; and it may hold an older
part of the conversation, which is not recorded again. It is somebody else's: opened as
:mod:`sessionpipe.harnesses.files` opens everything, never followed through a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.pi_lines import read
from sessionpipe.harnesses.pi_store import chosen_folders, default_folder

# Pi's own: a UUID, or what `--session-id` may be.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TIME = re.compile(r"[0-9TZ:.+-]{10,40}")


class Lost(Exception):
    """The file is another one than before, or shorter; the message says which."""


class TooLarge(Exception):
    """An entry is larger than anything that is read here."""


class Entry(NamedTuple):
    """One entry: its line's bytes and what they say."""

    raw: bytes
    value: dict[str, Any]


def place(header: Mapping[str, Any], env: Mapping[str, str]) -> Path | None:
    """Where Pi keeps the session that a stream's header names, by ``env`` of the Pi that runs; None if unknown."""
    session, cwd, created = header.get("id"), header.get("cwd"), header.get("timestamp")
    if not (isinstance(session, str) and isinstance(cwd, str) and isinstance(created, str)):
        return None
    if not (_ID.fullmatch(session) and _TIME.fullmatch(created)):
        return None
    name = f"{re.sub('[:.]', '-', created)}_{session}.jsonl"
    folders = [*chosen_folders(env, Files()), default_folder(cwd, env)]
    # Not there yet when the session is new: then it will be where the person chose.
    return next((path for folder in folders if (path := folder / name).is_file()), folders[0] / name)


class SessionFile:
    """The session file of one conversation, read on from where it ended when recording began."""

    def __init__(self, path: Path, session: str) -> None:
        self.path = path
        self._session = session
        self._files = Files()
        # Held open, so that no other file can come to have its number.
        self._first: Opened | None = None
        self._at = 0
        #: Whether some of the file was there already, and may belong to what is recorded all the same.
        self.begun = False

    def begin(self) -> bool:
        """Take what is there for old; whether it is there."""
        with self._opened() or nullcontext() as opened:
            if opened is None:
                return False
            last = next(jsonl.backward(opened, opened.size), None)
            self._at = last.end if last else 0
            self.begun = self._at > 0
            return True

    def appended(self) -> Iterator[Entry]:
        """The entries that are new. Raises :class:`Lost` or :class:`TooLarge`."""
        with self._opened() or nullcontext() as opened:
            if opened is None:
                return
            for line in jsonl.forward(opened, self._at):
                self._at = line.end
                if not line.data and line.end - line.start > jsonl.MAX_LINE:
                    raise TooLarge("an entry of the session file is longer than 16 MiB")
                if (value := read(line.data)) is not None and value.get("type") != "session":
                    yield Entry(line.data, value)

    def rewind(self, message: Mapping[str, Any]) -> bool:
        """Go back to the entry of the run's first ``message``, if it was there already; whether it was.

        That is how it is when the stream is read later than it was written, if only by the moment in
        which Pi makes the file. When it is the first message of the file, what stands before it belongs to
        it, too. Looked for once.
        """
        with self._opened() or nullcontext() as opened:
            if opened is None or not self.begun:
                return False
            self.begun = False
            sign = b"%d" % time if isinstance(time := message.get("timestamp"), int) else b""
            found: list[int] = []
            first: int | None = None
            for line in jsonl.forward(opened):
                if line.start >= self._at:
                    break
                if first is not None and sign not in line.data:
                    continue
                value = read(line.data) or {}
                if value.get("type") != "message":
                    continue
                first = line.start if first is None else first
                if value.get("message") == message:
                    found.append(line.start)
            if len(found) != 1:
                return False
            self._at = 0 if found[0] == first else found[0]
            return True

    def close(self) -> None:
        """Read no more of it."""
        if self._first is not None:
            with self._first:
                self._first = None

    def _opened(self) -> Opened | None:
        opened = self._files.open(self.path)
        if opened is None:
            if self._first is not None:
                raise Lost("the session file is gone")
            return None
        if self._first is None:
            # The first line says whose it is; until it is there, nothing is.
            head = next(jsonl.forward(opened), None)
            header = read(head.data) if head is not None else None
            if header is None or header.get("type") != "session" or header.get("id") != self._session:
                with opened:
                    return None
            self._first = opened
            return self._files.open(self.path)
        if opened.identity != self._first.identity or opened.size < self._at:
            with opened:
                raise Lost("the session file was replaced or cut")
        return opened
