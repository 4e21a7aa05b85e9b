"""The real Pi loads our extension, and every event reaches a hook, in order, with Pi none the wiser."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine, wait_for
from tests.e2e.model import Model, model

QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1", "SESSIONPIPE_NO_WORKER": "1"}


@pytest.fixture
def pi() -> list[str]:
    """The command that starts Pi."""
    program = agents.program("SESSIONPIPE_TEST_PI", "pi")
    return [agents.node(22), program]


@pytest.fixture
def server(machine: Machine) -> Iterator[Model]:
    """A model for Pi, which knows it and has our extension."""
    script = [("bash", {"command": "exit 3"}), ("write", {"path": "notes.txt", "content": "x"}), "All done."]
    folder = machine.home / ".pi" / "agent"
    folder.mkdir(parents=True)
    with model(*script) as server:
        provider = {
            "baseUrl": f"{server.url}/v1",
            "api": "openai-completions",
            "apiKey": "made up",
            "models": [{"id": "made-up"}],
        }
        (folder / "models.json").write_text(json.dumps({"providers": {"loopback": provider}}))
        settings = {"defaultProvider": "loopback", "defaultModel": "made-up"}
        (folder / "settings.json").write_text(json.dumps(settings))
        machine.sessionpipe("install", "pi")
        yield server


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


def test_pi_tells_everything_in_order(machine: Machine, pi: list[str], server: Model) -> None:
    done = agents.run(machine, *pi, "-p", "Do things", **QUIET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")
    assert agents.events(machine) == EVENTS


def test_pi_s_json_stream_stays_clean(machine: Machine, pi: list[str], server: Model) -> None:
    done = agents.run(machine, *pi, "--mode", "json", "-p", "Do things", **QUIET)
    assert done.returncode == 0
    assert [json.loads(line)["type"] for line in done.stdout.rstrip("\n").split("\n")][-1] == "agent_settled"
    assert agents.events(machine) == EVENTS


@pytest.mark.parametrize("broken", ["gone", "failing", "deaf"])
def test_pi_does_not_notice_a_broken_launcher(
    machine: Machine, pi: list[str], server: Model, broken: str
) -> None:
    launcher = machine.state.launcher
    if broken == "gone":
        launcher.unlink()
    else:
        # Deaf: it takes no input, not even at the end.
        launcher.write_text(
            "#!/bin/sh\n" + ("exit 9\n" if broken == "failing" else "exec <&-; exec sleep 5\n")
        )
    done = agents.run(machine, *pi, "-p", "Do things", **QUIET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")


def test_pi_ended_by_a_signal_still_says_goodbye(machine: Machine, pi: list[str], server: Model) -> None:
    with subprocess.Popen(
        [*pi, "--mode", "rpc"],
        env=machine.environment(**agents.OFFLINE, **QUIET),
        cwd=agents.work(machine),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: agents.events(machine) == ["session_start"], "the start of the session", 90)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert agents.events(machine) == ["session_start", "session_shutdown"]


def test_the_session_is_told_whole_through_the_pipeline(
    machine: Machine, pi: list[str], server: Model
) -> None:
    pytest.importorskip("sessionpipe.privacy.secrets")
    agents.run(machine, *pi, "-p", "Do things", **QUIET)
    machine.sessionpipe("flush")
    told = machine.events()
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
