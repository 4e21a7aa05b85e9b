"""The worker's side of the spool: what a job file is, and what happens to what is none."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.spool import BadJob, Spool, parse

HEADER = b"v=1\0harness=codex\0event=Stop\0at_ms=7\0cwd=/w\0ppid=1"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "spool")
    spool.prepare()
    return spool


def put(spool: Spool, name: str, content: bytes = HEADER + b"\0\0{}") -> str:
    (spool.new / name).write_bytes(content)
    return name


class TestFormat:
    def test_a_whole_job(self) -> None:
        job = parse("n", HEADER + b"\0arg=a\0arg=\0env.HOME=/h=h\0partial=1\0\0{\0\0}")
        assert (job.harness, job.event, job.at_ms, job.cwd) == ("codex", "Stop", 7, "/w")
        assert (job.args, job.env, job.partial, job.payload) == (("a", ""), {"HOME": "/h=h"}, True, b"{\0\0}")

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"", "no end"),
            (HEADER, "no end"),
            (b"v=2\0harness=c\0\0", "version 1"),
            (b"v=1\0harness=c\0event=e\0\0", "at_ms"),
            (b"v=1\0harness=c\0event=e\0at_ms=soon\0\0", "at_ms"),
            (b"v=1\0nonsense\0\0", "without '='"),
        ],
    )
    def test_what_is_no_job_says_why(self, content: bytes, why: str) -> None:
        with pytest.raises(BadJob, match=why):
            parse("n", content)

    @given(st.binary(max_size=200))
    def test_no_bytes_raise_anything_else(self, content: bytes) -> None:
        try:
            parse("n", content)
        except BadJob:
            return

    @pytest.mark.parametrize(
        ("began", "took"),
        [
            (f"{1_700_000_000_000_000_000:020d}-7-ab.job", 12),
            (f"{1_700_000_001_000_000_000:020d}-7-ab.job", 0),  # the clock was set back
            ("one.job", None),
            ("x-7-ab.job", None),
        ],
    )
    def test_a_jobs_name_and_its_file_tell_how_long_its_hook_took(
        self, spool: Spool, began: str, took: int | None
    ) -> None:
        written = 1_700_000_000_012_345_678
        os.utime(spool.new / put(spool, began), ns=(written, written))
        assert spool.read(began).took_ms == took

    def test_bytes_that_are_no_text_survive_in_paths(self) -> None:
        job = parse("n", b"v=1\0harness=c\0event=e\0at_ms=1\0cwd=/\xff\0\0")
        assert os.fsencode(job.cwd) == b"/\xff"


class TestQueue:
    def test_names_come_in_bytewise_order_and_only_jobs(self, spool: Spool) -> None:
        for name in ("b.job", "a.job", "C.job", "x.tmp"):
            put(spool, name)
        assert spool.names() == ["C.job", "a.job", "b.job"]

    def test_a_missing_spool_is_empty(self, tmp_path: Path) -> None:
        assert Spool(tmp_path / "none").empty()

    def test_unlinking_what_is_gone_already_is_fine(self, spool: Spool) -> None:
        spool.unlink([put(spool, "a.job"), "b.job"])
        spool.sync()
        assert spool.empty()

    @pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
    def test_what_is_no_regular_file_is_never_opened_for_long(self, spool: Spool, kind: str) -> None:
        path = spool.new / "a.job"
        {
            "fifo": lambda: os.mkfifo(path),
            "directory": path.mkdir,
            "link": lambda: path.symlink_to("/etc/passwd"),
        }[kind]()
        with pytest.raises(BadJob):
            spool.read("a.job")
        spool.discard("a.job")
        assert spool.empty()

    def test_what_dead_hooks_left_half_written_is_swept_and_what_is_fresh_is_not(self, spool: Spool) -> None:
        old, fresh = spool.tmp / "old", spool.tmp / "fresh"
        old.write_bytes(b"")
        fresh.write_bytes(b"")
        os.utime(old, (time.time() - 3600,) * 2)
        spool.prepare()
        assert list(spool.tmp.iterdir()) == [fresh]


class TestRejected:
    def test_a_rejected_job_is_kept_with_its_reason(self, spool: Spool) -> None:
        job = parse("a.job", HEADER + b"\0\0[1]")
        spool.reject("a.job", "not an object", job=job, belongs_to="cursor")
        record = json.loads((spool.rejected / "a.json").read_bytes())
        assert record == {
            "reason": "not an object",
            "belongs_to": "cursor",
            "harness": "codex",
            "event": "Stop",
            "at_ms": 7,
            "payload": "[1]",
        }

    def test_it_is_redacted(self, spool: Spool) -> None:
        token = "ghp_" + "a1B2c3D4e5" * 4
        spool.reject("a.job", f"bad {token}", job=parse("a.job", HEADER + b"\0\0" + token[:40].encode()))
        assert token[:40] not in (spool.rejected / "a.json").read_text()

    def test_it_is_bounded_in_size_and_in_number(self, spool: Spool) -> None:
        for number in range(205):
            spool.reject(f"{number:03d}.job", "no")
        assert spool.rejected_names() == [f"{number:03d}.json" for number in range(5, 205)]
        spool.reject("big.job", "no", job=parse("big.job", HEADER + b"\0\0" + b"x " * 100_000))
        assert (spool.rejected / "big.json").stat().st_size < 70_000


class TestTrouble:
    def test_a_hook_that_renames_its_file_while_the_folder_is_swept_is_no_trouble(
        self, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (spool.tmp / "a.job").write_bytes(b"")
        with os.scandir(spool.tmp) as entries:
            listed = list(entries)
        (spool.tmp / "a.job").rename(spool.new / "a.job")
        monkeypatch.setattr("sessionpipe.spool._scan", lambda folder: iter(listed))
        spool.prepare()

    def test_what_may_be_a_job_is_not_called_none_because_it_cannot_be_read_just_now(
        self, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(spool, "a.job")

        def exhausted(*_args: object) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr("sessionpipe.spool.os.open", exhausted)
        with pytest.raises(OSError, match="Too many"):
            spool.read("a.job")

    def test_something_in_the_place_of_the_rejected_jobs_keeps_no_job_from_being_taken(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "spool").mkdir()
        (tmp_path / "spool" / "rejected").write_text("in the way")
        spool = Spool(tmp_path / "spool")
        spool.prepare()
        assert spool.read(put(spool, "a.job")).harness == "codex"

    def test_a_full_disk_is_not_filled_more_by_what_is_set_aside(
        self, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_args: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            spool.reject("a.job", "no")
        assert list(spool.tmp.iterdir()) == []

    def test_what_lies_where_a_rejected_job_is_written_is_not_written_into(
        self, spool: Spool, tmp_path: Path
    ) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        (spool.tmp / "a.job.rejected").symlink_to(victim)
        spool.reject("a.job", "no")
        assert victim.read_text() == "precious"
        assert spool.rejected_names() == ["a.json"]
