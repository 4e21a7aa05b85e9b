"""The real Pi read along with: around it, and behind it in a pipe, with and without our extension."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.pi_transcript import exchanges
from sessionpipe.harnesses.transcripts import Want
from tests.e2e import agents
from tests.e2e.machine import SESSIONPIPE, wait_for
from tests.e2e.model import Turn
from tests.e2e.real_pi import Pi, pi, script
from tests.patience import PATIENCE_S
from tests.streams import told

__all__ = ["pi", "script"]

TOLD = [
    "session.started startup",
    "turn.started",
    "tool.started bash",
    "tool.ended bash",
    "tool.started write",
    "tool.ended write",
    "files.changed",
    "turn.ended stop",
    "turn.transcript Do things",
    "session.ended exit",
]
INGEST = [*SESSIONPIPE, "ingest", "pi"]


@pytest.fixture
def busy(pi: Pi, script: list[Turn]) -> Pi:
    """Pi, and a model that has it do things."""
    script += [("bash", {"command": "exit 3"}), ("write", {"path": "notes.txt", "content": "x"}), "All done."]
    return pi


def around(pi: Pi, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Pi by ingest."""
    return subprocess.run(
        [*INGEST, "--tee", "--", *pi.command, "--mode", "json", *words],
        env=pi.environment(),
        cwd=agents.work(pi.machine),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def behind(pi: Pi, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run Pi with ingest behind it in a pipe."""
    how: dict[str, Any] = {"env": pi.environment(), "cwd": agents.work(pi.machine)}
    with subprocess.Popen(
        [*pi.command, "--mode", "json", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **how
    ) as process:
        done = subprocess.run(
            [*INGEST, "--tee"], stdin=process.stdout, capture_output=True, timeout=120, check=False, **how
        )
    assert process.returncode == 0
    return done


def said(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["data"]["user"], e["data"]["assistant"]) for e in events if e["type"] == "turn.transcript"]


def said_in_its_file(pi: Pi) -> list[tuple[str, str]]:
    (file,) = (pi.machine.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    reading = exchanges(file, {}, Want(None, True, None, 2**52), Files())
    return [(one.user, one.assistant) for one in reading.exchanges]


def check(pi: Pi, events: list[dict[str, Any]]) -> None:
    """The run told by its stream: all of it, once, with the facts of the session's file."""
    assert told(events) == TOLD
    assert [event["session"]["seq"] for event in events] == list(range(len(TOLD)))
    assert said(events) == said_in_its_file(pi) == [("Do things", "All done.")]
    assert {event["session"]["cwd"] for event in events} == {str(Path("~") / "work")}
    assert {event["session"].get("model") for event in events[1:]} == {"made-up"}
    assert (events[-1]["session"]["title"], events[-1]["session"]["title_source"]) == ("Named", "custom")
    assert (events[3]["data"]["ok"], events[6]["data"]["paths"]) == (False, ["notes.txt"])


def test_around_pi_its_run_is_told_by_its_stream_alone(busy: Pi) -> None:
    """Our extension is installed, and knows that it is not needed."""
    busy.install()
    done = around(busy, "-n", "Named", "-p", "Do things")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.rstrip("\n").split("\n")[-1]) == {"type": "agent_settled", "aborted": False}
    assert busy.told() == []
    check(busy, busy.events())


def test_behind_pi_with_our_extension_its_hooks_tell_the_run(busy: Pi) -> None:
    busy.install()
    done = behind(busy, "-p", "Do things")
    assert (done.returncode, done.stderr) == (0, b"")
    assert busy.machine.events() == []
    events = busy.events()
    # Words that are read from a file may come after the session's end.
    assert sorted(told(events)) == sorted(TOLD)
    assert [event["session"]["seq"] for event in events] == list(range(len(TOLD)))


def test_behind_pi_without_our_extension_its_stream_tells_the_run(busy: Pi) -> None:
    done = behind(busy, "-n", "Named", "-p", "Do things")
    assert (done.returncode, done.stderr) == (0, b"")
    check(busy, busy.events())


@pytest.mark.parametrize("whole_group", [False, True], ids=["ingest alone", "the whole group"])
def test_a_signal_ends_pi_as_ever_and_its_turn_as_interrupted(
    pi: Pi, script: list[Turn], whole_group: bool
) -> None:
    script += [("bash", {"command": "sleep 60"})]
    with subprocess.Popen(
        [*INGEST, "--tee", "--", *pi.command, "--mode", "json", "-p", "Do things"],
        env=pi.environment(),
        cwd=agents.work(pi.machine),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        wait_for(lambda: "tool.started bash" in told(pi.machine.events()), "the call", 90)
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    # Pi was not hurried: it put down what it had.
    events = pi.events()
    assert told(events)[3:] == ["turn.ended interrupt", "turn.transcript Do things", "session.ended other"]
    assert said(events) == said_in_its_file(pi) == [("Do things", "")]


def test_a_session_that_a_stream_told_goes_on_with_hooks_and_nothing_is_told_again(busy: Pi) -> None:
    busy.install()
    assert around(busy, "-p", "Do things").returncode == 0
    assert busy.run("-c", "-p", "And more").returncode == 0
    events = busy.events()
    assert told(events)[len(TOLD)] == "session.started resume"
    turns = [(e["data"]["turn"], e["data"]["user"]) for e in events if e["type"] == "turn.transcript"]
    assert turns == [(1, "Do things"), (2, "And more")]


def test_a_session_that_hooks_told_goes_on_as_a_stream_and_nothing_is_told_again(busy: Pi) -> None:
    busy.install()
    assert busy.run("-p", "Do things").returncode == 0
    busy.events()
    assert around(busy, "-c", "-p", "And more").returncode == 0
    events = busy.events()
    assert told(events)[len(TOLD)] == "session.started resume"
    turns = [(e["data"]["turn"], e["data"]["user"]) for e in events if e["type"] == "turn.transcript"]
    assert turns == [(1, "Do things"), (2, "And more")]
