"""Recorded runs of the real Pi, and a journal recorded of one from each of its sources.

``conformance/journal/recordings/<scenario>``: the ``--mode json`` stream, what an extension saw, and the
session files as they were at the end; long texts are cut, the same everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from sessionpipe.journal.channel import Channel
from sessionpipe.journal.pi_stream import PiStream
from sessionpipe.journal.recorder import Outcome, Recorder
from sessionpipe.paths import data_dir
from tests.e2e.agents import node

RECORDINGS = data_dir("conformance") / "journal" / "recordings"
PLAYER = Path(__file__).with_name("player.mjs")
STREAMED = sorted(path.name for path in RECORDINGS.iterdir() if (path / "stdout.ndjson").exists())
SEEN = sorted(path.name for path in RECORDINGS.iterdir() if (path / "extension.ndjson").exists())


def lines(file: Path) -> list[dict[str, Any]]:
    """The objects of an NDJSON file."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]


def events(out: Path, part: str = "session") -> list[dict[str, Any]]:
    """The events of a recorded bundle."""
    return lines(out / part / "events.ndjson")


def entries(out: Path, part: str = "session") -> list[dict[str, Any]]:
    """Pi's entries that a bundle recorded."""
    return [line["entry"] for line in lines(out / part / "entries.ndjson")]


def capture(out: Path, part: str = "session") -> dict[str, Any]:
    """A capture's status."""
    value: dict[str, Any] = json.loads((out / part / "capture.json").read_text())
    return value


def record_stream(scenario: str, out: Path, **options: Any) -> Outcome:
    """Record a scenario's stream as it stands, with its session file where there is one."""
    folder = RECORDINGS / scenario
    file = folder / "session.jsonl"
    recorder = Recorder(out, **options)
    stream = PiStream(recorder, file if file.exists() else None, env={})
    for line in (folder / "stdout.ndjson").read_bytes().split(b"\n"):
        if line:
            stream.line(line, time.time())
            recorder.pace()
    return recorder.end()


def record_extension(scenario: str, out: Path, *how: str, **options: Any) -> tuple[Outcome, dict[str, Any]]:
    """Record a scenario from our extension in a bare node; also what the player says."""
    folder = RECORDINGS / scenario
    return record_played(folder / "extension.ndjson", folder, out, *how, **options)


def record_played(
    recording: Path, folder: Path, out: Path, *how: str, **options: Any
) -> tuple[Outcome, dict[str, Any]]:
    """Record what our extension makes of ``recording``; ``folder`` has its session files."""
    program = node(18)
    recorder = Recorder(out, **options)
    with Channel() as channel:
        channel.feed(recorder)
        extension = channel.words[-1]
        done = subprocess.run(
            [program, PLAYER, extension, recording, folder, *how],
            env={**os.environ, **channel.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return recorder.end(), told
