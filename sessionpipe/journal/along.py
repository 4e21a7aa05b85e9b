"""Recording a journal beside the copying of a stream, in a process of its own (:mod:`sessionpipe.stream.front`)."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sessionpipe.harnesses.pi_lines import Lines
from sessionpipe.journal.format import FAILED, TURN_WAIT_S
from sessionpipe.journal.pi_stream import PiStream
from sessionpipe.journal.recorder import COMPLETED, Outcome, Recorder
from sessionpipe.stream.frames import Chunk, End, Frame, Gap, Incoming, Signal
from sessionpipe.stream.front import Report

#: How long a stream on standard input may go on after a signal: as long as its turn, and a moment more.
LAST_WORDS_S: Final = TURN_WAIT_S + 1
_NOT_STARTED = frozenset((126, 127))


class Along:
    """Records one stream into ``out``; called by the front.

    ``options``: of the :class:`~sessionpipe.journal.recorder.Recorder`. ``session_file``: where the session is
    kept, if not where Pi keeps it. ``is_command``: the stream is a command's, which a signal to us ends; a
    stream on standard input is read on to the end of the turn that is going on.
    """

    def __init__(
        self, out: Path, options: Mapping[str, Any], session_file: Path | None, *, is_command: bool
    ) -> None:
        self._out = out
        self._options = options
        self._session_file = session_file
        self._is_command = is_command
        self._lines = Lines()
        self._recorder: Recorder | None = None
        self._stream: PiStream | None = None
        self._stop_at: float | None = None

    def __call__(self, incoming: Incoming) -> Report:
        """Read to the end, or to where it is to stop; what a person should be told."""
        try:
            outcome = self._record(incoming)
        except OSError as error:
            return Report(say=[f"nothing is recorded in {self._out}: {error.strerror}"])
        return Report(say=said(self._out, outcome) if outcome else [])

    def _record(self, incoming: Incoming) -> Outcome | None:
        while True:
            if self._stop_at is not None and self._recorder is not None:
                left = self._stop_at - time.monotonic()
                if left <= 0 or not self._recorder.in_turn:
                    incoming.close()
                    return self._recorder.close(wait=0)
                if not select.select([incoming], [], [], left)[0]:
                    continue
            for frame in incoming.read():
                if isinstance(frame, End):
                    return self._end(frame)
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        recorder, stream = self._begin()
        if isinstance(frame, Chunk):
            for line in self._lines.feed(frame.data):
                stream.line(line, frame.at_ms / 1000)
                recorder.pace()
            if self._lines.skipped:
                recorder.fail("line_too_long", "a line of the stream is longer than 64 MiB")
        elif isinstance(frame, Gap):
            self._lines.gap()
            recorder.fail("source_failed", "the stream came faster than it could be read")
        elif isinstance(frame, Signal) and not self._is_command:
            now = time.monotonic()
            self._stop_at = now if self._stop_at is not None else now + TURN_WAIT_S

    def _end(self, end: End) -> Outcome | None:
        if self._recorder is None and self._is_command and end.status in _NOT_STARTED:
            return None  # There was no run: the folder stays empty, to be used again.
        recorder, stream = self._begin()
        for line in self._lines.finish():
            stream.line(line, end.at_ms / 1000)
        return recorder.end(FAILED if end.status or end.signalled else COMPLETED)

    def _begin(self) -> tuple[Recorder, PiStream]:
        if self._recorder is None or self._stream is None:
            self._recorder = Recorder(self._out, **self._options)
            self._stream = PiStream(self._recorder, self._session_file)
        return self._recorder, self._stream


def said(out: Path, outcome: Outcome) -> list[str]:
    """What a person is told of how a recording ended: nothing, when all is there."""
    if outcome.failure is None and outcome.said:
        return []
    why = outcome.failure.message if outcome.failure else "its manifest could not be written"
    say = [f"the journal in {out} is not complete: {why}"]
    return (
        say
        if outcome.said
        else [*say, f"that could not be written there; {out}/session is not to be relied on"]
    )
