"""From our extension, in a bare node that plays what the real Pi did, to a journal."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sessionpipe.journal import verify
from sessionpipe.journal.channel import VARIABLE, Channel
from sessionpipe.journal.recorder import Outcome, Recorder
from sessionpipe.paths import data_dir
from tests.e2e.agents import node
from tests.journal.recordings import (
    PLAYER,
    RECORDINGS,
    SEEN,
    capture,
    entries,
    events,
    lines,
    record_extension,
    record_played,
    record_stream,
)
from tests.patience import PATIENCE_S

EXTENSION = data_dir("adapters") / "pi" / "journal.js"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def line(
    event: str, at: int = 1_795_974_777_507, ctx: dict[str, Any] | None = None, **ev: Any
) -> dict[str, Any]:
    ctx = {"cwd": "/src", "sessionId": "s-1", "entries": 2} | (ctx or {})
    return {"event": event, "t": at, "ev": {"type": event, **ev}, "ctx": ctx, "disk": -1}


def play(out: Path, told: list[dict[str, Any]], *how: str, **options: Any) -> tuple[Outcome, dict[str, Any]]:
    recording = out.with_name("recording.ndjson")
    recording.write_text("".join(json.dumps(one) + "\n" for one in told))
    return record_played(recording, out.with_name("nothing"), out, *how, **options)


class Seen(NamedTuple):
    """A journal that was recorded of a scenario from our extension."""

    out: Path
    status: str
    answers: list[str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Seen]:
    """The journal of a scenario, recorded once for all tests."""

    @cache
    def recorded(scenario: str) -> Seen:
        out = tmp_path_factory.mktemp("seen") / "run"
        outcome, told = record_extension(scenario, out)
        return Seen(out, outcome.status, told["answers"])

    return recorded


@pytest.mark.parametrize("scenario", SEEN)
def test_every_recorded_run_is_a_complete_journal_with_every_message_linked(
    seen: Callable[[str], Seen], scenario: str
) -> None:
    journal = seen(scenario)
    report = verify(journal.out)
    assert (journal.status, report.status, report.violations) == ("complete", "complete", [])
    assert journal.answers == ["undefined"]
    for session in report.sessions:
        finished = [
            one["payload"] for one in events(journal.out, session.path) if one["type"] == "message_finished"
        ]
        assert all(one["settled"] for one in finished)


@pytest.mark.parametrize(
    "scenario", ["a-text", "b-thinking", "c-tools", "d-parallel", "f-http500", "j-compact-threshold"]
)
def test_both_sources_tell_the_same(seen: Callable[[str], Seen], out: Path, scenario: str) -> None:
    record_stream(scenario, out)

    def without_times(place: Path) -> list[dict[str, Any]]:
        told = [{**event, "at": "*"} for event in events(place)]
        for event in told:
            if "result" in event["payload"]:  # Cut in the recording of one of them.
                event["payload"] = {"isError": event["payload"]["isError"]}
        return told

    other = seen(scenario).out
    assert without_times(out) == without_times(other)
    assert [entry["id"] for entry in entries(out)] == [entry["id"] for entry in entries(other)]


def test_times_are_the_extension_s(seen: Callable[[str], Seen]) -> None:
    played = lines(RECORDINGS / "a-text" / "extension.ndjson")
    started = next(one for one in played if one["event"] == "turn_start")
    assert int(started["t"]) == 1_795_974_741_629
    assert events(seen("a-text").out)[0]["at"] == "2026-11-29T17:52:21.629Z"


def test_a_session_without_a_file_is_recorded_with_its_entries(seen: Callable[[str], Seen]) -> None:
    out = seen("o-no-session").out
    assert "piSessionFile" not in json.loads((out / "session" / "binding.json").read_text())
    assert [entry["type"] for entry in entries(out)] == ["model_change", "thinking_level_change"] + [
        "message"
    ] * 3


def test_of_a_session_that_goes_on_only_new_entries_are_recorded(seen: Callable[[str], Seen]) -> None:
    assert entries(seen("h2-continue").out) == lines(RECORDINGS / "h2-continue" / "session.jsonl")[-2:]


def test_each_conversation_of_a_run_has_its_capture(seen: Callable[[str], Seen]) -> None:
    out = seen("t2-tui-sessions").out
    paths = json.loads((out / "manifest.json").read_text())["paths"]
    assert paths["segments"] == [f"session/segments/a1-{number}" for number in range(2, 6)]
    # The first was reloaded, which begins nothing.
    assert len({path.read_text() for path in out.rglob("binding.json")}) == 5


def test_an_older_pi_that_does_not_count_entries_will_do(out: Path) -> None:
    record_extension("c-tools", out, "old")
    assert len(entries(out)) == 13


def test_it_listens_to_what_it_needs_and_to_nothing_that_could_hurt(out: Path) -> None:
    _, told = play(out, [line("session_start", reason="startup")])
    assert set(told["subscribed"]) == {
        "session_start",
        "session_shutdown",
        "session_compact",
        "session_info_changed",
        "agent_start",
        "agent_end",
        "agent_settled",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
    }
    # Nor do the programs that Pi starts hear of the recorder.
    assert told["variable"] is None


def test_a_session_that_runs_inside_another_is_not_mixed_up_with_it(out: Path) -> None:
    inside = {"sessionId": "s-2"}
    told = [
        line("session_start", reason="startup"),
        line("turn_start", turnIndex=0),
        line("session_start", reason="new", ctx=inside),
        line("turn_start", turnIndex=0, ctx=inside),
        line("session_shutdown", reason="quit", ctx=inside),
        line("turn_end", turnIndex=0, message={}, toolResults=[]),
        line("session_shutdown", reason="quit"),
    ]
    outcome, _ = play(out, told, "both")
    assert (outcome.status, len(events(out))) == ("complete", 2)
    assert not (out / "session" / "segments").exists()


@pytest.mark.parametrize(
    "ev",
    [{}, {"message": None}, {"assistantMessageEvent": 7, "toolResults": 7}],
)
def test_events_it_can_t_read_are_not_passed_over_in_silence(out: Path, ev: dict[str, Any]) -> None:
    told = [
        line(event, **ev)
        for event in ("turn_start", "message_start", "message_update", "message_end", "turn_end")
    ]
    outcome, player = play(out, [line("session_start", reason="startup"), *told])
    assert player["answers"] == ["undefined"]
    assert outcome.failure is not None
    assert verify(out).status == "failed"


def flood(deltas: int, size: int = 10) -> list[dict[str, Any]]:
    update = {"type": "text_delta", "contentIndex": 0, "delta": "x" * (size - 1) + " "}
    assistant = {"role": "assistant", "content": [], "timestamp": 1}
    return [
        line("session_start", reason="startup"),
        line("turn_start", turnIndex=0),
        line("message_start", message=assistant),
        *[line("message_update", assistantMessageEvent=update)] * deltas,
        line("message_end", message=assistant),
        line("turn_end", turnIndex=0, message=assistant, toolResults=[]),
        line("session_shutdown", reason="quit"),
    ]


def test_what_waits_when_pi_leaves_is_still_told(out: Path) -> None:
    # More than the pipe holds, and nobody gets to read before the end.
    outcome, _ = play(out, flood(3000, 1000), "exit", verbatim=True)
    assert outcome.status == "complete"
    assert len(events(out)) == 3004


def test_more_than_may_wait_is_a_failure_that_is_told(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    os.mkfifo(place)
    recording = tmp_path / "recording.ndjson"
    recording.write_text("".join(json.dumps(one) + "\n" for one in flood(10_000)))
    reading = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(
        [node(18), PLAYER, EXTENSION, recording, "/nowhere", "exit"],
        env={**os.environ, VARIABLE: str(place)},
        stdout=subprocess.PIPE,
    ) as process:
        # Nobody reads until everything was told.
        assert process.stdout is not None and process.stdout.readline()
        os.set_blocking(reading, True)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read().split(b"\n")
    assert json.loads(told[-2]) == {"type": "failed", "message": "more waited for the recorder than may"}
    assert 8192 < len(told) < 10_000
    assert all(json.loads(line)["type"] == "message_update" for line in told[5:-2])


def run_player(environment: dict[str, str], recording: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(18), PLAYER, EXTENSION, recording, "/nowhere"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("way", ["unset", "missing", "file", "closed"])
def test_where_the_recorder_is_gone_it_is_silent(tmp_path: Path, way: str) -> None:
    place = tmp_path / "journal"
    if way == "file":
        place.write_text("no pipe")
    elif way == "closed":
        os.mkfifo(place)
    done = run_player(
        {} if way == "unset" else {VARIABLE: str(place)}, RECORDINGS / "a-text" / "extension.ndjson"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert way != "file" or place.read_text() == "no pipe"


def test_a_recorder_that_goes_away_in_between_is_not_noticed(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    os.mkfifo(place)
    recording = tmp_path / "recording.ndjson"
    recording.write_text("".join(json.dumps(one) + "\n" for one in flood(3000, 1000)))
    reading = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(
        [node(18), PLAYER, EXTENSION, recording, "/nowhere"],
        env={**os.environ, VARIABLE: str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.set_blocking(reading, True)
        os.read(reading, 1)
        os.close(reading)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None and process.stderr.read() == b""


def test_the_pipe_is_the_owner_s_alone_and_gone_afterwards() -> None:
    with Channel() as channel:
        place = Path(channel.environment[VARIABLE])
        assert stat.S_ISFIFO(place.stat().st_mode)
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert not place.parent.exists()


def test_what_is_no_json_is_missed(out: Path) -> None:
    recorder = Recorder(out)
    with Channel() as channel:
        channel.feed(recorder)
        start = {"type": "session_start", "sessionId": "s-1", "cwd": "/src"}
        with Path(channel.environment[VARIABLE]).open("w") as pipe:
            pipe.write(
                json.dumps(start) + '\n{"type":"entry","entry":7}\nno json\n{"type":"turn_start","t":-1}\n'
            )
    recorder.end()
    assert capture(out)["failure"]["code"] == "unmatched_event"
    assert capture(out)["eventCount"] == 1
