"""A turn as its hooks and its harness's files tell it together, from the jobs to the events that are kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.intake import Intake
from sessionpipe.outbox import Outbox
from sessionpipe.protocol import rfc3339
from sessionpipe.spool import Spool
from sessionpipe.transcripts import TranscriptReader
from tests.harnesses import devin_store
from tests.harnesses.devin_store import Store
from tests.schema import assert_valid

# A whole second: some agents keep no less, and then what was asked came before its hook.
NOW = (int(time.time()) - 60) * 1_000


class Machine:
    """A person's home, the jobs of the hooks that run there, and what is recorded of them."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        (self.home / "src").mkdir(parents=True)
        self.spool = Spool(root / "spool")
        self.spool.prepare()
        self.outbox = Outbox.open(root / "outbox.db")
        self.jobs = 0

    def hook(self, harness: str, event: str, payload: dict[str, Any], **env: str) -> Machine:
        """The next hook, a second behind the one before."""
        self.jobs += 1
        header = {
            "v": 1,
            "harness": harness,
            "event": event,
            "at_ms": NOW + 1000 * self.jobs,
            "cwd": "/hook",
            "ppid": 1,
        }
        variables = {f"env.{name}": value for name, value in {"HOME": str(self.home), **env}.items()}
        fields = "".join(f"{name}={value}\0" for name, value in {**header, **variables}.items())
        job = self.spool.new / f"{self.jobs:020d}.job"
        job.write_bytes(f"{fields}\0".encode() + json.dumps(payload).encode())
        intake = Intake(self.outbox, self.spool, machine=lambda: "laptop", log=lambda level, message: None)
        assert intake.run() == 1
        return self

    def writes(self, place: str, *records: dict[str, Any]) -> Path:
        file = self.home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, (1, 1))
        return file

    def told(self) -> list[str]:
        """Every event that was recorded, in words, and what was said."""
        TranscriptReader(self.outbox, log=lambda level, message: None).step(NOW + 3_600_000)
        events = [json.loads(row.body) for row in self.outbox.read(0, 100)]
        for event in events:
            assert_valid(event)
        return [" ".join([event["type"], *self.words(event["data"])]) for event in events]

    def words(self, data: dict[str, Any]) -> list[str]:
        shown = ("source", "reason", "user", "assistant", "background", "how")
        return [str(data[name]) for name in shown if name in data]

    def block(self) -> dict[str, Any]:
        """The session block of the last event, without where it is."""
        last = json.loads([*self.outbox.read(0, 100)][-1].body)
        return {name: last["session"].get(name) for name in ("title", "model", "cwd")} | {
            "version": last["harness"].get("version")
        }


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.outbox.close()


def test_cursors_transcript_is_found_though_no_payload_names_it(machine: Machine) -> None:
    name = "7f1c0de4-0000-4000-8000-0000000000c1"
    payload = {"conversation_id": name, "generation_id": "g", "workspace_roots": [str(machine.home / "src")]}
    machine.hook("cursor", "beforeSubmitPrompt", {**payload, "prompt": "Fix it"})
    asked = {
        "role": "user",
        "message": {"content": [{"type": "text", "text": "<user_query>Fix it</user_query>"}]},
    }
    said = {"role": "assistant", "message": {"content": [{"type": "text", "text": "Fixed."}]}}
    ended = {"type": "turn_ended", "status": "success"}
    machine.writes(f".cursor/projects/some-hash/agent-transcripts/{name}/{name}.jsonl", asked, said, ended)
    machine.hook("cursor", "stop", {**payload, "status": "completed"})
    assert machine.told() == [
        "session.started unknown",
        "turn.started",
        "turn.ended stop",
        "turn.transcript Fix it Fixed.",
    ]
    assert machine.block() == {"title": "Fix it", "model": None, "cwd": "~/src", "version": None}


def test_a_headless_run_of_cursors_ends_its_turn_and_is_read_at_its_end(machine: Machine) -> None:
    name = "7f1c0de4-0000-4000-8000-0000000000c1"
    payload = {"conversation_id": name, "generation_id": "g", "workspace_roots": [str(machine.home / "src")]}
    machine.hook("cursor", "sessionStart", {**payload, "generation_id": name})
    machine.hook("cursor", "preToolUse", {**payload, "tool_name": "Read", "tool_use_id": "t"})
    asked = {"role": "user", "message": {"content": [{"type": "text", "text": "Count them"}]}}
    said = {"role": "assistant", "message": {"content": [{"type": "text", "text": "Two."}]}}
    machine.writes(f".cursor/projects/home-src/agent-transcripts/{name}.jsonl", asked, said)
    machine.hook("cursor", "sessionEnd", {**payload, "generation_id": name, "reason": "completed"})
    assert machine.told() == [
        "session.started unknown",
        "tool.started",
        "turn.ended stop",
        "session.ended other",
        "turn.transcript Count them Two.",
    ]


def test_copilots_file_tells_a_prompt_that_was_stopped_and_an_end_that_is_none(machine: Machine) -> None:
    name = "5f0e2c7a-1111-4222-8333-944455566677"

    def at(ms: int) -> dict[str, Any]:
        return {"timestamp": rfc3339(NOW + ms)}

    def payload(ms: int, **members: Any) -> dict[str, Any]:
        return {"sessionId": name, "timestamp": NOW + ms, "cwd": str(machine.home / "src"), **members}

    machine.hook("copilot-cli", "userPromptSubmitted", payload(1_000, prompt="Fix it"))
    begun = {"copilotVersion": "1.0.24", "selectedModel": "model-1"}
    records = [
        {"type": "session.start", **at(990), "data": begun},
        {"type": "user.message", **at(1_010), "data": {"content": "Fix it"}},
        {"type": "assistant.message", **at(1_020), "data": {"content": "I", "toolRequests": [{}]}},
        {"type": "abort", **at(1_030)},
        {"type": "user.message", **at(2_010), "data": {"content": "Again"}},
        {"type": "assistant.message", **at(2_020), "data": {"content": "Fixed."}},
        {"type": "assistant.turn_end", **at(2_030)},
    ]
    machine.writes(f".copilot/session-state/{name}/events.jsonl", *records)
    machine.hook("copilot-cli", "userPromptSubmitted", payload(2_000, prompt="Again"))
    machine.hook("copilot-cli", "agentStop", payload(2_040, stopReason="end_turn"))
    machine.hook("copilot-cli", "sessionEnd", payload(2_050, reason="complete"))
    assert machine.told() == [
        "session.started unknown",
        "turn.started",
        "turn.ended interrupt",
        "turn.started",
        "turn.ended stop",
        "turn.transcript Fix it I",
        "turn.transcript Again Fixed.",
    ]
    assert machine.block() == {"title": "Fix it", "model": "model-1", "cwd": "~/src", "version": None}


def test_droids_turn_is_read_when_its_file_is_quiet(machine: Machine) -> None:
    name = "0d3b6c1e-2222-4333-8444-955566677788"
    asked = {"role": "user", "content": [{"type": "text", "text": "Fix it"}]}
    said = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Fixed."}]}
    messages = [
        {"type": "message", "id": str(ms), "timestamp": rfc3339(NOW + ms), "message": message}
        for ms, message in ((1_010, asked), (1_900, said))
    ]
    file = machine.writes(f".factory/sessions/-src/{name}.jsonl", *messages)
    machine.writes(f".factory/sessions/-src/{name}.settings.json", {"model": "custom:model-1"})
    payload = {"session_id": name, "transcript_path": str(file), "cwd": str(machine.home / "src")}
    machine.hook("droid", "UserPromptSubmit", {**payload, "prompt": "Fix it"}).hook("droid", "Stop", payload)
    assert machine.told() == [
        "session.started unknown",
        "turn.started",
        "turn.ended stop",
        "turn.transcript Fix it Fixed.",
    ]
    assert machine.block() == {"title": "Fix it", "model": "model-1", "cwd": "~/src", "version": None}


def test_devins_store_is_read_for_the_session_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devin_store, "START", NOW // 1000)
    store = Store(machine.home).session().session("blue-fox").typed("Fix it")
    store.asks("Fix it", 1.5)
    store.says("Fixed.", 1.9)
    store.asks("Another's", 1.6, session="blue-fox")
    payload = {"session_id": "amber-otter", "prompt_id": "p"}
    env = {"DEVIN_PROJECT_DIR": str(machine.home / "src")}
    machine.hook("devin", "UserPromptSubmit", {**payload, "prompt": "Fix it"}, **env)
    machine.hook("devin", "Stop", {**payload, "last_assistant_message": "Fixed."}, **env)
    machine.hook("devin", "SessionEnd", {**payload, "reason": "other"}, **env)
    assert machine.told() == [
        "session.started unknown",
        "turn.started",
        "turn.ended stop",
        "session.ended other",
        "turn.transcript Fix it Fixed.",
    ]
    assert machine.block() == {"title": "Fix it", "model": "m-1", "cwd": "~/src", "version": None}


def test_antigravitys_prompt_is_in_its_transcript_alone(machine: Machine) -> None:
    name = "9c1e77aa-3333-4444-8555-966677788899"
    request = "<USER_REQUEST>Fix it</USER_REQUEST><X>not theirs</X>"
    machine.writes(
        f".gemini/antigravity-ide/brain/{name}/.system_generated/logs/transcript.jsonl",
        {"type": "USER_INPUT", "created_at": rfc3339(NOW + 900), "content": request},
        {"type": "PLANNER_RESPONSE", "created_at": rfc3339(NOW + 1_900), "content": "Fixed."},
    )
    payload = {
        "conversationId": name,
        "workspacePaths": [(machine.home / "src").as_uri()],
        "modelName": "auto",
    }
    ended = {**payload, "terminationReason": "NO_TOOL_CALL", "error": ""}
    machine.hook("antigravity", "PreInvocation", {**payload, "invocationNum": 0, "initialNumSteps": 0})
    machine.hook("antigravity", "Stop", {**ended, "fullyIdle": False})
    machine.hook("antigravity", "Stop", {**ended, "fullyIdle": True})
    assert machine.told() == [
        "session.started startup",
        "turn.started",
        "turn.ended stop 1",
        "turn.ended stop 0",
        "turn.transcript Fix it Fixed.",
    ]
    assert machine.block() == {"title": "Fix it", "model": None, "cwd": "~/src", "version": None}
