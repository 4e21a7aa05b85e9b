"""Recorded transcripts (``conformance/transcripts``), read as they grew: what every reader is held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Exchange, Reading, Want, digest
from sessionpipe.paths import data_dir

Reader = Callable[[str | Path | None, dict[str, Any], Want, Files], Reading]

_NEVER = 2**52


def fixtures(harness: str) -> list[Path]:
    return sorted((data_dir("conformance") / "transcripts" / harness).glob("*.json"))


def check(fixture: Path, folder: Path, read: Reader) -> None:
    """Each reading of the recording returns the exchanges it shall, with a cursor that went through JSON."""
    told = json.loads(fixture.read_text(encoding="utf-8"))
    lines = fixture.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
    file = folder / told.get("file", f"{told['session']}.jsonl")
    cursor: dict[str, Any] = {}
    for at in told["reads"]:
        file.write_bytes(b"".join(lines[: at["lines"]]))
        want = Want(
            digest(at["said"] or ""),
            at["final"],
            jsonl.epoch_ms(told["since"]),
            jsonl.epoch_ms(at["ended"]) or 0,
        )
        reading = read(str(file), cursor, want, Files())
        assert [exchange._asdict() for exchange in reading.exchanges] == at["exchanges"]
        assert reading.complete == at["complete"]
        cursor = json.loads(json.dumps(reading.cursor))


def check_growing(fixture: Path, folder: Path, read: Reader) -> None:
    """Looking after every few bytes gives what reading all of it at once gives, once each."""
    told = json.loads(fixture.read_text(encoding="utf-8"))
    file = folder / told.get("file", f"{told['session']}.jsonl")
    text = fixture.with_suffix(".jsonl").read_bytes()
    file.write_bytes(text)
    at_once = read(file, {}, Want(None, True, None, _NEVER), Files()).exchanges
    file.write_bytes(b"")
    cursor: dict[str, Any] = {}
    found: list[Exchange] = []
    step = max(1, len(text) // 400)
    for size in range(0, len(text), step):
        with file.open("ab") as grown:
            grown.write(text[file.stat().st_size : size])
        reading = read(file, cursor, Want(None, False, None, 0), Files())
        cursor, found = reading.cursor, found + reading.exchanges
    file.write_bytes(text)
    found += read(file, cursor, Want(None, True, None, _NEVER), Files()).exchanges
    assert found == at_once
