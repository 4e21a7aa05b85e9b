"""Recorded streams of Pi's, as ``conformance/README.md`` describes their files, and what is made of them.

``python -m tests.streams`` writes every scenario's ``expected.ndjson`` and ``normalized.ndjson`` anew, for a
person to read what has changed.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from sessionpipe.harnesses.pi_stream import parse
from sessionpipe.ingest import Recorder, redacted
from sessionpipe.outbox import Outbox, encode
from sessionpipe.paths import State, data_dir
from sessionpipe.stream.frames import Chunk, End, Frame, Incoming
from sessionpipe.stream.frames import encode as frame

HOME = "/home/dev"


class Stream(NamedTuple):
    """A recorded stream, and how it came: a line every ``step_ms`` from ``at_ms`` on, until the end as told."""

    folder: Path
    lines: list[bytes]
    at_ms: int
    step_ms: int
    signalled: bool
    status: int | None

    def frames(self) -> list[Frame]:
        times = [self.at_ms + number * self.step_ms for number in range(len(self.lines) + 1)]
        chunks = [Chunk(at, line + b"\n") for at, line in zip(times, self.lines, strict=False)]
        return [*chunks, End(times[-1], self.signalled, self.status)]


def scenarios() -> list[Path]:
    """Every scenario of ``conformance/ingest``."""
    return sorted(path for path in data_dir("conformance").glob("ingest/pi/*") if path.is_dir())


def load(folder: Path) -> Stream:
    case = json.loads((folder / "case.json").read_text("utf-8"))
    lines = [line for line in (folder / "stdout.ndjson").read_bytes().split(b"\n") if line]
    return Stream(folder, lines, case["at_ms"], case["step_ms"], case["signalled"], case["status"])


def ingest(state: State, frames: Iterable[Frame], *, since_ms: int | None = None) -> list[str]:
    """Put frames through the real recorder into the outbox of ``state``; what it had to say.

    ``since_ms``: when the stream was begun to be read, the first frame's time unless given.
    """
    if since_ms is None:
        frames = list(frames)
        since_ms = frames[0].at_ms
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for one in frames:
                pipe.write(frame(one))

    thread = threading.Thread(target=write)
    thread.start()
    recorder = Recorder(state, rouse=lambda _: None, env={"HOME": HOME}, cwd=None, since_ms=since_ms)
    incoming = Incoming(reading)
    try:
        return recorder(incoming).say
    finally:
        thread.join()
        incoming.close()


def events(state: State) -> list[dict[str, Any]]:
    """What is in the outbox."""
    outbox = Outbox.look(state.outbox)
    if outbox is None:
        return []
    try:
        return [json.loads(row.body) for row in outbox.read(0, 100_000, 1 << 30)]
    finally:
        outbox.close()


def recorded(stream: Stream, state: State) -> list[dict[str, Any]]:
    """The events a scenario becomes, with ``*`` for their ids."""
    ingest(state, stream.frames())
    return [{**event, "id": "*"} for event in events(state)]


def normalized(stream: Stream) -> list[dict[str, Any]]:
    """The normalized events a scenario becomes, as ``--normalized`` prints them."""
    return [json.loads(encode(redacted(event))) for event in parse(stream.lines)]


def expected(folder: Path, name: str) -> list[dict[str, Any]]:
    text = (folder / name).read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def told(found: Iterable[dict[str, Any]]) -> list[str]:
    """Each event in a word or two: its type, and the word that tells it from others of its type."""
    telling = ("tool", "source", "reason", "trigger", "user")
    return [
        " ".join(
            [event["type"], *(str(event["data"][name]) for name in telling if name in event["data"])][:2]
        )
        for event in found
    ]


if __name__ == "__main__":
    for folder in scenarios():
        with tempfile.TemporaryDirectory() as root, mock.patch("os.uname") as uname:
            uname.return_value.nodename = "laptop"
            os.environ["SESSIONPIPE_CONFIG_DIR"] = root
            stream = load(folder)
            for name, found in (
                ("expected", recorded(stream, State(Path(root) / "state"))),
                ("normalized", normalized(stream)),
            ):
                lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in found]
                (folder / f"{name}.ndjson").write_text("".join(lines), "utf-8")
                print(f"{folder.name}: {len(lines)} {name}")
