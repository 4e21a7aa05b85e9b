"""The real OpenCode loads our plugin, and every event reaches a hook, in order, with OpenCode none the wiser."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine
from tests.e2e.model import Model, Turn, model

QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "SESSIONPIPE_NO_WORKER": "1",
}
#: The package that OpenCode puts beside plugins, and would look for in the network for more than a minute.
PRESENT = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}


class Talk(Model):
    """A model that has another answer for what finds a session's title, whenever that comes."""

    def turn(self, body: dict[str, Any]) -> Turn:
        if "title generator" in json.dumps(body.get("messages", [])[:1]):
            return "A title"
        return super().turn(body)


class OpenCode:
    """OpenCode on a made-up machine, with our plugin, and a model on loopback that has it do things."""

    def __init__(self, machine: Machine, server: Model) -> None:
        self.machine = machine
        self.program = agents.program("SESSIONPIPE_TEST_OPENCODE", "opencode")
        folder = machine.home / ".config" / "opencode"
        (folder / "node_modules").mkdir(parents=True)
        (folder / "package-lock.json").write_text(json.dumps(PRESENT))
        loopback = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{server.url}/v1", "apiKey": "made up"},
            "models": {"made-up": {}},
        }
        settings = {"model": "loopback/made-up", "share": "disabled", "provider": {"loopback": loopback}}
        (folder / "opencode.json").write_text(json.dumps(settings))
        machine.sessionpipe("install", "opencode")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return agents.run(self.machine, self.program, "run", *words, **QUIET)


@pytest.fixture
def opencode(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenCode]:
    monkeypatch.setattr("tests.e2e.model.Model", Talk)
    with model(
        ("bash", {"command": "exit 3", "description": "Fail"}),
        ("write", {"filePath": "notes.txt", "content": "x"}),
        "All done.",
    ) as server:
        yield OpenCode(machine, server)


def test_a_run_is_told_whole_through_the_pipeline(opencode: OpenCode) -> None:
    done = opencode.run("Do things")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    opencode.machine.sessionpipe("flush")
    told = opencode.machine.events()
    assert [event["type"] for event in told] == [
        "session.started",
        "turn.started",
        "tool.started",
        "tool.ended",
        "tool.started",
        "tool.ended",
        "files.changed",
        "turn.ended",
        "turn.transcript",
    ]
    assert told[-1]["data"] | {"user": '"Do things"', "assistant": "All done."} == told[-1]["data"]
    assert [event["data"].get("ok") for event in told if event["type"] == "tool.ended"] == [False, True]
    assert told[6]["data"]["paths"] == ["notes.txt"]
    assert {event["session"]["model"] for event in told[1:]} == {"made-up"}
    assert told[-1]["session"]["title"] == "A title"
    assert told[0]["session"]["attended"] is False
