"""The real Pi, recorded: from its stream, from inside it, and from both at once."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from sessionpipe.journal import reduce, verify
from sessionpipe.paths import data_dir
from tests.e2e import agents
from tests.e2e.machine import SESSIONPIPE, wait_for
from tests.e2e.model import Held, Turn
from tests.e2e.real_pi import Pi, Terminal, pi, script
from tests.journal.recordings import capture, entries, events, lines
from tests.patience import PATIENCE_S

__all__ = ["pi", "script"]

WORK: list[Turn] = [
    "Looking.",
    ("bash", {"command": "echo out; exit 3"}),
    ("write", {"path": "n.txt", "content": "x" * 5000}),
    "Done.",
]


def recording(out: Path, *options: str) -> list[str]:
    return [*SESSIONPIPE, "journal", "record", "--out", str(out), *options, "--"]


def run(pi: Pi, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env=pi.environment(),
        cwd=agents.work(pi.machine),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def stored(pi: Pi) -> list[dict[str, Any]]:
    """The entries of the one session there is."""
    (file,) = (pi.folder / "sessions").rglob("*.jsonl")
    return lines(file)[1:]


def settled(out: Path) -> list[bool]:
    return [event["payload"]["settled"] for event in events(out) if event["type"] == "message_finished"]


def test_one_run_is_told_alike_by_its_stream_and_from_inside(
    pi: Pi, script: list[Turn], tmp_path: Path
) -> None:
    script += WORK
    inside, stream = tmp_path / "inside", tmp_path / "stream"
    # The one records the other, which gets our extension at the end of Pi's own words.
    command = [*recording(inside, "--extension"), *recording(stream, "--tee"), *pi.command, "--mode", "json"]
    done = run(pi, *command, "-p", "Do things", "Do more")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["type"] for line in done.stdout.rstrip("\n").split("\n")][-1] == "agent_settled"
    for out in (inside, stream):
        report = verify(out)
        assert (report.status, report.violations) == ("complete", [])
        assert entries(out) == stored(pi)
        assert settled(out) and all(settled(out))
        assert reduce(entries(out), events(out))["diagnostics"] == []
    assert [event | {"at": "*"} for event in events(inside)] == [
        event | {"at": "*"} for event in events(stream)
    ]
    assert json.loads((inside / "session" / "binding.json").read_text())["piSessionFile"].endswith(".jsonl")


def test_printing_text_pi_prints_what_it_would(pi: Pi, script: list[Turn], tmp_path: Path) -> None:
    script += ["All done.", *[400] * 9]
    out = tmp_path / "run"
    done = run(pi, *recording(out, "--extension"), *pi.command, "-p", "Do things")
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")
    assert verify(out).status == "complete"
    # Continued, only what is new is recorded; with an error, Pi's status is ours.
    again = tmp_path / "again"
    before = len(stored(pi))
    done = run(pi, *recording(again, "--extension"), *pi.command, "-c", "-p", "More")
    assert done.returncode == 1
    assert verify(again).status == "complete"
    assert entries(again) == stored(pi)[before:]
    assert all(settled(again))


def test_a_session_that_is_not_kept(pi: Pi, script: list[Turn], tmp_path: Path) -> None:
    script += ["All done."]
    inside, stream = tmp_path / "inside", tmp_path / "stream"
    command = [
        *recording(inside, "--extension"),
        *recording(stream),
        *pi.command,
        "--mode",
        "json",
        "--no-session",
    ]
    assert run(pi, *command, "-p", "Do things").returncode == 0
    assert verify(inside).status == verify(stream).status == "complete"
    assert (all(settled(inside)), any(settled(stream))) == (True, False)
    assert (len(entries(inside)), entries(stream)) == (5, [])


def test_pi_ended_by_a_signal_inside_a_text(pi: Pi, script: list[Turn], tmp_path: Path) -> None:
    script += [Held("Half a ")]
    inside, stream = tmp_path / "inside", tmp_path / "stream"
    command = [
        *recording(inside, "--extension", "--verbatim"),
        *recording(stream),
        *pi.command,
        "--mode",
        "json",
    ]
    with subprocess.Popen(
        [*command, "-p", "Talk"],
        env=pi.environment(),
        cwd=agents.work(pi.machine),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        journal = inside / "session" / "events.ndjson"
        wait_for(lambda: journal.exists() and b"Half a " in journal.read_bytes(), "half a text", 90)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    # From inside its end was seen, and the stream stopped before.
    assert verify(inside).status == "complete"
    assert entries(inside)[-1]["message"]["stopReason"] == "aborted"
    assert verify(stream).status == "failed"
    assert capture(stream)["failure"]["code"] == "turn_unfinished"
    for out in (inside, stream):
        manifest = json.loads((out / "manifest.json").read_text())
        assert manifest["status"] == "failed"


def test_at_a_terminal_each_conversation_has_its_journal(pi: Pi, script: list[Turn], tmp_path: Path) -> None:
    script += ["An answer for you.", "In the new one."]
    out = tmp_path / "run"
    pi.command = [*recording(out, "--extension"), *pi.command]
    second = "session/segments/a1-2"

    def turns(part: str) -> int:
        journal = out / part / "events.ndjson"
        return journal.read_bytes().count(b'"turn_finished"') if journal.exists() else 0

    with Terminal(pi) as screen:
        screen.look(lambda: (out / "session" / "capture.json").exists(), "the capture")
        screen.type("Say something\r")
        screen.look(lambda: turns("session") == 1, "the first turn")
        screen.look(lambda: b"An answer for you." in screen.shown, "the answer")
        screen.type("/new\r")
        screen.look(lambda: (out / second / "capture.json").exists(), "the second capture")
        screen.type("Go on\r")
        screen.look(lambda: turns(second) == 1, "the second turn")
        screen.type("\x04")
        assert screen.ended() == 0
    report = verify(out)
    assert (report.status, report.violations) == ("complete", [])
    assert [session.path for session in report.sessions] == ["session", second]
    assert "sessionpipe" not in screen.shown.decode(errors="replace")


def test_where_nobody_records_pi_does_not_notice_the_extension(pi: Pi, script: list[Turn]) -> None:
    script += ["All done."]
    extension = str(data_dir("adapters") / "pi" / "journal.js")
    done = run(pi, "env", "SESSIONPIPE_JOURNAL=/nowhere", *pi.command, "-p", "Do", "--extension", extension)
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")
