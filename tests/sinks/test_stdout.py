"""The stdout sink: lines for a pipe, harmless to a terminal."""

from __future__ import annotations

import json
import os

from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Pause
from sessionpipe.sinks.stdout import StdoutSink


def batch(*texts: str) -> Batch:
    return Batch("msg", tuple(json.dumps({"t": t}, ensure_ascii=False).encode() for t in texts), texts)


def test_one_event_a_line() -> None:
    reading, writing = os.pipe()
    assert StdoutSink(writing).send(batch("a", "b")) == Acked()
    os.close(writing)
    with os.fdopen(reading, "rb") as out:
        assert out.read() == b'{"t": "a"}\n{"t": "b"}\n'


def test_what_a_terminal_would_obey_is_escaped_and_reads_the_same() -> None:
    reading, writing = os.pipe()
    StdoutSink(writing).send(batch("\x9b31m\x7f é \u0080 \u202e"))
    os.close(writing)
    with os.fdopen(reading, "rb") as out:
        line = out.read()
    assert not any(0x7F <= ord(c) <= 0x9F or c == "\u202e" for c in line.decode())
    assert json.loads(line) == {"t": "\x9b31m\x7f é \u0080 \u202e"}


def test_a_reader_that_left_ends_it_for_this_process_only() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = StdoutSink(writing).send(batch("a"))
    os.close(writing)
    assert isinstance(found, Pause) and not found.lasting and "stdout is closed" in found.reason
