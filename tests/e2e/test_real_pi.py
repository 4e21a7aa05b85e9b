"""The real Pi loads our extension, and every event reaches a hook, in order, with Pi none the wiser."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e import agents
from tests.e2e.machine import wait_for
from tests.e2e.model import Turn
from tests.e2e.real_pi import Pi, pi, script
from tests.patience import PATIENCE_S

__all__ = ["pi", "script"]


@pytest.fixture
def watched(pi: Pi, script: list[Turn]) -> Pi:
    """Pi with our extension, and a model that has it do things."""
    script += [("bash", {"command": "exit 3"}), ("write", {"path": "notes.txt", "content": "x"}), "All done."]
    return pi.install()


EVENTS = [
    "session_start",
    "agent_start",
    "tool_execution_start",
    "tool_execution_end",
    "tool_execution_start",
    "tool_execution_end",
    "agent_settled",
    "session_shutdown",
]


def test_pi_does_not_notice_a_broken_launcher(watched: Pi) -> None:
    # One that is deaf: it takes no input, not even at the end. Others: tests/install/test_pi_extension.py.
    watched.machine.state.launcher.write_text("#!/bin/sh\nexec <&-; exec sleep 5\n")
    done = watched.run("-p", "Do things")
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")


def test_pi_ended_by_a_signal_still_says_goodbye(watched: Pi) -> None:
    with subprocess.Popen(
        [*watched.command, "--mode", "rpc"],
        env=watched.environment(),
        cwd=agents.work(watched.machine),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: watched.told() == ["session_start"], "the start of the session", 90)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert watched.told() == ["session_start", "session_shutdown"]


def test_the_session_is_told_whole_and_in_order_through_the_pipeline(watched: Pi) -> None:
    done = watched.run("-p", "Do things")
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")
    assert watched.told() == EVENTS
    told = watched.events()
    assert [event["type"] for event in told] == [
        "session.started",
        "turn.started",
        "tool.started",
        "tool.ended",
        "tool.started",
        "tool.ended",
        "files.changed",
        "turn.ended",
        "session.ended",
        "turn.transcript",
    ]
    assert told[-1]["data"] | {"user": "Do things", "assistant": "All done."} == told[-1]["data"]
    assert [event["session"]["seq"] for event in told] == list(range(len(told)))
    assert {event["session"]["model"] for event in told} == {"made-up"}
    assert {event["session"]["cwd"] for event in told} == {str(Path("~") / "work")}
    assert told[6]["data"]["paths"] == ["notes.txt"]
