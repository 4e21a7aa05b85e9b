"""The real Gemini CLI accepts what ``install`` wrote, fires it, and what is told of it is what happened."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine
from tests.e2e.model import Model, model

_QUIET = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


@pytest.fixture
def gemini(machine: Machine) -> str:
    """The program, in a home where the project folder is trusted and our hooks are installed."""
    program = agents.program("SESSIONPIPE_TEST_GEMINI", "gemini")
    folder = machine.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(_QUIET, indent=2))
    (folder / "trustedFolders.json").write_text(json.dumps({str(agents.work(machine)): "TRUST_FOLDER"}))
    machine.sessionpipe("install", "gemini-cli")
    return program


def ask(machine: Machine, program: str, server: Model, *words: str) -> subprocess.CompletedProcess[str]:
    return agents.run(
        machine,
        program,
        *("-m", "gemini-2.5-pro", "--yolo", *words),
        GEMINI_API_KEY="made up",
        GOOGLE_GEMINI_BASE_URL=server.url,
        GEMINI_CLI_NO_RELAUNCH="true",
        SESSIONPIPE_NO_WORKER="1",
    )


def test_a_session_with_a_failing_command_and_its_sequel(machine: Machine, gemini: str) -> None:
    command = ("run_shell_command", {"command": "echo out; exit 3"})
    with model(command, "All done.", "Once more.") as server:
        done = ask(machine, gemini, server, "-p", "Fail once")
        assert (done.returncode, done.stdout.strip()) == (0, "All done."), done.stderr
        done = ask(machine, gemini, server, "--resume", "latest", "-p", "And again")
        assert (done.returncode, done.stdout.strip()) == (0, "Once more."), done.stderr
    events = agents.told(machine)
    assert [event["type"] for event in events if event["type"] != "turn.transcript"] == [
        "session.started",
        "turn.started",
        "tool.started",
        "tool.ended",
        "turn.ended",
        "session.ended",
        "session.started",
        "turn.started",
        "turn.ended",
        "session.ended",
    ]
    (ended,) = (event["data"] for event in events if event["type"] == "tool.ended")
    assert (ended["ok"], ended["error"]) == (False, "Exit Code: 3")
    last = events[-1]["session"]
    assert len({event["session"]["id"] for event in events}) == 1
    assert (last["model"], last["title"], last["cwd"]) == ("gemini-2.5-pro", "Fail once", "~/work")
    exchanges = [event["data"] for event in events if event["type"] == "turn.transcript"]
    assert [(said["turn"], said["user"], said["assistant"]) for said in exchanges] == [
        (1, "Fail once", "All done."),
        (2, "And again", "Once more."),
    ]
