"""What a harness's file said last of what changes: read once, and then only what was appended.

Kept by :meth:`~sessionpipe.harnesses.files.Files.learn` for each file, so that a burst of hooks costs what is
new in it.
"""

from __future__ import annotations

from typing import ClassVar

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Opened

#: How far back a first look goes, and how much of what was appended one look takes.
TAIL = 256 << 10


class Tail:
    """The lines at the end of a file, looked at once each."""

    #: Most lines are large and say nothing here; what holds none of these is not decoded.
    SAYING: ClassVar[tuple[bytes, ...]]

    def __init__(self) -> None:
        self._read: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether nothing was looked at yet."""
        return self._read is None

    def begins(self, opened: Opened) -> int | None:
        """Where what counts of the file begins; None when that is not written yet."""
        return 0

    def see(self, line: bytes) -> None:
        """A line that holds one of :attr:`SAYING`."""
        raise NotImplementedError

    def pass_by(self, line: bytes) -> None:
        """Any line, before it is seen; for what can be had of it without decoding it."""

    def catch_up(self, opened: Opened | None) -> None:
        """Look at the lines behind those already seen, and close the file; nothing where there is none."""
        if opened is None:
            return
        with opened:
            start = self._read if self._read is not None and self._read <= opened.size else None
            start = self.begins(opened) if start is None else start
            if start is None:
                return
            if opened.size - start > TAIL:
                start = opened.size - TAIL
                # Into the middle of a line, most likely.
                start += opened.read_at(start, TAIL).find(b"\n") + 1
            self._read = start
            for line in jsonl.forward(opened, start):
                self._read = line.end
                self.pass_by(line.data)
                if any(name in line.data for name in self.SAYING):
                    self.see(line.data)
