"""The stdout sink: one event a line, for a pipe or for eyes."""

from __future__ import annotations

import os
import sys

from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Outcome, Pause
from sessionpipe.sinks.base import Setup, Sink
from sessionpipe.terminal import printable_json


class StdoutSink(Sink):
    """Writes NDJSON to standard output, whole batches at a time."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = fd

    @classmethod
    def make(cls, setup: Setup) -> StdoutSink:
        return cls()

    def limits(self) -> Limits:
        return Limits(max_events=200, max_bytes=1 << 20)

    def send(self, batch: Batch) -> Outcome:
        text = "".join(f"{printable_json(event.decode())}\n" for event in batch.events).encode()
        fd = sys.stdout.fileno() if self._fd is None else self._fd
        try:
            view = memoryview(text)
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:
            # Whoever read it is gone. The next process has its own stdout, so this pause is not kept.
            return Pause(f"stdout is closed ({error.strerror})", lasting=False)
        return Acked()
