"""Intake: what a draft becomes, and what a batch of jobs leaves behind."""

from __future__ import annotations

import errno
import gc
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sessionpipe import firings
from sessionpipe.clock import now_ms
from sessionpipe.harnesses import Context, Exchange, Files, Harness, Reading, Want
from sessionpipe.intake import STUCK_S, Intake
from sessionpipe.outbox import Outbox
from sessionpipe.seal import seal
from sessionpipe.spool import Job, Spool
from sessionpipe.transcripts import TranscriptReader
from tests.schema import assert_valid

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


def job(event: str, at_ms: int, **payload: Any) -> bytes:
    body = {
        "session_id": SESSION,
        "transcript_path": f"/nowhere/{SESSION}.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": event,
        **payload,
    }
    header = f"v=1\0harness=claude-code\0event={event}\0at_ms={at_ms}\0cwd=/nowhere\0ppid=1\0env.HOME=/home/dev\0\0"
    return header.encode() + json.dumps(body).encode()


def _fail(error: Exception) -> Any:
    raise error


class Bench:
    """A spool, an outbox and an intake between them."""

    def __init__(self, root: Path) -> None:
        self.spool = Spool(root / "spool")
        self.spool.prepare()
        self.outbox = Outbox.open(root / "outbox.db")
        self.logged: list[str] = []
        self.count = 0

    def intake(self) -> Intake:
        return Intake(
            self.outbox,
            self.spool,
            machine=lambda: "m",
            log=lambda level, message: self.logged.append(message),
        )

    def put(self, content: bytes) -> str:
        self.count += 1
        name = f"{self.count:020d}.job"
        (self.spool.new / name).write_bytes(content)
        return name

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(row.body) for row in self.outbox.read(0, 1000)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.outbox.close()


class TestFirings:
    def test_a_hook_that_fired_counts_once_whatever_it_means(self, bench: Bench) -> None:
        bench.put(job("Stop", 20))
        bench.put(job("PostCompact", 10))
        bench.put(b"no job")
        bench.intake().run()
        told = firings.read(bench.outbox.note(firings.KEY))["claude-code"].events
        assert {name: (event.last_ms, event.count) for name, event in told.items()} == {
            "Stop": (20, 1),
            "PostCompact": (10, 1),
        }

    def test_a_job_that_was_recorded_before_does_not_count_again(self, bench: Bench) -> None:
        name = bench.put(job("Stop", 20))
        content = (bench.spool.new / name).read_bytes()
        bench.intake().run()
        # Its unlink was lost in a power cut, and its done-mark not yet pruned.
        with bench.outbox.transaction() as tx:
            tx.mark_done([name])
        (bench.spool.new / name).write_bytes(content)
        intake = bench.intake()
        (bench.spool.new / name).write_bytes(content)
        intake.run()
        assert firings.read(bench.outbox.note(firings.KEY))["claude-code"].events["Stop"].count == 1


class TestBatches:
    def test_a_session_is_opened_before_anything_else_of_it(self, bench: Bench) -> None:
        bench.put(job("UserPromptSubmit", 10, prompt="hello", prompt_id="p"))
        assert bench.intake().run() == 1
        events = bench.events()
        assert [(e["type"], e["session"]["seq"]) for e in events] == [
            ("session.started", 0),
            ("turn.started", 1),
        ]
        assert events[0]["data"] == {"source": "unknown"}
        assert events[1]["session"]["machine"] == "m"
        for event in events:
            assert_valid(event)

    def test_a_session_keeps_the_name_of_its_first_ask(self, bench: Bench) -> None:
        bench.put(job("UserPromptSubmit", 10, prompt="mend the login page", prompt_id="p"))
        bench.put(job("UserPromptSubmit", 20, prompt="and the logout page", prompt_id="q"))
        bench.intake().run()
        assert {e["session"].get("title") for e in bench.events()} == {"mend the login page"}

    def test_a_session_was_first_seen_when_it_happened_not_when_the_hook_ran(self, bench: Bench) -> None:
        payload = {
            "event": "agent_start",
            "t": 1_000.5,
            "ev": {},
            "ctx": {"sessionId": "s"},
            "run": {"id": "r"},
        }
        header = b"v=1\0harness=pi\0event=agent_start\0at_ms=1300\0cwd=/nowhere\0ppid=1\0\0"
        bench.put(header + json.dumps(payload).encode())
        bench.intake().run()
        (session,) = bench.outbox.sessions()
        assert (session.harness, session.first_ms) == ("pi", 1_000)

    @pytest.mark.parametrize("field", ["prompt_id", "tool_use_id", "agent_id"])
    def test_an_id_that_is_a_credential_is_neither_sent_nor_remembered(
        self, bench: Bench, tmp_path: Path, field: str
    ) -> None:
        token = "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))
        calls = {"prompt_id": "p", "tool_use_id": "c", field: token}
        for event in ("PreToolUse", "PermissionRequest", "PostToolUse"):
            bench.put(job(event, 10, tool_name="Bash", tool_input={"command": "ls"}, **calls))
            bench.intake().run()
            kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
            assert token.encode() not in kept
        told = [e["type"] for e in bench.events()]
        assert told[-3:] == ["attention.needed", "attention.cleared", "tool.ended"]

    def test_the_files_go_and_the_marks_after_them(self, bench: Bench) -> None:
        bench.put(job("Stop", 10, prompt_id="p"))
        intake = bench.intake()
        intake.run()
        assert bench.spool.empty()
        assert len(bench.outbox.marks()) == 1
        intake.finish()
        assert bench.outbox.marks() == []

    def test_a_job_recorded_by_a_worker_that_died_is_not_recorded_again(self, bench: Bench) -> None:
        content = job("Stop", 10, prompt_id="p")
        name = bench.put(content)
        bench.intake().run()
        before = bench.events()
        (bench.spool.new / name).write_bytes(content)
        bench.intake().run()
        assert bench.events() == before
        assert bench.spool.empty()

    def test_jobs_from_before_a_session_was_forgotten_are_dropped(self, bench: Bench) -> None:
        bench.put(job("UserPromptSubmit", 10, prompt="a"))
        bench.intake().run()
        bench.outbox.forget("claude-code", SESSION, 100, 1, lambda seq: b'{"forgotten": true}')
        bench.put(job("Stop", 99))
        bench.put(job("UserPromptSubmit", 101, prompt="b"))
        bench.intake().run()
        rows = [(row.seq, row.type) for row in bench.outbox.read(0, 100)]
        assert rows == [(2, "session.forgotten"), (3, "session.started"), (4, "turn.started")]

    def test_one_job_that_cannot_be_recorded_does_not_hold_up_the_others(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def seal_or_not(one: dict[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
            if one["data"].get("prompt_chars") == 6:
                raise ValueError("a fault of ours")
            return seal(one, *args, **kwargs)

        monkeypatch.setattr("sessionpipe.intake.seal", seal_or_not)
        for prompt in ("one", "poison", "three"):
            bench.put(job("UserPromptSubmit", 10, prompt=prompt))
        assert bench.intake().run() == 3
        assert [e["data"].get("prompt_chars") for e in bench.events() if e["type"] == "turn.started"] == [
            3,
            5,
        ]
        assert len(bench.spool.rejected_names()) == 1
        assert bench.spool.empty()

    def test_a_database_that_fails_loses_nothing(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.put(job("Stop", 10))
        intake = bench.intake()

        def full(*args: Any, **kwargs: Any) -> dict[str, Any]:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patched:
            patched.setattr("sessionpipe.intake.seal", full)
            with pytest.raises(sqlite3.OperationalError):
                intake.run()
        assert not bench.spool.empty()
        assert intake.run() == 1
        assert len(bench.events()) == 2

    def test_what_cannot_be_claimed_names_whose_it_is_in_the_log(self, bench: Bench) -> None:
        bench.put(b"v=1\0harness=claude-code\0event=Stop\0at_ms=1\0\0" + b'{"session_id": "short"}')
        bench.intake().run()
        assert "set aside" in bench.logged[0]
        assert bench.events() == []

    def test_no_session_row_is_left_by_what_opened_none(self, bench: Bench) -> None:
        notify = json.dumps(
            {
                "type": "agent-turn-complete",
                "thread-id": "01a22870-8eab-7c10-a6bc-f818ba12474d",
                "turn-id": "t",
                "cwd": "/w",
                "input-messages": [],
                "last-assistant-message": "x",
            }
        )
        bench.put(f"v=1\0harness=codex\0event=notify\0at_ms=1\0cwd=/w\0arg={notify}\0\0".encode())
        bench.intake().run()
        assert bench.outbox.count() == (0, 0)
        assert bench.spool.rejected_names() == []


class TestAnothersEntry:
    """Several agents run the hooks they find in Claude Code's settings, with payloads of their own."""

    CURSOR: ClassVar[dict[str, Any]] = {
        "conversation_id": SESSION,
        "generation_id": "g-1",
        "cursor_version": "9.9.9",
        "workspace_roots": ["/nowhere"],
        "tool_name": "Shell",
        "tool_input": {"command": "ls"},
        "tool_use_id": "tu-1",
    }

    def hook(self, entry: str, event: str, at_ms: int, **payload: Any) -> bytes:
        body = {**self.CURSOR, "hook_event_name": "preToolUse", **payload}
        header = f"v=1\0harness={entry}\0event={event}\0at_ms={at_ms}\0cwd=/\0ppid=1\0\0"
        return header.encode() + json.dumps(body).encode()

    def test_it_is_recorded_as_the_session_of_the_agent_it_belongs_to(self, bench: Bench) -> None:
        bench.put(self.hook("claude-code", "PreToolUse", 10))
        bench.intake().run()
        events = bench.events()
        assert [(e["harness"]["name"], e["type"]) for e in events] == [
            ("cursor", "session.started"),
            ("cursor", "tool.started"),
        ]
        for event in events:
            assert_valid(event)
        assert bench.spool.rejected_names() == []

    @pytest.mark.parametrize("first", ["claude-code", "cursor"])
    def test_where_its_own_entry_tells_it_too_it_is_recorded_once(self, bench: Bench, first: str) -> None:
        entries = [("claude-code", "PreToolUse"), ("cursor", "preToolUse")]
        for number in range(3):
            for entry, event in sorted(entries, key=lambda e: e[0] != first):
                bench.put(self.hook(entry, event, 10 + number, tool_use_id=f"tu-{number}"))
                bench.intake().run()
        calls = [e["data"]["call_id"] for e in bench.events() if e["type"] == "tool.started"]
        assert calls == ["tu-0", "tu-1", "tu-2"]

    def test_what_its_own_harness_has_no_event_for_is_set_aside_and_says_whose_it_is(
        self, bench: Bench
    ) -> None:
        bench.put(self.hook("claude-code", "PermissionRequest", 10, hook_event_name="PermissionRequest"))
        bench.intake().run()
        assert bench.events() == []
        assert "(it is cursor's)" in bench.logged[0]
        assert len(bench.spool.rejected_names()) == 1

    def test_it_says_nothing_of_the_hooks_of_the_agent_whose_entry_it_was(self, bench: Bench) -> None:
        bench.put(self.hook("claude-code", "PreToolUse", 10))
        bench.intake().run()
        assert firings.read(bench.outbox.note(firings.KEY)) == {}


class TestToldByFiles:
    """What no hook told, and where a transcript is that no payload names."""

    @pytest.fixture
    def codex(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """Codex as a harness whose files say what the test puts here."""
        said: dict[str, Any] = {"ends": [], "transcript": None}

        def missed(drafts: list[Any], context: Context, files: Files) -> list[Any]:
            first = drafts[0]
            ends = [
                {**first, "type": "turn.ended", "at_ms": at, "data": data, "memo": {"only_running": True}}
                for at, data in said["ends"]
                if at <= first["at_ms"]
            ]
            return [*ends, *drafts]

        def exchanges(path: Any, cursor: Any, want: Want, files: Files) -> Reading:
            said["read"] = (path, want.session)
            told = [Exchange("ask", "answer", "2026-11-29T18:14:41.342Z")] if not cursor else []
            return Reading(told, {"read": 1}, complete=True)

        harness = Harness(missed=missed, transcript=lambda *_: said["transcript"], exchanges=exchanges)
        monkeypatch.setattr("sessionpipe.harnesses.get", lambda name: harness)
        return said

    @staticmethod
    def hook(event: str, at_ms: int, **payload: Any) -> bytes:
        body = {"session_id": SESSION, "cwd": "/nowhere", **payload}
        return (
            f"v=1\0harness=codex\0event={event}\0at_ms={at_ms}\0cwd=/\0ppid=1\0\0".encode()
            + json.dumps(body).encode()
        )

    def test_an_end_that_every_hook_finds_in_a_file_is_recorded_once_before_what_the_hook_tells(
        self, bench: Bench, codex: dict[str, Any]
    ) -> None:
        codex["ends"] = [(200, {"reason": "interrupt", "turn_id": "t1"})]
        bench.put(self.hook("UserPromptSubmit", 100, prompt="a", turn_id="t1"))
        for at, turn in ((300, "t2"), (400, "t2"), (500, "t3")):
            bench.put(self.hook("UserPromptSubmit", at, prompt="b", turn_id=turn))
            bench.intake().run()
        told = [(e["type"], e["data"].get("turn_id"), e["data"].get("ms")) for e in bench.events()[1:]]
        assert told == [
            ("turn.started", "t1", None),
            ("turn.ended", "t1", 100),
            ("turn.started", "t2", None),
            ("turn.started", "t2", None),
            ("turn.started", "t3", None),
        ]
        for event in bench.events():
            assert_valid(event)

    def test_an_end_of_before_we_were_there_opens_no_session_and_is_not_the_time_it_was_first_seen(
        self, bench: Bench, codex: dict[str, Any]
    ) -> None:
        codex["ends"] = [(5, {"reason": "interrupt", "turn_id": "t0"})]
        bench.put(self.hook("UserPromptSubmit", 100, prompt="a", turn_id="t1"))
        bench.intake().run()
        assert [e["type"] for e in bench.events()] == ["session.started", "turn.started"]
        (session,) = bench.outbox.sessions()
        assert session.first_ms == 100

    def test_a_transcript_that_no_payload_names_is_looked_for_and_read(
        self, bench: Bench, codex: dict[str, Any]
    ) -> None:
        codex["transcript"] = "/store/sessions.db"
        bench.put(self.hook("Stop", 100, turn_id="t1"))
        bench.intake().run()
        (pending,) = bench.outbox.pending_reads()
        assert pending.want["path"] == "/store/sessions.db"
        reader = TranscriptReader(bench.outbox, log=lambda level, message: None)
        assert reader.step(now_ms()) is None
        assert codex["read"] == ("/store/sessions.db", SESSION)
        last = bench.events()[-1]
        assert (last["type"], last["data"]["user"], last["data"]["assistant"]) == (
            "turn.transcript",
            "ask",
            "answer",
        )

    def test_a_transcript_that_the_payload_names_is_not_looked_for(
        self, bench: Bench, codex: dict[str, Any]
    ) -> None:
        codex["transcript"] = "/store/sessions.db"
        bench.put(self.hook("Stop", 100, transcript_path="/w/rollout-1.jsonl"))
        bench.intake().run()
        assert bench.outbox.pending_reads()[0].want["path"] == "/w/rollout-1.jsonl"

    @pytest.mark.parametrize(
        ("event", "stopped"), [("Stop", False), ("StopFailure", True), ("SessionEnd", False)]
    )
    def test_a_reader_is_told_whether_the_turn_was_stopped(
        self, bench: Bench, event: str, stopped: bool
    ) -> None:
        bench.put(job(event, 100))
        bench.intake().run()
        assert bench.outbox.pending_reads()[0].want["stopped"] is stopped

    def test_a_transcript_that_is_nowhere_is_not_waited_for(
        self, bench: Bench, codex: dict[str, Any]
    ) -> None:
        bench.put(self.hook("Stop", 100))
        bench.intake().run()
        assert bench.outbox.pending_reads() == []


class TestTrouble:
    def test_jobs_keep_their_order_when_memory_bounds_a_batch(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessionpipe.intake.BATCH_JOBS", 4)
        monkeypatch.setattr("sessionpipe.intake.BATCH_BYTES", 700)
        lengths = list(range(1, 13))
        for length in lengths:
            bench.put(job("UserPromptSubmit", length, prompt="x" * length))
        assert bench.intake().run() == 12
        started = [e["data"]["prompt_chars"] for e in bench.events() if e["type"] == "turn.started"]
        assert started == lengths

    def test_a_long_queue_is_listed_once_and_its_jobs_are_read_as_their_turn_comes(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many wait, what a worker does with each does not grow with them."""
        monkeypatch.setattr("sessionpipe.intake.BATCH_JOBS", 10)
        for number in range(500):
            bench.put(job("UserPromptSubmit", number, prompt="x"))
        listed: list[int] = []
        held: list[int] = []
        names, read = Spool.names, Spool.read

        def listing(spool: Spool) -> list[str]:
            listed.append(1)
            return names(spool)

        def reading(spool: Spool, name: str) -> Any:
            held.append(sum(isinstance(one, Job) for one in gc.get_objects()))
            return read(spool, name)

        monkeypatch.setattr(Spool, "names", listing)
        intake = bench.intake()
        assert intake.run(iter([True] * 20 + [False]).__next__) == 200
        monkeypatch.setattr(Spool, "read", reading)
        assert intake.run(iter([True] * 2 + [False]).__next__) == 20
        monkeypatch.setattr(Spool, "read", read)
        assert intake.run() == 280
        assert len(listed) == 2
        assert max(held) <= 21

    def test_what_a_job_brought_goes_with_it_and_is_not_left_to_the_collector(self, bench: Bench) -> None:
        """Which comes when there are many small things, and not when there are some large ones."""
        tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}}

        def left(rounds: int) -> int:
            for number in range(rounds):
                call = {**tool, "tool_use_id": f"toolu_{bench.count}"}
                bench.put(job("UserPromptSubmit", 10 * number, prompt="x"))
                bench.put(job("PreToolUse", 10 * number + 1, **call))
                bench.put(job("PermissionRequest", 10 * number + 2, **call))
                bench.put(job("PostToolUse", 10 * number + 3, **call, tool_response={"stdout": ["a", {}]}))
                bench.put(job("Stop", 10 * number + 4))
            gc.collect()
            gc.disable()
            try:
                assert bench.intake().run() == 5 * rounds
                return gc.collect()
            finally:
                gc.enable()

        left(1)
        assert left(20) == left(1)

    def test_it_is_asked_before_each_batch_whether_to_go_on_and_goes_on_where_it_was(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessionpipe.intake.BATCH_JOBS", 2)
        for number in range(5):
            bench.put(job("UserPromptSubmit", number, prompt="x"))
        intake = bench.intake()
        answers = iter([True, False])
        assert intake.run(lambda: next(answers)) == 2
        assert intake.more
        # Between the two a job came that sorts behind: its turn is after those already listed.
        bench.put(job("UserPromptSubmit", 5, prompt="last"))
        assert intake.run() == 4
        assert not intake.more
        assert bench.events()[-1]["data"]["prompt_chars"] == 4

    def test_two_at_work_at_once_record_every_job_once(self, bench: Bench, tmp_path: Path) -> None:
        """As when somebody removed the lock file: whatever the interleaving."""
        other_outbox = Outbox.open(tmp_path / "outbox.db")
        ours = bench.intake()
        theirs = Intake(other_outbox, bench.spool, machine=lambda: "m", log=lambda level, message: None)
        bench.put(job("UserPromptSubmit", 1, prompt="one"))
        read = bench.spool.read

        def overtaken(name: str) -> Any:
            # It is read here; then the other takes it, and another, with which it prunes the mark.
            found = read(name)
            bench.spool.read = read  # type: ignore[method-assign]
            theirs.run()
            bench.put(job("UserPromptSubmit", 2, prompt="three"))
            theirs.run()
            return found

        bench.spool.read = overtaken  # type: ignore[method-assign]
        ours.run()
        started = [e["data"]["prompt_chars"] for e in bench.events() if e["type"] == "turn.started"]
        assert started == [3, 5]
        other_outbox.close()

    def test_nothing_is_taken_into_an_outbox_that_is_no_longer_the_spools(self, bench: Bench) -> None:
        bench.put(job("Stop", 1))
        intake = Intake(
            bench.outbox,
            bench.spool,
            machine=lambda: "m",
            log=lambda level, message: None,
            ours=lambda: False,
        )
        with pytest.raises(OSError, match="replaced"):
            intake.run()
        assert not bench.spool.empty()
        assert bench.events() == []

    @pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
    def test_a_job_that_cannot_be_read_stays_and_holds_up_no_other(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        bad, good = bench.put(job("Stop", 1)), bench.put(job("Stop", 2))
        read = bench.spool.read

        def failing(name: str) -> Any:
            if name == bad:
                raise OSError(number, "no")
            return read(name)

        monkeypatch.setattr(bench.spool, "read", failing)
        intake = bench.intake()
        assert intake.run() == 1
        assert bench.spool.names() == [bad]
        assert bad in bench.logged[0]
        assert intake.stuck == {bad}
        assert good not in bench.spool.names()

    def test_one_that_lay_for_a_while_is_tried_again_and_spoken_of_once(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = [0.0]
        monkeypatch.setattr("sessionpipe.intake.time.monotonic", lambda: clock[0])
        bench.put(job("Stop", 1))
        intake = bench.intake()
        with monkeypatch.context() as patched:
            patched.setattr("sessionpipe.spool.os.open", lambda *_: _fail(OSError(errno.EIO, "no")))
            for clock[0] in (0.0, STUCK_S - 1, STUCK_S + 1):
                assert intake.run() == 0
        assert len(bench.logged) == 1
        clock[0] += STUCK_S - 1
        assert intake.run() == 0
        clock[0] += 2
        assert intake.run() == 1
        assert intake.stuck == set()

    def test_no_descriptors_left_is_no_fault_of_the_jobs(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.put(job("Stop", 1))
        intake = bench.intake()

        def exhausted(name: str) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(bench.spool, "read", exhausted)
            with pytest.raises(OSError, match="Too many"):
                intake.run()
        assert intake.stuck == set()
        assert intake.run() == 1

    @pytest.mark.parametrize("error", [ValueError("ours"), sqlite3.DataError("string or blob too big")])
    def test_what_cannot_be_recorded_is_set_aside_under_its_own_name(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        refused, poison = bench.put(b"v=1\0harness=emacs\0event=Stop\0at_ms=1\0\0"), bench.put(job("Stop", 2))

        def fail(*_args: Any, **_kwargs: Any) -> Any:
            raise error

        monkeypatch.setattr("sessionpipe.intake.seal", fail)
        bench.intake().run()
        kept = {
            name: json.loads((bench.spool.rejected / name).read_bytes())["harness"]
            for name in bench.spool.rejected_names()
        }
        assert kept == {
            refused.replace(".job", ".json"): "emacs",
            poison.replace(".job", ".json"): "claude-code",
        }
        assert bench.spool.empty()

    def test_a_corrupt_database_is_no_fault_of_the_jobs(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.put(job("Stop", 1))

        def malformed(*_args: Any, **_kwargs: Any) -> Any:
            raise sqlite3.DatabaseError("database disk image is malformed")

        monkeypatch.setattr("sessionpipe.intake.seal", malformed)
        with pytest.raises(sqlite3.DatabaseError):
            bench.intake().run()
        assert bench.spool.rejected_names() == []
        assert not bench.spool.empty()
