"""An outbox that is damaged, or held by somebody else, while there is work: what a receiver sees of it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.outboxfile import those_set_aside, wal_of
from sessionpipe.pages import PAGE
from sessionpipe.spool import Spool
from tests.delivery.events import lines
from tests.e2e.bed import SESSION, Bed


def at_work(bed: Bed) -> None:
    """Two dozen tool calls recorded and delivered, and the cursor moved."""
    bed.settings()
    tools(bed, range(24))
    bed.finish("flush")


def tools(bed: Bed, numbers: range) -> None:
    now = int(time.time() * 1000)
    for number in numbers:
        bed.put(
            "PostToolUse",
            now + number,
            tool_name="Bash",
            tool_input={"command": "x" * 400},
            tool_response={"stdout": "y" * 800},
            tool_use_id=f"call {number}",
        )


def root_of(table: str) -> Callable[[Path], None]:
    """Noise in the page that a table begins with."""

    def spoil(path: Path) -> None:
        db = sqlite3.connect(path)
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        db.close()
        noise(path, page)

    return spoil


def noise(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(os.urandom(PAGE))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "the first page": lambda path: noise(path, 1),
    "the last page": lambda path: noise(path, path.stat().st_size // PAGE),
    "half of it missing": lambda path: os.truncate(path, path.stat().st_size // PAGE // 2 * PAGE),
    "all of it missing": lambda path: os.truncate(path, 0),
    "no database": lambda path: path.write_bytes(b"something else altogether\n" * 500),
    **{
        f"the root of {table}": root_of(table)
        for table in ("sessions", "events", "sinks", "jobs_done", "meta", "sqlite_sequence")
    },
}


@pytest.mark.parametrize("what", DAMAGES)
def test_work_goes_on_and_no_identity_is_used_for_two_events(bed: Bed, what: str) -> None:
    at_work(bed)
    before = lines(bed.out)
    DAMAGES[what](bed.state.outbox)
    # Its file is the person's own, moved away so that all that is sent again can be seen.
    bed.out.rename(bed.root / "before.ndjson")
    tools(bed, range(24, 30))

    first = bed.run("flush")
    assert first == 0, bed.said()

    after = lines(bed.out)
    identities: dict[tuple[str, int], dict[str, Any]] = {}
    for event in [*before, *after]:
        key = (event["session"]["id"], event["session"]["seq"])
        assert identities.setdefault(key, event) == event
    called = [event["data"]["call_id"] for event in after if event["type"] == "tool.ended"]
    assert [call for call in called if int(call.split()[1]) >= 24] == [f"call {n}" for n in range(24, 30)]
    if what not in ("the root of meta",):
        (aside,) = those_set_aside(bed.state.outbox)
        assert f"set aside as {aside}" in bed.problems()
        bed.run("doctor")
        assert f"rm {shlex.quote(str(aside))}" in bed.said()
        aside.unlink()
        assert bed.problems() == ""


@pytest.mark.parametrize("where", [0, 32, 32 + 24 + 100])
def test_noise_in_the_log_of_a_worker_that_was_killed(bed: Bed, where: int) -> None:
    at_work(bed)
    tools(bed, range(24, 26))
    assert bed.run("flush", fault="intake.unlinked") == -signal.SIGKILL
    wal = bytearray(wal_of(bed.state.outbox).read_bytes())
    wal[where : where + 24] = os.urandom(24)
    wal_of(bed.state.outbox).write_bytes(wal)
    tools(bed, range(26, 30))
    bed.finish("flush")
    delivered = lines(bed.out)
    seqs = [event["session"]["seq"] for event in delivered]
    assert len(set(seqs)) == len(seqs)
    called = {event["data"]["call_id"] for event in delivered if event["type"] == "tool.ended"}
    assert called >= {f"call {n}" for n in (*range(24), *range(26, 30))}


def test_nothing_is_forgotten_in_one_that_was_set_aside_and_that_is_said(bed: Bed) -> None:
    at_work(bed)
    root_of("events")(bed.state.outbox)
    # Nobody has read there yet.
    assert bed.run("forget", SESSION) == 1
    assert "is damaged" in bed.said()
    tools(bed, range(24, 25))
    bed.finish("flush")
    (aside,) = those_set_aside(bed.state.outbox)
    assert bed.run("forget", SESSION) == 1
    assert "erased" in bed.said()
    kept = shlex.quote(str(aside))
    assert (
        f"a damaged outbox that was set aside may still hold it and is not touched: rm {kept}" in bed.said()
    )
    aside.unlink()
    stored = b"".join(path.read_bytes() for path in bed.state.root.rglob("*") if path.is_file())
    assert b"yyyy" not in stored


def test_commands_that_cannot_wait_say_who_mends_it(bed: Bed) -> None:
    at_work(bed)
    noise(bed.state.outbox, 1)
    for command in (
        ("sinks", "resume", "notes"),
        ("forget", SESSION),
        ("tail", "--no-follow"),
        ("sessions",),
    ):
        assert bed.run(*command) == 1
        assert "is damaged" in bed.said() and "`sessionpipe flush`" in bed.said()
        assert "Traceback" not in bed.said()
    assert "is damaged" in bed.problems()
    assert bed.run("doctor") == 1
    assert "mend: sessionpipe flush" in bed.said()


def test_one_that_somebody_else_holds_is_waited_for(bed: Bed) -> None:
    at_work(bed)
    tools(bed, range(24, 26))
    other = sqlite3.connect(bed.state.outbox, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    assert bed.run("flush", patience=0.3, busy=0.05) == 1
    assert "database is locked" in bed.said()
    assert len(Spool(bed.state.spool).names()) == 2
    report = json.loads(bed.finish("status", "--json"))
    assert "database is locked" in "".join(report["problems"])
    other.close()
    bed.finish("flush")
    assert len([e for e in lines(bed.out) if e["type"] == "tool.ended"]) == 26
    assert those_set_aside(bed.state.outbox) == []
