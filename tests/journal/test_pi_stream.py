"""A JSON stream as it is read: what a line is, what is not read of it, and where its session is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.journal.pi_stream import PiStream
from sessionpipe.journal.recorder import Outcome, Recorder
from tests.journal.recordings import RECORDINGS, capture, entries, events, lines
from tests.journal.test_recorder import say, turn

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s-1",
    "timestamp": "2026-11-29T17:52:21.453Z",
    "cwd": "/src",
}


def stream(out: Path, *told: Any, env: dict[str, str] | None = None) -> Outcome:
    recorder = Recorder(out)
    reading = PiStream(recorder, env=env or {})
    for line in told:
        reading.line(line if isinstance(line, bytes) else json.dumps(line).encode(), 1.0)
    return recorder.end()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_the_first_line_binds(out: Path) -> None:
    stream(out, HEADER, *turn(*say("Hi")))
    binding = json.loads((out / "session" / "binding.json").read_text())
    assert (binding["piSessionId"], binding["cwd"]) == ("s-1", "/src")


def test_lines_of_no_event_are_passed_over(out: Path) -> None:
    others = [
        {"type": "queue_update", "steering": []},
        {"type": "auto_retry_start"},
        b"npm warn something",
        b"",
    ]
    assert stream(out, HEADER, *others, *turn(*say("Hi"))).status == "complete"


def test_half_a_line_is_missed(out: Path) -> None:
    outcome = stream(out, HEADER, *turn(*say("Hi")), b'{"type":"turn_sta')
    assert outcome.failure is not None and outcome.failure.code == "unmatched_event"
    assert len(events(out)) == 7


def test_of_lines_that_repeat_the_conversation_only_ids_are_read(out: Path) -> None:
    big = {"content": [{"type": "text", "text": "x" * 20_000_000}]}
    start = {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {}}
    outcome = stream(
        out,
        HEADER,
        {"type": "agent_start"},
        *turn(*say("Hi"), start, {"type": "tool_execution_update", "toolCallId": "c", "partialResult": big})[
            :-1
        ],
        {"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "result": {}, "isError": False},
        {"type": "turn_end", "message": big, "toolResults": [{"toolCallId": "c", **big}]},
        {"type": "agent_end", "messages": [big], "willRetry": False},
    )
    assert outcome.status == "complete"
    assert events(out)[-1]["payload"]["toolCallIds"] == ["c"]


def test_an_entry_the_stream_tells_of_is_recorded_where_no_file_is(out: Path) -> None:
    entry = {"type": "context_edit", "id": "e1", "parentId": None}
    stream(
        out, HEADER, {"type": "entry_appended", "entry": entry}, {"type": "entry_appended", "entry": entry}
    )
    assert entries(out) == [entry]


def session_place(tmp_path: Path, scenario: str) -> tuple[Path, dict[str, str]]:
    """Where Pi would keep a scenario's session, in an agent folder of its own."""
    header = lines(RECORDINGS / scenario / "session.jsonl")[0]
    name = f"{header['timestamp'].replace(':', '-').replace('.', '-')}_{header['id']}.jsonl"
    folder = tmp_path / "agent" / "sessions" / f"--{header['cwd'][1:].replace('/', '-')}--"
    folder.mkdir(parents=True)
    return folder / name, {"PI_CODING_AGENT_DIR": str(tmp_path / "agent")}


def test_the_session_is_looked_for_where_pi_keeps_it(tmp_path: Path, out: Path) -> None:
    file, env = session_place(tmp_path, "a-text")
    shutil.copy(RECORDINGS / "a-text" / "session.jsonl", file)
    stream(out, *(RECORDINGS / "a-text" / "stdout.ndjson").read_bytes().split(b"\n"), env=env)
    assert entries(out) == lines(file)[1:]
    assert json.loads((out / "session" / "binding.json").read_text())["piSessionFile"] == str(file)


def live(tmp_path: Path, out: Path, scenario: str, *, before: int) -> None:
    """Record a scenario while its session file grows as Pi makes it grow: ``before`` lines were there."""
    file, env = session_place(tmp_path, scenario)
    stored = (RECORDINGS / scenario / "session.jsonl").read_bytes().split(b"\n")[:-1]
    written = before

    def store(until: int) -> None:
        nonlocal written
        with file.open("ab") as session:
            session.writelines(line + b"\n" for line in stored[written:until])
        written = max(written, until)

    if before:
        written = 0
        store(before)
    messages = [
        place for place, line in enumerate(stored) if b'{"type":"message"' in line and place >= before
    ]
    recorder = Recorder(out)
    reading = PiStream(recorder, env=env)
    for line in (RECORDINGS / scenario / "stdout.ndjson").read_bytes().split(b"\n"):
        if not line:
            continue
        reading.line(line, 1.0)
        if line.startswith(b'{"type":"message_end"'):
            place = messages.pop(0)
            # The file is made when there is something of a conversation to keep.
            if before or b'"role":"system"' not in line:
                store(place + 1)
    store(len(stored))
    recorder.end()


@pytest.mark.parametrize(
    "scenario", ["a-text", "c-tools", "f-http500", "j-compact-threshold", "l-two-prompts"]
)
def test_read_while_pi_writes_it_everything_is_linked_too(tmp_path: Path, out: Path, scenario: str) -> None:
    live(tmp_path, out, scenario, before=0)
    assert entries(out) == lines(RECORDINGS / scenario / "session.jsonl")[1:]
    finished = [event["payload"] for event in events(out) if event["type"] == "message_finished"]
    assert all(one["settled"] for one in finished)
    assert capture(out)["status"] == "complete"


def test_a_first_line_that_is_read_late_loses_nothing(tmp_path: Path, out: Path) -> None:
    file, env = session_place(tmp_path, "a-text")
    stored = (RECORDINGS / "a-text" / "session.jsonl").read_bytes().split(b"\n")[:-1]
    told = [line for line in (RECORDINGS / "a-text" / "stdout.ndjson").read_bytes().split(b"\n") if line]
    # By then Pi has made the file, and what the stream is still to tell is in it.
    file.write_bytes(b"".join(line + b"\n" for line in stored[:5]))
    recorder = Recorder(out)
    reading = PiStream(recorder, env=env)
    reading.line(told[0], 1.0)
    file.write_bytes(b"".join(line + b"\n" for line in stored))
    for line in told[1:]:
        reading.line(line, 1.0)
    recorder.end()
    assert entries(out) == lines(file)[1:]
    assert all(event["payload"]["settled"] for event in events(out) if event["type"] == "message_finished")


def test_of_a_session_that_goes_on_only_its_new_entries_are_recorded(tmp_path: Path, out: Path) -> None:
    stored = lines(RECORDINGS / "h2-continue" / "session.jsonl")
    live(tmp_path, out, "h2-continue", before=len(stored) - 2)
    assert entries(out) == stored[-2:]
    finished = [event["payload"] for event in events(out) if event["type"] == "message_finished"]
    assert [one["settled"] for one in finished] == [True, True]


def test_a_session_file_that_is_replaced_ends_the_capture(tmp_path: Path, out: Path) -> None:
    file, env = session_place(tmp_path, "a-text")
    shutil.copy(RECORDINGS / "a-text" / "session.jsonl", file)
    recorder = Recorder(out)
    reading = PiStream(recorder, env=env)
    told = [line for line in (RECORDINGS / "a-text" / "stdout.ndjson").read_bytes().split(b"\n") if line]
    reading.line(told[0], 1.0)
    file.unlink()
    shutil.copy(RECORDINGS / "b-thinking" / "session.jsonl", file)
    for line in told[1:]:
        reading.line(line, 1.0)
    outcome = recorder.end()
    assert outcome.failure is not None and outcome.failure.code == "session_file_lost"
