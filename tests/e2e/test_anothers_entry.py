"""An agent that runs the hooks in Claude Code's settings beside its own: each of its events comes once."""

from __future__ import annotations

import json

from tests.e2e.machine import Machine
from tests.schema import assert_valid

SESSION = "0b0f2f6e-0000-4000-8000-0000000000c1"
#: What happens, and under which names Cursor and Claude Code's file know it.
TURN = [
    ("beforeSubmitPrompt", "UserPromptSubmit", {"prompt": "check it"}),
    ("preToolUse", "PreToolUse", {"tool_name": "Shell", "tool_input": {"command": "make"}, "tool_use_id": "tu-1"}),
    ("postToolUse", "PostToolUse", {"tool_name": "Shell", "tool_input": {"command": "make"}, "tool_use_id": "tu-1",
                                    "tool_output": "{}", "duration": 3}),
    ("stop", "Stop", {"status": "completed"}),
]  # fmt: skip


def fire(machine: Machine, entry: str, event: str, named: str, data: dict[str, object], turn: int) -> None:
    payload = {
        "hook_event_name": named,
        "conversation_id": SESSION,
        "generation_id": f"g-{turn}",
        "cursor_version": "9.9.9",
        "workspace_roots": [str(machine.home)],
        **data,
    }
    done = machine.hook(entry, event, json.dumps(payload).encode(), SESSIONPIPE_NO_WORKER="1")
    assert (done.returncode, done.stderr) == (0, b"")


def told(machine: Machine) -> list[str]:
    machine.sessionpipe("flush")
    events = machine.events()
    for event in events:
        assert_valid(event)
        assert (event["harness"]["name"], event["session"]["id"]) == ("cursor", SESSION)
    return [event["type"] for event in events]


EXPECTED = ["session.started", "turn.started", "tool.started", "tool.ended", "turn.ended"]


def test_by_claude_codes_file_alone_it_is_a_session_of_its_own(machine: Machine) -> None:
    for own, theirs, data in TURN:
        fire(machine, "claude-code", theirs, own, data, 1)
    assert told(machine) == EXPECTED


def test_by_both_files_it_is_told_once_whatever_the_order(machine: Machine) -> None:
    for own, theirs, data in TURN:
        fire(machine, "claude-code", theirs, own, data, 1)
        fire(machine, "cursor", own, own, data, 1)
    assert told(machine) == EXPECTED
    for own, theirs, data in TURN:
        fire(machine, "cursor", own, own, data, 2)
        fire(machine, "claude-code", theirs, own, data, 2)
    assert told(machine) == [*EXPECTED, *EXPECTED[1:]]
