"""What was received and isn't on disk yet: bounded in records and in bytes.

A record counts from its receipt until it is written, whether it stands in line here or is held back by
the writer for an id or for the end of a block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sessionpipe.journal.format import QUEUE_BYTES, QUEUE_RECORDS

Work = Callable[[], None]


class Backlog:
    """Work for the writer, in order. Whoever adds to it never waits, unless it asks to."""

    def __init__(self, records: int = QUEUE_RECORDS, size: int = QUEUE_BYTES) -> None:
        self._limits = (records, size)
        self._changed = threading.Condition()
        self._work: list[Work] = []
        self._records = 0
        self._bytes = 0
        self._in_line = 0  # bytes
        #: Goes up whenever something was taken or written.
        self.moved = 0
        self._closed = False

    def put(self, work: Work, size: int) -> bool:
        """Add one record's work; False when that would be more than may wait."""
        with self._changed:
            if self._closed:
                return True
            if self._records + 1 > self._limits[0] or self._bytes + size > self._limits[1]:
                return False
            self._records += 1
            self._bytes += size
            self._in_line += size
            self._work.append(work)
            self._changed.notify_all()
            return True

    def add(self, work: Work) -> None:
        """Add work that is no record's, whatever waits."""
        with self._changed:
            self._work.append(work)
            self._changed.notify_all()

    def take(self, wait: bool) -> list[Work]:
        """Everything that stands in line; with ``wait`` at least something."""
        with self._changed:
            while wait and not self._work:
                self._changed.wait()
            taken, self._work, self._in_line = self._work, [], 0
            self.moved += len(taken)
            self._changed.notify_all()
            return taken

    def done(self, records: int, size: int) -> None:
        """That many records and bytes are written."""
        with self._changed:
            self._records -= records
            self._bytes -= size
            self.moved += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more: what waits is dropped, what comes is not kept, and nobody waits for room."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()

    @property
    def crowded(self) -> bool:
        """Whether half of what may wait does."""
        with self._changed:
            return self._records * 2 > self._limits[0] or self._bytes * 2 > self._limits[1]

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until no more than an eighth of the limits stands in line; False when nothing moved so long."""
        with self._changed:
            while not self._closed and (
                len(self._work) * 8 > self._limits[0] or self._in_line * 8 > self._limits[1]
            ):
                before = self.moved
                if not self._changed.wait(seconds) and self.moved == before:
                    return False
            return True
