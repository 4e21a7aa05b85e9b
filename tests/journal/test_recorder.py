"""Recording a run: a journal that verifies, of everything that was seen, and truthful when it can't be."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal import reduce, verify
from sessionpipe.journal.backlog import Backlog
from sessionpipe.journal.capture import iso
from sessionpipe.journal.format import MAX_RECORD_BYTES
from sessionpipe.journal.recorder import NotEmpty, Outcome, Recorder, run_id
from sessionpipe.privacy.values import MARK
from tests.e2e.machine import wait_for
from tests.journal.recordings import STREAMED, capture, entries, events, lines, record_stream
from tests.journal.test_appending import no_file_over
from tests.privacy.recipes import expand

TOKEN = expand("ghp_<36>")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def message(kind: str, role: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"message_{kind}", "message": {"role": role, **fields}}


def update(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, "contentIndex": 0, **fields}}


def say(*pieces: str, end: str | None = None) -> list[dict[str, Any]]:
    """An assistant message in these deltas."""
    text = "".join(pieces) if end is None else end
    return [
        message("start", "assistant"),
        update("text_start"),
        *(update("text_delta", delta=piece) for piece in pieces),
        update("text_end", content=text),
        message("end", "assistant", content=[{"type": "text", "text": text}]),
    ]


def turn(*inside: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "turn_start"}, *inside, {"type": "turn_end", "toolResults": []}]


def tool(call: str, args: Any = None, result: Any = None) -> list[dict[str, Any]]:
    base = {"toolCallId": call, "toolName": "bash"}
    return [
        {"type": "tool_execution_start", **base, "args": args},
        {"type": "tool_execution_end", **base, "result": result, "isError": False},
    ]


def start(out: Path, **options: Any) -> Recorder:
    recorder = Recorder(out, **options)
    recorder.bind("s-1", cwd="/src")
    return recorder


def record(out: Path, *told: dict[str, Any], **options: Any) -> Outcome:
    recorder = start(out, **options)
    for event in told:
        recorder.receive(event, 1_795_974_741.25, 100)
    return recorder.end()


def verified(out: Path) -> str:
    """What the validator calls a bundle in which it finds nothing wrong."""
    report = verify(out)
    assert report.violations == []
    return report.status


def deltas(out: Path) -> list[str]:
    return [event["payload"]["delta"] for event in events(out) if "delta" in event["payload"]]


def failure_of(out: Path, part: str = "session") -> str:
    value = capture(out, part)
    assert value["status"] == "failed"
    code: str = value["failure"]["code"]
    return code


# -- The bundle --


def test_the_bundle_of_a_run(out: Path) -> None:
    outcome = record(out, *turn(*say("Looks ", "good.")), name="Fix the Build!")
    assert outcome == Outcome("complete", None, True)
    manifest = json.loads((out / "manifest.json").read_text())
    assert re.fullmatch(r"\d{8}T\d{6}Z-fix-the-build-[0-9a-f]{8}", manifest["runId"])
    assert manifest["status"] == "completed"
    assert manifest["finishedAt"] >= manifest["startedAt"]
    binding = json.loads((out / "session" / "binding.json").read_text())
    assert (binding["runId"], binding["piSessionId"], binding["cwd"]) == (manifest["runId"], "s-1", "/src")
    assert "piSessionFile" not in binding
    assert [(event["seq"], event["type"]) for event in events(out)] == list(
        enumerate(
            [
                "turn_started",
                "message_started",
                *["assistant_event"] * 4,
                "message_finished",
                "turn_finished",
            ],
            1,
        )
    )
    assert {event["at"] for event in events(out)} == {"2026-11-29T17:52:21.250Z"}
    assert verified(out) == "complete"


def test_it_is_the_owner_s_alone(out: Path) -> None:
    before = os.umask(0)
    try:
        recorder = start(out)
        for event in turn(*say("Hi"), *tool("c", "x" * 5000)):
            recorder.receive(event)
        recorder.bind("s-2", cwd="/src")
        recorder.end()
    finally:
        os.umask(before)
    assert (out / "artifacts").is_dir() and (out / "session" / "segments").is_dir()
    for path in (out, *out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_where_something_is_already_nothing_is_recorded(out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("somebody's")
    with pytest.raises(NotEmpty):
        Recorder(out)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_names_that_could_be_paths_are_refused(out: Path) -> None:
    with pytest.raises(ValueError, match="name"):
        Recorder(out, attempt="../a1")


def test_run_ids_sort_by_time() -> None:
    ids = [run_id("x", at) for at in (1_000_000_000.0, 1_795_974_741.0, 2_000_000_000.0)]
    assert ids == sorted(ids)


@pytest.mark.parametrize("scenario", STREAMED)
def test_every_recorded_stream_is_a_journal_that_verifies(out: Path, scenario: str) -> None:
    record_stream(scenario, out)
    assert verified(out) == ("failed" if scenario == "g-sigterm-text" else "complete")


@pytest.mark.parametrize("scenario", [name for name in STREAMED if name != "o-no-session"])
def test_every_message_of_a_recorded_stream_is_linked(out: Path, scenario: str) -> None:
    record_stream(scenario, out)
    finished = [event["payload"] for event in events(out) if event["type"] == "message_finished"]
    assert finished and all(one["settled"] for one in finished)
    roles = {entry["id"]: entry["message"]["role"] for entry in entries(out) if entry["type"] == "message"}
    assert all(roles[one["entryId"]] == one["role"] for one in finished)


def test_without_a_session_file_no_message_is_settled(out: Path) -> None:
    record_stream("o-no-session", out)
    assert {event["payload"]["settled"] for event in events(out) if event["type"] == "message_finished"} == {
        False
    }
    assert entries(out) == []


def test_a_stream_that_was_cut_off_is_incomplete(out: Path) -> None:
    outcome = record_stream("g-sigterm-text", out)
    assert outcome.failure is not None and outcome.failure.code == failure_of(out) == "turn_unfinished"
    # All of what came is there, and what Pi stored though it said nothing any more.
    assert "".join(deltas(out)) == "".join(f"word{number} " for number in range(8))
    assert entries(out)[-1]["message"]["stopReason"] == "aborted"


def test_the_reducer_finds_nothing_to_complain_of(out: Path) -> None:
    record_stream("d-parallel", out)
    state = reduce(entries(out), events(out))
    assert state["diagnostics"] == []
    assert [tool["status"] for tool in state["tools"]] == ["finished"] * 4


def test_a_message_without_an_end_holds_up_no_other_turn(out: Path) -> None:
    recorder = start(out)
    for event in [{"type": "turn_start"}, *say("half of a", " text")[:-2], *turn(*say("The next."))]:
        recorder.receive(event)
    wait_for((out / "session" / "capture.json").exists, "the capture")
    wait_for(lambda: deltas(out) == ["half of a", " text", "The next."], "the next turn")
    recorder.end()


def test_a_time_is_rounded_to_the_millisecond() -> None:
    assert [iso(at) for at in (1.9999996, 1_795_974_741.629, 0)] == [
        "1970-01-01T00:00:02.000Z",
        "2026-11-29T17:52:21.629Z",
        "1970-01-01T00:00:00.000Z",
    ]


# -- Ownership --


def test_a_caller_may_move_to_another_node_inside_a_turn(out: Path) -> None:
    recorder = start(out, node="review", attempt="a1")
    first, *rest = turn(*say("Hi"), *say("there"))
    for event in (first, *rest[:2]):
        recorder.receive(event)
    recorder.own("fix", "a2")
    for event in rest[2:]:
        recorder.receive(event)
    recorder.end()
    owners = Counter((event["nodeId"], event["attemptId"], event.get("messageId")) for event in events(out))
    assert owners == {("review", "a1", None): 2, ("review", "a1", "m1"): 5, ("fix", "a2", "m2"): 5}
    assert verified(out) == "complete"


# -- Conversations --


def test_another_conversation_has_a_capture_of_its_own(out: Path) -> None:
    recorder = start(out)
    for session in ("s-1", "s-2", "s-1"):
        recorder.bind(session, cwd="/src")
        for event in turn(*say("Hi")):
            recorder.receive(event)
    recorder.end()
    segments = ["session/segments/a1-2", "session/segments/a1-3"]
    assert json.loads((out / "manifest.json").read_text())["paths"]["segments"] == segments
    assert [event["messageId"] for part in ("session", *segments) for event in events(out, part)[1:2]] == [
        "m1",
        "m2",
        "m3",
    ]
    assert {event["attemptId"] for event in events(out, segments[1])} == {"a1-3"}
    assert verified(out) == "complete"


def test_one_that_is_left_at_work_is_incomplete_and_the_next_is_not(out: Path) -> None:
    recorder = start(out)
    recorder.receive({"type": "turn_start"})
    recorder.bind("s-2", cwd="/src")
    for event in turn(*say("Hi")):
        recorder.receive(event)
    outcome = recorder.end()
    assert failure_of(out) == "turn_unfinished"
    assert capture(out, "session/segments/a1-2")["status"] == "complete"
    assert outcome.status == "failed"
    assert verified(out) == "failed"


def test_a_run_in_which_no_session_came_says_so(out: Path) -> None:
    outcome = Recorder(out).end()
    assert outcome.failure is not None and outcome.failure.code == failure_of(out) == "not_bound"
    assert capture(out)["eventCount"] == 0


def test_events_before_their_session_end_the_capture(out: Path) -> None:
    recorder = Recorder(out)
    recorder.receive({"type": "turn_start"})
    recorder.end()
    assert failure_of(out) == "not_bound"


# -- Secrets --


def test_a_secret_split_over_deltas_is_in_none_of_them(out: Path) -> None:
    record(out, *turn(*say("It is ", TOKEN[:7], TOKEN[7:25], TOKEN[25:], ", keep it.")))
    assert deltas(out) == ["It is ", MARK, "", "", ", keep it."]
    assert [event["payload"]["content"] for event in events(out) if "content" in event["payload"]] == [
        f"It is {MARK}, keep it."
    ]
    assert reduce([], events(out))["diagnostics"] == []


def test_no_secret_is_in_any_file_of_the_bundle(out: Path) -> None:
    recorder = start(out)
    recorder.entry({"type": "message", "id": "e1", "message": {"role": "user", "content": f"use {TOKEN}"}})
    for event in turn(
        *say(TOKEN), *tool("c", {"password": "correct-horse-7"}, [TOKEN, f"{'x' * 5000} {TOKEN}"])
    ):
        recorder.receive(event)
    recorder.end()
    for path in out.rglob("*"):
        if path.is_file():
            assert TOKEN not in path.read_text()
            assert "correct-horse-7" not in path.read_text()
    assert capture(out)["redaction"]["ruleset"] == "secrets@1"
    assert verified(out) == "complete"


def test_a_tool_call_s_deltas_and_its_arguments_agree(out: Path) -> None:
    arguments = {"command": f"export T={TOKEN}", "password": "correct-horse-7"}
    text = json.dumps(arguments)
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": arguments}
    told = [update("toolcall_delta", delta=text[at : at + 9]) for at in range(0, len(text), 9)]
    record(
        out,
        *turn(
            message("start", "assistant"),
            update("toolcall_start"),
            *told,
            update("toolcall_end", toolCall=call),
            message("end", "assistant", content=[call]),
        ),
    )
    assert len(deltas(out)) == len(told)
    (end,) = [event["payload"] for event in events(out) if event["payload"].get("type") == "toolcall_end"]
    assert json.loads("".join(deltas(out))) == end["toolCall"]["arguments"]
    assert end["toolCall"]["id"] == "c"
    assert reduce([], events(out))["diagnostics"] == []


def test_verbatim_is_what_pi_said(out: Path) -> None:
    recorder = start(out, verbatim=True)
    raw = f'{{"type":"message","id":"e1",  "message":{{"content":"{TOKEN}","n":1.0}}}}'
    recorder.entry(json.loads(raw), raw=raw.encode())
    for event in turn(*say(TOKEN[:7], TOKEN[7:])):
        recorder.receive(event)
    recorder.end()
    assert deltas(out) == [TOKEN[:7], TOKEN[7:]]
    assert raw in (out / "session" / "entries.ndjson").read_text()
    assert "redaction" not in capture(out)
    assert verified(out) == "complete"


def test_verbatim_deltas_are_on_disk_before_their_block_ends(out: Path) -> None:
    recorder = start(out, verbatim=True)
    for event in turn(*say("Hi ", "there"))[:4]:
        recorder.receive(event)
    wait_for((out / "session" / "capture.json").exists, "the capture")
    wait_for(lambda: deltas(out) == ["Hi "], "the delta")
    recorder.end()


def test_a_block_longer_than_the_queue_is_recorded_all_the_same(out: Path) -> None:
    lines = [
        f"word {number} of a text with {TOKEN if number % 50 == 0 else 'nothing'}\n" for number in range(700)
    ]
    assert record(out, *turn(*say(*lines)), backlog=Backlog(records=500)).status == "failed"
    recorder = start(out.with_name("paced"), backlog=Backlog(records=500))
    for event in turn(*say(*lines)):
        recorder.receive(event)
        recorder.pace()
    assert recorder.end().status == "complete"
    assert "".join(deltas(out.with_name("paced"))) == "".join(lines).replace(TOKEN, MARK)


# -- What can't be recorded --


def test_too_many_records_end_the_capture_and_none_is_dropped_in_silence(out: Path) -> None:
    recorder = start(out, backlog=Backlog(records=20))
    # A block that never ends holds everything back.
    for event in turn(*say(*"abcdefghijklmnopqrstuvwxyz")):
        recorder.receive(event)
    assert not recorder.recording
    assert recorder.end().failure is not None
    assert failure_of(out) == "queue_limit"
    assert "".join(deltas(out)) == "abcdefghijklmnopq"
    assert verified(out) == "failed"


def test_too_many_bytes_do_the_same(out: Path) -> None:
    recorder = start(out, backlog=Backlog(size=2000))
    for event in turn(*say("a" * 900, "b" * 900, "c" * 900)):
        recorder.receive(event)
    recorder.end()
    assert failure_of(out) == "queue_limit"
    assert verified(out) == "failed"


def test_a_record_over_a_mebibyte_ends_the_capture(out: Path) -> None:
    record(out, *turn(*say("x" * MAX_RECORD_BYTES)))
    assert failure_of(out) == "record_too_large"
    assert verified(out) == "failed"


def test_a_large_result_is_an_artifact(out: Path) -> None:
    outcome = record(out, *turn(*say("Hi"), *tool("c", None, {"content": "x" * MAX_RECORD_BYTES})))
    assert outcome.status == "complete"
    assert verified(out) == "complete"


def test_an_entry_over_a_mebibyte_keeps_its_large_strings_beside_it(out: Path) -> None:
    recorder = start(out)
    image = {"type": "image", "data": "iVBOR" * 300_000}
    recorder.entry({"type": "message", "id": "e1", "message": {"role": "user", "content": [image]}})
    recorder.end()
    (entry,) = entries(out)
    assert entry["message"]["content"][0]["data"]["$artifact"]["bytes"] == 1_500_000
    assert verified(out) == "complete"


def test_an_end_without_its_start_is_missed_and_the_rest_recorded(out: Path) -> None:
    outcome = record(out, *turn(*say("Hi"), *tool("c")[1:]), *turn(*say("still here")))
    assert outcome.failure is not None and failure_of(out) == "unmatched_event"
    assert deltas(out) == ["Hi", "still here"]
    assert verified(out) == "failed"


def test_a_source_that_can_t_go_on_says_so(out: Path) -> None:
    recorder = start(out)
    recorder.receive({"type": "turn_start"})
    recorder.fail("source_failed", "more waited than may")
    recorder.receive({"type": "turn_end"})
    recorder.end()
    assert (failure_of(out), capture(out)["eventCount"]) == ("source_failed", 1)


def test_the_first_failure_is_kept(out: Path) -> None:
    recorder = start(out)
    recorder.receive({"type": "turn_end"})
    recorder.fail("source_failed", "later")
    recorder.end()
    assert failure_of(out) == "unmatched_event"


@pytest.mark.parametrize("odd", [{}, {"type": 7}, {"type": "message_end"}, {"type": "tool_execution_start"}])
def test_no_event_makes_the_caller_fail(out: Path, odd: dict[str, Any]) -> None:
    record(out, odd)
    assert verified(out) in ("complete", "failed")


def test_a_value_nested_too_deeply_ends_the_capture(out: Path) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    record(out, *turn(*say("Hi"), *tool("c", deep)))
    assert failure_of(out) == "record_too_large"
    assert verified(out) == "failed"


# -- The disk --


def test_a_full_disk_ends_the_capture_behind_a_torn_line(out: Path) -> None:
    with no_file_over(20_000):
        recorder = start(out, verbatim=True)
        for event in turn(*say(*["some words "] * 200)):
            recorder.receive(event)
        outcome = recorder.end()
    assert outcome.failure is not None and failure_of(out) == "event_write_failed"
    data = (out / "session" / "events.ndjson").read_bytes()
    assert len(data) == 20_000 and not data.endswith(b"\n")
    assert capture(out)["eventCount"] == data.count(b"\n") == capture(out)["lastEventSeq"]
    assert verified(out) == "failed"


def test_a_folder_that_is_removed_ends_the_capture_and_nothing_else(out: Path) -> None:
    recorder = start(out)
    wait_for((out / "session" / "capture.json").exists, "the capture")
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    out.rmdir()
    for event in turn(*say("Hi")):
        recorder.receive(event)
    outcome = recorder.end()
    assert (outcome.status, outcome.said) == ("failed", False)


def test_an_artifact_that_can_t_be_written_ends_the_capture(out: Path) -> None:
    recorder = start(out)
    (out / "artifacts").write_text("in the way")
    for event in turn(*say("Hi"), *tool("c", "x" * 5000)):
        recorder.receive(event)
    recorder.end()
    assert failure_of(out) == "artifact_write_failed"


KILLED = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from sessionpipe.journal.recorder import Recorder

    recorder = Recorder(Path(sys.argv[1]), verbatim=True)
    recorder.bind("s-1", cwd="/src")
    recorder.receive({"type": "turn_start"})
    recorder.receive({"type": "message_start", "message": {"role": "assistant"}})
    for number in range(10_000_000):
        told = {"type": "text_delta", "contentIndex": 0, "delta": f"word {number} "}
        recorder.receive({"type": "message_update", "assistantMessageEvent": told})
        recorder.pace()
    """
)


def test_a_recorder_that_was_killed_leaves_a_capture_that_says_recording(out: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, out]) as process:
        written = out / "session" / "events.ndjson"
        wait_for(lambda: written.exists() and written.stat().st_size > 100_000, "events")
        process.send_signal(signal.SIGKILL)
    assert capture(out)["status"] == "recording"
    # The run's own manifest can't tell that it is over, so to a reader it still goes on.
    assert verify(out).status == "recording"
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"status": "failed"}))
    assert verify(out).status == "unverified"


# -- Stopping --


def later(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_turn_that_goes_on_is_waited_for(out: Path) -> None:
    recorder = start(out)
    first, *rest = turn(*say("Hi"))
    recorder.receive(first)
    closing: list[Outcome] = []
    thread = later(lambda: closing.append(recorder.close(wait=30)))
    for event in rest:
        recorder.receive(event)
    thread.join()
    assert closing == [Outcome("complete", None, True)]
    assert events(out)[-1]["type"] == "turn_finished"


def test_one_that_does_not_end_is_not_waited_for_any_longer(out: Path) -> None:
    recorder = start(out)
    recorder.receive({"type": "turn_start"})
    recorder.close(wait=0.01)
    assert failure_of(out) == "turn_unfinished"
    assert verified(out) == "failed"


def test_between_turns_a_recording_may_be_stopped(out: Path) -> None:
    recorder = start(out)
    for event in ({"type": "agent_start"}, *turn(*say("Hi"))):
        recorder.receive(event)
    assert recorder.close(wait=0).status == "complete"


def test_but_a_source_that_ends_there_ended_early(out: Path) -> None:
    record(out, {"type": "agent_start"}, *turn(*say("Hi")))
    assert failure_of(out) == "turn_unfinished"


def test_after_its_end_nothing_changes_any_more(out: Path) -> None:
    recorder = start(out)
    recorder.end()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for event in turn(*say("Hi")):
        recorder.receive(event)
    recorder.bind("s-2", cwd="/src")
    recorder.close()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_times_are_those_of_receipt_whenever_they_are_written(out: Path) -> None:
    recorder = start(out)
    for at, event in enumerate(turn(*say("a", "b"))):
        recorder.receive(event, 1_795_974_741.0 + at / 1000)
    recorder.end()
    assert [event["at"][-5:] for event in events(out)] == [f".{at:03}Z"[-5:] for at in range(8)]
    assert [line["seq"] for line in lines(out / "session" / "events.ndjson")] == list(range(1, 9))


# -- Whatever is told --

odd = st.sampled_from(
    [None, 7, "", "x" * 5000, f"use {TOKEN}", {"$artifact": 1}, {"password": "correct-horse-7"}, "\ud83d"]
)
call = st.sampled_from(["c", "d", "c/1"])
inner = st.one_of(
    st.lists(st.sampled_from(["so ", f" {TOKEN[:9]}", TOKEN[9:], "\n", ""]), max_size=4).map(
        lambda pieces: say(*pieces)
    ),
    st.builds(tool, call, odd, odd),
    st.builds(
        lambda one, first, other: [*tool(one)[:1], *tool("c/2", first, other), *tool(one)[1:]], call, odd, odd
    ),
    st.sampled_from(["user", "toolResult", "custom"]).map(
        lambda role: [message("start", role), message("end", role)]
    ),
    odd.map(lambda value: [update("toolcall_delta", delta=value), update("text_end", content=value)]),
    odd.map(
        lambda value: [
            {"type": "message_end", "message": value},
            {"type": value},
            update("done", reason="stop"),
        ]
    ),
    odd.map(lambda value: [{"type": "message", "id": "e1", "message": value}]),
)
runs = st.lists(
    st.lists(inner, max_size=4).map(lambda parts: turn(*(event for part in parts for event in part))),
    max_size=3,
).map(lambda turns: [event for one in turns for event in one])


@st.composite
def runs_with_mistakes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A run of which events are missing, come twice, or come too early."""
    told = draw(runs)
    for _ in range(draw(st.integers(0, 3)) if told else 0):
        place = draw(st.integers(0, len(told) - 1))
        how = draw(st.sampled_from(["missing", "twice", "early"]))
        one = told.pop(place) if how != "twice" else told[place]
        if how != "missing":
            told.insert(draw(st.integers(0, place)), one)
        if not told:
            break
    return told


@given(told=runs_with_mistakes(), verbatim=st.booleans())
def test_whatever_is_told_the_journal_keeps_the_format_s_rules(
    tmp_path_factory: pytest.TempPathFactory, told: list[dict[str, Any]], verbatim: bool
) -> None:
    out = tmp_path_factory.mktemp("any") / "run"
    recorder = start(out, verbatim=verbatim)
    for one in told:
        if one["type"] == "message":
            recorder.entry(one)
        else:
            recorder.receive(one)
    recorder.end()
    assert verified(out) in ("complete", "failed")
    if not verbatim:
        assert not any(TOKEN in path.read_text() for path in out.rglob("*") if path.is_file())
