"""Transcript reads: rows that wait for a file, and exchanges that are recorded once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe import harnesses
from sessionpipe.clock import now_ms
from sessionpipe.harnesses.transcripts import digest
from sessionpipe.intake import Intake
from sessionpipe.outbox import Outbox
from sessionpipe.protocol import rfc3339
from sessionpipe.spool import Spool
from sessionpipe.transcripts import FIRST_POLL_MS, OWED_MS, PATIENCE_MS, TranscriptReader
from tests.schema import assert_valid

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"
START = 1_795_976_000_000


class Scene:
    """A session of Claude Code whose turns end, and whose transcript is written when the test says."""

    def __init__(self, root: Path) -> None:
        self.outbox = Outbox.open(root / "outbox.db")
        self.file = root / "projects" / "-w" / f"{SESSION}.jsonl"
        self.file.parent.mkdir(parents=True)
        self.logged: list[str] = []
        self.reader = TranscriptReader(self.outbox, log=lambda level, message: self.logged.append(message))
        with self.outbox.transaction() as tx:
            tx.save(tx.session("claude-code", SESSION, START))

    def turn_ends(self, at_ms: int, said: str | None, *, final: bool = False) -> None:
        with self.outbox.transaction() as tx:
            session = tx.session("claude-code", SESSION, at_ms)
            want = {"path": str(self.file), "said": digest(said or ""), "final": final, "ended_ms": at_ms}
            tx.queue_read(session, want, at_ms, at_ms)

    def hook_comes(self, at_ms: int) -> None:
        with self.outbox.transaction() as tx:
            tx.wake_read(tx.session("claude-code", SESSION, at_ms), at_ms)

    def write(self, kind: str, text: str, at_ms: int) -> None:
        content: Any = text if kind == "user" else [{"type": "text", "text": text}]
        record = {
            "type": kind,
            "uuid": f"{kind}-{at_ms}",
            "isSidechain": False,
            "timestamp": rfc3339(at_ms),
            "sessionId": SESSION,
            "message": {"role": kind, "content": content, "id": f"m-{at_ms}", "model": "claude-opus-5-5"},
        }
        with self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def transcripts(self) -> list[tuple[int, str, str]]:
        events = [json.loads(row.body) for row in self.outbox.read(0, 100)]
        for event in events:
            assert_valid(event)
        return [(e["data"]["turn"], e["data"]["user"], e["data"]["assistant"]) for e in events]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.outbox.close()


def test_a_file_that_is_complete_is_read_at_once(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.write("assistant", "answer", START + 20)
    scene.turn_ends(START + 30, "answer")
    assert scene.reader.step(START + 31) is None
    assert scene.transcripts() == [(1, "ask", "answer")]
    assert scene.outbox.pending_reads() == []


def test_a_file_that_is_late_is_waited_for_and_read_once(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.turn_ends(START + 30, "answer")
    due = scene.reader.step(START + 30)
    assert due == START + 30 + FIRST_POLL_MS
    assert scene.transcripts() == []
    scene.write("assistant", "answer", START + 60)
    assert scene.reader.step(due) is None
    assert scene.reader.step(due + 1_000) is None
    assert scene.transcripts() == [(1, "ask", "answer")]


def test_polling_slows_down_and_ends(scene: Scene) -> None:
    scene.turn_ends(START, "answer")
    looks = [START]
    while due := scene.reader.step(looks[-1]):
        looks.append(due)
    assert looks[1] - looks[0] == FIRST_POLL_MS
    assert PATIENCE_MS <= looks[-1] - START < 3 * PATIENCE_MS
    assert len(looks) < 12
    assert "late" in scene.logged[-1]


def test_what_was_given_up_on_is_read_at_the_sessions_next_hook(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.turn_ends(START + 30, "answer")
    scene.reader.step(START + 30 + PATIENCE_MS)
    scene.write("assistant", "answer", START + 9_000)
    assert scene.reader.step(START + 10_000) is None
    assert scene.transcripts() == []
    scene.hook_comes(START + 20_000)
    scene.reader.step(START + 20_000)
    assert scene.transcripts() == [(1, "ask", "answer")]


def test_what_was_given_up_on_is_read_when_a_worker_starts(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.turn_ends(START + 30, "answer")
    scene.reader.step(START + 30 + PATIENCE_MS)
    scene.write("assistant", "answer", START + 9_000)
    scene.reader.start(START + 20_000)
    scene.reader.step(START + 20_000)
    assert scene.transcripts() == [(1, "ask", "answer")]


def test_turns_are_numbered_on_across_reads(scene: Scene) -> None:
    for number in range(3):
        at = START + 1_000 * number
        scene.write("user", f"ask {number}", at + 10)
        scene.write("assistant", f"answer {number}", at + 20)
        scene.turn_ends(at + 30, f"answer {number}")
        scene.reader.step(at + 31)
    assert [turn for turn, _, _ in scene.transcripts()] == [1, 2, 3]


def test_an_end_that_was_read_along_with_an_earlier_one_is_not_waited_for(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.write("assistant", "answer", START + 20)
    scene.turn_ends(START + 30, "answer")
    (pending,) = scene.outbox.pending_reads()
    # A headless run: its session's end is recorded while the transcript is being read for its stop.
    scene.turn_ends(START + 40, "answer", final=True)
    scene.reader._read(pending, START + 50)
    assert scene.reader.step(START + 60) is None
    assert scene.transcripts() == [(1, "ask", "answer")]
    assert scene.outbox.pending_reads() == []


def test_the_same_words_in_another_turn_are_waited_for(scene: Scene) -> None:
    for at in (START, START + 60_000):
        scene.write("user", "ask", at + 10)
        if at == START:
            scene.write("assistant", "Done.", at + 20)
        scene.turn_ends(at + 30, "Done.")
        scene.reader.step(at + 31)
    assert scene.transcripts() == [(1, "ask", "Done.")]
    scene.write("assistant", "Done.", START + 60_100)
    scene.reader.step(START + 60_200)
    assert scene.transcripts() == [(1, "ask", "Done."), (2, "ask", "Done.")]


def test_a_session_that_ended_is_owed_nothing_for_ever(scene: Scene) -> None:
    scene.turn_ends(START, "never written", final=True)
    assert scene.reader.step(START + PATIENCE_MS) is None
    assert scene.outbox.pending_reads() == []


def test_what_one_reading_of_an_ended_session_cannot_take_is_read_by_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.harnesses.reading.READING_CHARS", 1)
    for turn in (1, 2, 3):
        scene.write("user", f"ask {turn}", START + 10 * turn)
        scene.write("assistant", f"answer {turn}", START + 10 * turn + 1)
    scene.turn_ends(START + 40, None, final=True)
    late = START + 40 + PATIENCE_MS
    while scene.reader.step(late) is not None:
        pass
    assert scene.transcripts() == [(turn, f"ask {turn}", f"answer {turn}") for turn in (1, 2, 3)]


def test_a_session_forgotten_meanwhile_stays_forgotten(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.write("assistant", "answer", START + 20)
    scene.turn_ends(START + 30, "answer")
    (pending,) = scene.outbox.pending_reads()
    scene.outbox.forget("claude-code", SESSION, START + 40, 1, lambda seq: b"{}")
    assert scene.reader._read(pending, START + 50) is None
    assert [row.type for row in scene.outbox.read(0, 9)] == ["session.forgotten"]


def test_a_clock_that_went_back_delays_nothing(scene: Scene) -> None:
    scene.write("user", "ask", START + 10)
    scene.turn_ends(START + 30, "answer")
    scene.reader.step(START + 30)
    scene.write("assistant", "answer", START + 40)
    scene.reader.step(START - 3_600_000)
    assert scene.transcripts() == [(1, "ask", "answer")]


def test_what_a_person_said_passes_the_ruleset_before_it_is_cut(scene: Scene) -> None:
    token = "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))
    scene.write("user", "x " * 9_990 + token, START + 10)
    scene.write("assistant", "answer", START + 20)
    scene.turn_ends(START + 30, "answer")
    scene.reader.step(START + 31)
    (row,) = scene.outbox.read(0, 9)
    assert token[:12].encode() not in row.body


def test_a_transcript_that_cannot_be_read_holds_up_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a11"
    with scene.outbox.transaction() as tx:
        row = tx.session("claude-code", other, START)
        tx.save(row)
        tx.queue_read(row, {"path": "poison", "ended_ms": START}, START - 1, START)

    def exchanges(path: str, *rest: Any) -> Any:
        if path == "poison":
            raise ValueError("a fault of ours")
        return harness.exchanges(path, *rest)

    harness = harnesses.get("claude-code")
    monkeypatch.setattr(harnesses, "get", lambda _name: harness._replace(exchanges=exchanges))
    scene.turn_ends(START + 10, "yes")
    scene.write("user", "ask", START)
    scene.write("assistant", "yes", START + 5)
    scene.reader.step(START + 20)
    assert scene.transcripts() == [(1, "ask", "yes")]
    assert "a fault of ours" in scene.logged[0]
    assert [(p.session, p.due_ms) for p in scene.outbox.pending_reads()] == [(other, None)]


def test_a_file_that_never_comes_is_let_go_of_after_a_week(scene: Scene) -> None:
    scene.turn_ends(START, "answer")
    scene.reader.step(START + PATIENCE_MS)
    scene.reader.start(START + OWED_MS)
    assert len(scene.outbox.pending_reads()) == 1
    scene.reader.start(START + OWED_MS + 1)
    assert scene.outbox.pending_reads() == []
    # Should it come yet, the next turn takes all of it.
    scene.write("user", "ask", START + 10)
    scene.write("assistant", "answer", START + 20)
    scene.write("user", "again", START + OWED_MS)
    scene.write("assistant", "yes", START + OWED_MS + 10)
    scene.turn_ends(START + OWED_MS + 20, "yes")
    scene.reader.step(START + OWED_MS + 21)
    assert scene.transcripts() == [(1, "ask", "answer"), (2, "again", "yes")]


# --- a worker that lags ---------------------------------------------------------------------------


class Lagging(Scene):
    """Claude Code at work beside a worker that gets to what its hooks left when the test says."""

    def __init__(self, root: Path, begun_ms: int) -> None:
        super().__init__(root)
        self.spool = Spool(root / "spool")
        self.spool.prepare()
        self.intake = Intake(self.outbox, self.spool, machine=lambda: "m", log=lambda *said: None)
        self.now = begun_ms
        self.fired: list[bytes] = []

    def fires(self, event: str, **payload: Any) -> None:
        self.now += 1_000
        told = {"session_id": SESSION, "transcript_path": str(self.file), "hook_event_name": event, **payload}
        header = f"v=1\0harness=claude-code\0event={event}\0at_ms={self.now}\0cwd=/nowhere\0ppid=1\0\0"
        self.fired.append(header.encode() + json.dumps(told).encode())

    def plays(self, turn: int, part: str) -> None:
        match part:
            case "prompt":
                self.fires("UserPromptSubmit", prompt=f"ask {turn}")
                self.write("user", f"ask {turn}", self.now + 10)
            case "answer":
                self.now += 1_000
                self.write("assistant", f"answer {turn}", self.now)
            case "end":
                self.fires("Stop", last_assistant_message=f"answer {turn}")

    def records(self, jobs: int) -> None:
        """The worker gets to so many of the jobs, and then to the transcript."""
        for job in self.fired[:jobs]:
            self.now += 1
            (self.spool.new / f"{self.now:020d}.job").write_bytes(job)
        del self.fired[:jobs]
        self.intake.run()
        self.reader.step(now_ms())

    def told(self) -> list[tuple[str, int]]:
        """The ends of turns and the exchanges, in order, each with which of its kind it is."""
        kinds = [row.type for row in self.outbox.read(0, 1_000)]
        wanted = ("turn.ended", "turn.transcript")
        return [(kind, kinds[:at].count(kind) + 1) for at, kind in enumerate(kinds) if kind in wanted]


PARTS = [(turn, part) for turn in (1, 2, 3) for part in ("prompt", "answer", "end")]


@given(lags=st.lists(st.integers(0, 6), min_size=len(PARTS), max_size=len(PARTS)))
def test_however_far_behind_a_worker_is_an_exchange_follows_its_own_turn(lags: list[int]) -> None:
    """After each thing that happens it has not got to so many of the hooks; the file is always as it is by then."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Lagging(Path(folder), now_ms() - 3_600_000)
        for (turn, part), lag in zip(PARTS, lags, strict=True):
            scene.plays(turn, part)
            if len(scene.fired) > lag:
                scene.records(len(scene.fired) - lag)
        while scene.fired:
            scene.records(1)
        told = scene.told()
        exchanges = [
            json.loads(r.body)["data"] for r in scene.outbox.read(0, 99) if r.type == "turn.transcript"
        ]
        scene.outbox.close()
    assert [(e["turn"], e["user"]) for e in exchanges] == [(n, f"ask {n}") for n in (1, 2, 3)]
    for turn in (1, 2, 3):
        assert told.index(("turn.ended", turn)) < told.index(("turn.transcript", turn))


def test_times_of_before_a_clock_went_back_hold_nothing_up(scene: Scene) -> None:
    scene.write("user", "ask", START + 3_600_000)
    scene.write("assistant", "answer", START + 3_600_010)
    scene.write("user", "more", START + 100)
    scene.turn_ends(START + 30, "answer")
    scene.reader.step(START + 110)
    assert scene.transcripts() == [(1, "ask", "answer")]
