"""A conversation printed from its journal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.journal.making import Story, artifact, capture, conversation, failure, manifest, put, write
from tests.journal.recipes import edit, sound

Run = Callable[..., Result]
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(run: Run, root: Path, *options: str) -> str:
    done = run("journal", "show", str(root), *options)
    assert done.exit_code == 0, done.output
    return done.stdout


def page(run: Run, root: Path, *options: str) -> str:
    """What is shown below the heading."""
    return shown(run, root, *options).partition("\n\n")[2]


def test_a_conversation_turn_by_turn(run: Run, tmp_path: Path) -> None:
    assert shown(run, write(tmp_path / "bundle")) == (
        "complete · 31 events, 4 entries\n"
        "run      20260730T100000Z-review-3f2a9c1b · review · completed\n"
        "session  session · 01a22870-4a12-71ea-9449-b7f39273f321 · /repo\n"
        "time     30 Jul 2026 10:00:00 · 0.3 s\n"
        "\n"
        "turn 0 · review/a1 · 10:00:00.010 · 0.2 s\n"
        "  user · 10:00:00.020 · 10 ms\n"
        "    What is in README.md?\n"
        "  assistant · 10:00:00.040 · 0.1 s\n"
        "    thinking\n"
        "      I should read it.\n"
        '    → read {"path":"README.md"}\n'
        "      finished · 10:00:00.160 · 30 ms · 2 updates\n"
        "      # Hello\n"
        "      A greeting.\n"
        "  toolResult · 10:00:00.200 · 10 ms\n"
        "\n"
        "turn 1 · review/a1 · 10:00:00.230 · 80 ms\n"
        "  assistant · 10:00:00.240 · 60 ms\n"
        "    It says hello.\n"
    )


@pytest.mark.parametrize(
    "where", ["10", "+0.095s", "+0h0m0.095s", "2026-07-30T10:00:00.105Z", "10:00:00.105"]
)
def test_as_it_stood_at_a_position(run: Run, tmp_path: Path, where: str) -> None:
    out = shown(run, write(tmp_path / "bundle"), "--at", where)
    assert "shown    through event 10\n" in out
    assert out.endswith(
        "  assistant · 10:00:00.040 · streaming: put together from events\n"
        "    thinking\n"
        "      I should read it.\n"
        "    → a call not finished\n"
    )


def test_before_the_first_event_there_is_nothing(run: Run, tmp_path: Path) -> None:
    assert page(run, write(tmp_path / "bundle"), "--at", "0") == ""


@pytest.mark.parametrize(
    "where", ["", "soon", "-1", "+", "25:00", "10:00:99", "2026-13-01T00:00:00Z", "1e3", "٣"]
)
def test_a_position_that_is_none_is_a_matter_of_usage(run: Run, tmp_path: Path, where: str) -> None:
    done = run("journal", "show", str(write(tmp_path / "bundle")), "--at", where)
    assert done.exit_code == 2
    assert "is no position" in done.stderr


def test_a_settled_message_is_what_pi_kept(run: Run, tmp_path: Path) -> None:
    story = conversation()
    story.entries[-1]["entry"]["message"]["content"][0]["text"] = "As Pi kept it."
    assert "As Pi kept it.\n" in page(run, write(tmp_path / "bundle", story))


def test_one_that_never_settled_is_put_together_and_says_so(run: Run, tmp_path: Path) -> None:
    story = Story()
    story.event("turn_started", {"turnIndex": 0}, turnId="t1")
    story.begin("t1", "m1")
    story.text("t1", "m1", "I was ", "about")
    story.settle("t1", "m1", None)
    out = page(run, write(tmp_path / "bundle", story))
    assert "assistant · 10:00:00.020 · 50 ms · unsettled: put together from events\n    I was about\n" in out


def test_one_whose_entry_is_missing_says_so(run: Run, tmp_path: Path) -> None:
    story = conversation()
    del story.entries[-1]
    out = page(run, write(tmp_path / "bundle", story))
    assert "its entry is missing: put together from events\n    It says hello.\n" in out
    assert "1 thing about this journal:\n  event 30: entry e4 is missing (entry_missing)\n" in out


@pytest.mark.parametrize(("status", "words"), [("recording", "streaming"), ("failed", "not finished")])
def test_what_is_open_at_the_end_goes_on_only_while_it_is_recorded(
    run: Run, tmp_path: Path, status: str, words: str
) -> None:
    story = conversation()
    story.event("turn_started", {"turnIndex": 2}, turnId="t3")
    story.begin("t3", "m9")
    root = write(tmp_path / "bundle", story)
    running = {key: value for key, value in manifest(status="running").items() if key != "finishedAt"}
    put(root / "manifest.json", running)
    put(root / "session/capture.json", capture(story, status, **(failure() if status == "failed" else {})))
    assert page(run, root).endswith(f"assistant · 10:00:00.330 · {words}: put together from events\n")


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"remove": True}, "unverified: there is no capture.json · 27 events, 3 entries"),
        ({"set": {"eventCount": 30}}, "unverified: its capture says eventCount 30, the journal has 27 · 27"),
        (
            {"set": {"status": "failed", **failure()}},
            "failed: no space left (event_write_failed) · 27 events",
        ),
        ({"set": {"eventSchema": "v9"}}, "unavailable: its events are of the schema v9, which this version"),
        ({"set": {"redaction": {"ruleset": "secrets@1"}}}, "complete · 27 events, 3 entries"),
    ],
)
def test_the_capture_is_what_is_said_first(
    run: Run, tmp_path: Path, change: dict[str, Any], first: str
) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/capture.json", **change})
    out = shown(run, root)
    assert out.startswith(first)
    assert ("secrets  removed by secrets@1 as it was recorded\n" in out) is ("redaction" in str(change))


def test_tools_below_the_call_they_are_of_each_once(run: Run, tmp_path: Path) -> None:
    story = Story()
    story.event("turn_started", {"turnIndex": 0}, turnId="t1")
    story.begin("t1", "m1")
    calls = [{"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {"n": n}} for n in (1, 2, 3)]
    story.entry("e1", {"role": "assistant", "content": calls})
    story.settle("t1", "m1", "e1")
    story.tool("t1", "m1", "c2", "ls", {"n": 2}, {"content": "two"})
    story.tool("t1", "m1", "c1", "ls", {"n": 1}, {"content": "one"}, error=True)
    story.tool("t1", "m1", "c2/1", "cat", {}, {"content": []})
    story.tool("t1", "m9", "c9", "rm", {}, {"content": [{"type": "image", "mimeType": "image/png"}]})
    out = page(run, write(tmp_path / "bundle", story)).splitlines()[2:]
    assert [re.sub(r" · [\d:.]+ · 10 ms", "", line) for line in out] == [
        '    → ls {"n":1}',
        "      failed",
        "      one",
        '    → ls {"n":2}',
        "      finished",
        "      two",
        '    → ls {"n":3}',
        "      never executed",
        "    → cat",
        "      finished",
        "",
        "tool executions without their message",
        "  → rm",
        "    finished",
        "    [image, image/png]",
    ]


def test_long_things_are_cut_and_whole_on_request(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    assert "… 187 more lines (--full shows all)\n" in shown(run, root)
    full = shown(run, root, "--full")
    assert "      line 199: nothing of interest\n" in full
    assert '          "$artifact": "a name of the person\'s own"\n' in full


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"remove": True}, "it is not there"),
        ({"become": "link"}, "regular file"),
        ({"append": "x"}, "5863 bytes"),
    ],
)
def test_an_artifact_that_is_not_sound_is_not_shown(
    run: Run, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    root = sound(tmp_path / "bundle")
    (path,) = (root / "artifacts").iterdir()
    edit(root, {"file": f"artifacts/{path.name}", **change})
    out = shown(run, root)
    assert "(an artifact that can't be shown:" in out
    assert words in out
    assert "nothing of interest" not in out


def test_an_artifact_is_read_only_when_it_is_shown(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    (path,) = (root / "artifacts").iterdir()
    path.unlink()
    assert "artifact that can't" not in shown(run, root, "--at", "15")


def test_json_has_state_entries_and_times(run: Run, tmp_path: Path) -> None:
    from sessionpipe.journal import reduce

    story = conversation()
    root = write(tmp_path / "bundle", story)
    (session,) = json.loads(shown(run, root, "--json", "--at", "13"))["sessions"]
    assert session["state"] == reduce(story.entries, story.events, 13)
    assert session["entries"] == {record["entry"]["id"]: record["entry"] for record in story.entries[:1]}
    assert session["messages"][0] == {
        "id": "m1",
        "turnId": "t1",
        "nodeId": "review",
        "attemptId": "a1",
        "startedAt": "2026-07-30T10:00:00.020Z",
        "finishedAt": "2026-07-30T10:00:00.030Z",
    }
    assert (session["status"], session["capture"]["eventCount"]) == ("complete", 31)


def test_every_session_of_a_bundle_and_a_position_in_one_only(run: Run, tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    write(root, folder="session/segments/a2")
    assert shown(run, root).count("What is in README.md?") == 2
    done = run("journal", "show", str(root), "--at", "3")
    assert done.exit_code == 2
    assert "name one of" in done.stderr
    assert "through event 3" in shown(run, root / "session/segments/a2", "--at", "3")


def test_what_is_no_journal_is_one_line(run: Run, tmp_path: Path) -> None:
    done = run("journal", "show", str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "is no journal" in done.stderr


def test_what_a_stranger_wrote_is_text_to_a_terminal(run: Run, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\b\u202e\r\n\ttail\x00"
    story = Story()
    story.event("turn_started", {"turnIndex": 0}, turnId="t1")["nodeId"] = evil
    story.begin("t1", evil, evil)
    story.text("t1", evil, evil)
    story.said("t1", evil, "toolcall_start", 1)
    story.said("t1", evil, "toolcall_delta", 1, delta=evil)
    story.tool(
        "t1", evil, "c", evil, {evil: evil}, {"content": [{"type": evil}, {"type": "text", "text": evil}]}
    )
    story.tool("t1", evil, "d", evil, evil, {evil: evil})
    story.begin("t1", "m2")
    call = {"type": "toolCall", "id": 1, "name": evil, "arguments": [evil]}
    story.entry("e1", {"role": evil, "content": [{"type": "image", "mimeType": evil}, call, evil]})
    story.settle("t1", "m2", "e1")
    story.event("message_started", {"role": "x"}, turnId=evil, messageId=evil)
    root = write(tmp_path / "bundle", story)
    edit(root, {"file": "session/binding.json", "set": {"cwd": evil, "piSessionId": evil}})
    edit(root, {"file": "manifest.json", "set": {"workflowName": evil, "status": evil}})
    edit(root, {"file": "session/capture.json", "set": {"redaction": {"ruleset": evil}, "failure": {}}})
    for options in ((), ("--full",), ("--json",)):
        assert CONTROLS.findall(shown(run, root, *options)) == []
    assert "�]0;owned�" in shown(run, root)


@pytest.mark.parametrize(
    ("zone", "when"), [("UTC+14", "0001-01-01T00:00:00Z"), ("UTC-14", "9999-12-31T23:59:59Z")]
)
def test_a_time_that_no_calendar_here_has_is_no_fault(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, when: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    story = conversation()
    story.events[0]["at"] = when
    root = write(tmp_path / "bundle", story)
    assert "turn 0 · review/a1 · --:--:--.---" in shown(run, root)
    assert run("journal", "show", str(root), "--at", "10:00").exit_code in (0, 2)


def test_a_conversation_s_own_look_alike_of_a_reference_is_shown_as_it_is(run: Run, tmp_path: Path) -> None:
    story = conversation()
    call = story.entries[1]["entry"]["message"]["content"][1]
    call["arguments"] = {"$artifact": "mine"}
    call["id"] = "another"
    assert '→ read {"$artifact":"mine"}' in page(run, write(tmp_path / "bundle", story))


def test_half_a_surrogate_pair_stops_nothing(run: Run, tmp_path: Path) -> None:
    story = conversation()
    story.entries[0]["entry"]["message"]["content"] = "half \ud83d"
    root = write(tmp_path / "bundle", story)
    assert "half ?" in shown(run, root)
    assert json.loads(shown(run, root, "--json"))["sessions"][0]["status"] == "complete"


def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    story = conversation()
    for n in range(3000):
        story.event("turn_started", {"turnIndex": n}, turnId=f"x{n}")
        story.begin(f"x{n}", f"y{n}")
    root = write(tmp_path / "bundle", story)
    command = [sys.executable, "-m", "sessionpipe", "journal", "show", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as showing:
        assert showing.stdout is not None and showing.stderr is not None
        showing.stdout.readline()
        showing.stdout.close()
        assert showing.stderr.read() == b""


def test_an_artifact_stands_in_an_entry_too(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    (root / "artifacts").mkdir(parents=True)
    story = conversation()
    story.entries[0]["entry"]["message"]["content"][0]["text"] = artifact(root, "a long question " * 400)
    assert "a long question a long question" in shown(run, write(root, story))
