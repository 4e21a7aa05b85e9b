"""A disk that is full, or that nothing may be written to: real file systems in memory, a few megabytes large."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.liveness import worker_trouble
from sessionpipe.outboxfile import RESERVE
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.delivery.events import START, keys, lines, record
from tests.e2e.bed import SESSION, Bed
from tests.e2e.forked import Forked
from tests.e2e.machine import wait_for
from tests.patience import PATIENCE_S

MB = 1 << 20


class Disk:
    """A file system of its own at ``path``."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(path)], capture_output=True
        )
        if done.returncode:
            pytest.skip("a file system cannot be mounted here")

    def option(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)

    @property
    def ballast(self) -> Path:
        return self.path / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with self.ballast.open("ab") as file:
            for size in (64 << 10, 4096, 1):
                try:
                    while True:
                        os.write(file.fileno(), b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        self.ballast.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=False)


@pytest.fixture
def disk(bed: Bed) -> Iterator[Disk]:
    """What the state directory is on."""
    disk = Disk(bed.root / "disk", 12 * MB)
    bed.state = State(disk.path / "state")
    bed.state.root.mkdir(mode=0o700)
    bed.settings()
    yield disk
    disk.close()


def now() -> int:
    return int(time.time() * 1000)


def tools(bed: Bed, *calls: str) -> None:
    for number, call in enumerate(calls):
        bed.put("PostToolUse", now() + number, tool_name="Bash", tool_input={}, tool_use_id=call)


def payload(bed: Bed, call: str) -> str:
    file = bed.root / "payload"
    body = {
        "session_id": SESSION,
        "transcript_path": "/nowhere/x.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {},
        "tool_use_id": call,
    }
    file.write_text(json.dumps(body))
    return str(file)


def hook(bed: Bed, call: str, **how: int) -> None:
    """A hook, which may never be noticed."""
    assert bed.run("hook", "claude-code", "PostToolUse", stdin=payload(bed, call), **how) == 0
    assert bed.said() == ""


def delivered(bed: Bed) -> list[str]:
    events = lines(bed.out) if bed.out.exists() else []
    return [event["data"]["call_id"] for event in events if event["type"] == "tool.ended"]


class TestSpool:
    def test_a_hook_without_room_is_silent_and_leaves_no_half_a_job(self, bed: Bed, disk: Disk) -> None:
        hook(bed, "before")
        disk.fill()
        for _ in range(3):
            hook(bed, "lost")
        spool = Spool(bed.state.spool)
        assert len(spool.names()) == 1
        assert list(spool.tmp.iterdir()) == []
        assert "the disk is full" in bed.problems()
        disk.free()
        hook(bed, "after")
        bed.finish("flush")
        assert delivered(bed) == ["before", "after"]

    def test_where_its_file_may_not_grow_it_is_silent_too(self, bed: Bed, disk: Disk) -> None:
        hook(bed, "lost", fsize=100)
        assert list(Spool(bed.state.spool).tmp.iterdir()) == []
        assert Spool(bed.state.spool).empty()


class TestOutbox:
    def test_what_waits_is_recorded_once_when_there_is_room_again(self, bed: Bed, disk: Disk) -> None:
        bed.finish("flush")
        tools(bed, "one", "two")
        disk.fill()
        assert bed.run("flush", patience=0.3) == 1
        assert "2 jobs not recorded yet" in bed.said()
        assert len(Spool(bed.state.spool).names()) == 2
        assert "the disk is full" in bed.problems()
        disk.free()
        bed.finish("flush")
        assert delivered(bed) == ["one", "two"]
        assert bed.problems() == ""

    def test_a_worker_waits_and_goes_on_by_itself_and_status_says_why(self, bed: Bed, disk: Disk) -> None:
        bed.finish("flush")
        tools(bed, "one")
        disk.fill()
        worker = threading.Thread(target=bed.run, args=("worker",))
        worker.start()
        trouble = wait_for(lambda: worker_trouble(bed.state), "the worker to say what it waits for")
        assert "full" in trouble
        disk.free()
        worker.join(PATIENCE_S)
        assert not worker.is_alive()
        assert delivered(bed) == ["one"]

    def test_a_new_one_cannot_be_made_and_jobs_wait(self, bed: Bed, disk: Disk) -> None:
        tools(bed, "one")
        disk.fill()
        assert bed.run("flush", patience=0.3) == 1
        assert "cannot be" in bed.said()
        assert {path.name for path in bed.state.root.glob("outbox*")} <= {"outbox.db.making"}
        disk.free()
        bed.finish("flush")
        assert delivered(bed) == ["one"]

    def test_where_its_file_may_not_grow_jobs_wait(self, bed: Bed, disk: Disk) -> None:
        bed.finish("flush")
        calls = [f"call {number}" for number in range(40)]
        tools(bed, *calls)
        # As much as SQLite's shared memory needs.
        assert bed.run("flush", fsize=33_000, patience=0.3) == 1
        assert "40 jobs not recorded yet" in bed.said()
        bed.finish("flush")
        assert delivered(bed) == calls


class TestMakingRoom:
    """On a full disk, with what is kept free for it."""

    @pytest.fixture(autouse=True)
    def large(self, bed: Bed, disk: Disk) -> None:
        with bed.outbox() as outbox:
            for _ in range(4):
                record(outbox, "tool.ended", {"output": "z" * 900}, session="large", at_ms=START, count=900)
            record(outbox, "tool.ended", {"output": "kept"}, session="kept", at_ms=now())
            outbox.add_sink("notes", outbox.last_position())
        tools(bed, "one")
        assert bed.state.outbox.with_name("outbox.db.reserve").stat().st_size == RESERVE
        disk.fill()

    def test_a_session_is_forgotten(self, bed: Bed, disk: Disk) -> None:
        assert "erased" in bed.finish("forget", "large")
        stored = b"".join(path.read_bytes() for path in bed.state.root.glob("outbox*"))
        assert b"z" * 100 not in stored
        assert [event["type"] for event in bed.events()] == ["tool.ended", "session.forgotten"]

    @pytest.mark.parametrize("passing", [1, 2, 7])
    def test_killed_between_two_steps_it_can_be_forgotten_again(
        self, bed: Bed, disk: Disk, passing: int
    ) -> None:
        died = bed.run("forget", "large", fault=f"forget.erased_some:{passing}")
        assert died == -signal.SIGKILL, bed.said()
        disk.free()
        # What was erased is gone; the session is still one that can be forgotten.
        assert 1 < len(bed.events()) < 3601
        bed.finish("forget", "large")
        assert [event["type"] for event in bed.events()] == ["tool.ended", "session.forgotten"]

    def test_old_events_go_and_what_waits_finds_room(self, bed: Bed, disk: Disk) -> None:
        assert bed.run("worker") == 0
        assert {event["session"]["id"] for event in bed.events()} == {"kept", SESSION}
        assert bed.state.outbox.stat().st_size < MB
        assert delivered(bed) == ["one"]


class TestFileSink:
    @pytest.fixture
    def small(self, bed: Bed) -> Iterator[Disk]:
        disk = Disk(bed.root / "small", 64 << 10)
        bed.out = disk.path / "events.ndjson"
        bed.settings()
        yield disk
        disk.close()

    def recorded(self, bed: Bed) -> list[tuple[str, int]]:
        bed.state.root.mkdir(mode=0o700, exist_ok=True)
        with bed.outbox() as outbox:
            return keys(record(outbox, "tool.ended", {"output": "y" * 400}, count=200))

    def test_without_room_it_holds_whole_lines_only_and_resumes_behind_them(
        self, bed: Bed, small: Disk
    ) -> None:
        events = self.recorded(bed)

        def reason() -> Any:
            """Why the sink waits; None while none of the flushes has come to it."""
            assert bed.run("flush", patience=0.3) == 1
            assert "not delivered" in bed.said()
            (sink,) = json.loads(bed.finish("status", "--json"))["sinks"]
            return sink["reason"]

        assert "No space left on device" in wait_for(reason, "a write that fails")
        held = keys(lines(bed.out))
        assert held == events[: len(held)]
        small.option("size=2m")
        bed.finish("flush")
        assert keys(lines(bed.out)) == events

    def test_where_the_file_may_not_grow_neither(self, bed: Bed) -> None:
        bed.settings()
        events = self.recorded(bed)
        bed.finish("sinks", "pause", "notes")
        bed.finish("flush")
        bed.finish("sinks", "resume", "notes")
        # Room for the outbox's own files, which are there already, and for half of the sink's.
        assert bed.run("flush", fsize=300_000, patience=0.3) == 1 or keys(lines(bed.out)) == events
        lines(bed.out)
        bed.finish("flush")
        assert keys(lines(bed.out)) == events

    def test_a_read_only_one_is_said_and_waited_for(self, bed: Bed, small: Disk) -> None:
        bed.out.touch()
        small.option("size=2m,ro")
        events = self.recorded(bed)

        def said() -> bool:
            assert bed.run("flush", patience=0.3) == 1
            return "Read-only file system" in bed.said()

        wait_for(said, "a write that fails")
        small.option("rw")
        bed.finish("flush")
        assert keys(lines(bed.out)) == events


class TestReadOnly:
    def test_a_read_only_state_directory(self, bed: Bed, disk: Disk) -> None:
        hook(bed, "before")
        disk.option("ro")
        hook(bed, "lost")
        assert bed.run("flush", patience=0.3) == 1
        assert "Read-only file system" in bed.said() or "read-only" in bed.said()
        assert "Traceback" not in bed.said()
        assert bed.run("worker") == 1
        assert "is on a read-only file system: hooks record nothing" in bed.problems()
        assert bed.run("doctor") == 1
        assert "is on a read-only file system" in bed.said()
        disk.option("rw")
        bed.finish("flush")
        assert delivered(bed) == ["before"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_a_state_directory_of_somebody_else(forked: Forked) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are for one user alone.
        bed = Bed(Path(folder) / "bed", forked)
        bed.state.root.mkdir(0o755)
        hook(bed, "lost", uid=65534)
        assert list(bed.state.root.iterdir()) == []
        assert bed.run("doctor", uid=65534) == 1
        said = f"{bed.state.root} belongs to user 0, not to you: hooks record nothing there"
        assert said in bed.said()
        assert bed.run("status", uid=65534) == 0
        assert said in bed.said()
