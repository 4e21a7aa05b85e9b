"""Every reader, held to what was recorded of its harness: each exchange once, whole, whenever it is looked."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sessionpipe import harnesses
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want
from tests.harnesses import devin_store, opencode_store
from tests.harnesses.recorded_transcripts import Reader, check, check_growing, fixtures


def as_it_is(harness: str) -> Reader:
    return harnesses.get(harness).exchanges


def left_alone(harness: str) -> Reader:
    """Of a file that says no ends, and that was last written long ago."""

    def read(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
        os.utime(str(path), (1, 1))
        return as_it_is(harness)(path, cursor, want, files)

    return read


def dateless(harness: str) -> Reader:
    """Of a file that says no times: an exchange has that of whoever looked."""

    def read(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
        reading = as_it_is(harness)(path, cursor, want, files)
        return reading._replace(exchanges=[each._replace(at="") for each in reading.exchanges])

    return read


def _rows(path: str | Path | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(str(path)).read_text("utf-8").splitlines()]


def from_devins_store(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    store = devin_store.Store(Path(str(path)).with_name("home"))
    for row in _rows(path):
        store.row(row.pop("table"), **row)
    return as_it_is("devin")(store.path, cursor, want._replace(session="amber-otter"), files)


def from_opencodes_store(
    path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files
) -> Reading:
    place = Path(str(path)).with_suffix(".db")
    place.unlink(missing_ok=True)
    store = opencode_store.Store(place)
    try:
        for row in _rows(path):
            store.put(row)
        return as_it_is("opencode")(place, cursor, want._replace(session=Path(str(path)).stem), files)
    finally:
        store.close()


#: What is read of each harness's recordings, and what of them while they grow byte by byte, which no store does.
READERS: dict[str, tuple[Reader, Reader | None]] = {
    "antigravity": (left_alone("antigravity"), left_alone("antigravity")),
    "claude-code": (as_it_is("claude-code"), as_it_is("claude-code")),
    "codex": (as_it_is("codex"), as_it_is("codex")),
    "copilot-cli": (as_it_is("copilot-cli"), as_it_is("copilot-cli")),
    "cursor": (as_it_is("cursor"), dateless("cursor")),
    "devin": (from_devins_store, None),
    "droid": (left_alone("droid"), left_alone("droid")),
    "gemini-cli": (as_it_is("gemini-cli"), as_it_is("gemini-cli")),
    "opencode": (from_opencodes_store, None),
    "pi": (as_it_is("pi"), as_it_is("pi")),
}
RECORDED = [(harness, fixture) for harness in READERS for fixture in fixtures(harness)]
every = pytest.mark.parametrize(
    ("harness", "fixture"), [pytest.param(*each, id=f"{each[0]}-{each[1].stem}") for each in RECORDED]
)
growing = pytest.mark.parametrize(
    ("harness", "fixture"),
    [pytest.param(*each, id=f"{each[0]}-{each[1].stem}") for each in RECORDED if READERS[each[0]][1]],
)


@every
def test_a_recorded_session_is_read_as_it_happened(harness: str, fixture: Path, tmp_path: Path) -> None:
    check(fixture, tmp_path, READERS[harness][0])


@growing
def test_looking_after_every_few_bytes_gives_the_same_exchanges_once_each(
    harness: str, fixture: Path, tmp_path: Path
) -> None:
    read = READERS[harness][1]
    assert read is not None
    check_growing(fixture, tmp_path, read)


def test_there_are_recordings_of_every_reader() -> None:
    counted = Counter(harness for harness, _ in RECORDED)
    assert counted.keys() == READERS.keys()
    assert counted >= Counter({"claude-code": 20, "codex": 8, "gemini-cli": 8, "pi": 18})
