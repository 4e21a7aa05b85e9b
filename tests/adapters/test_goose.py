"""adapters/goose.toml: the traps of its hooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook
from sessionpipe.adapters.fold import fold

CALL: dict[str, Any] = {
    "matcher_context": "developer__shell",
    "tool_call_id": "call_4",
    "tool_name": "developer__shell",
    "tool_input": {"command": "false"},
    "working_dir": "/src/demo",
}


def hook(event: str, at_ms: int = 1_000, **fields: Any) -> list[Draft]:
    payload = {"event": event, "session_id": "20261129_3", **fields}
    return map_hook("goose", event, json.dumps(payload).encode(), env={}, cwd="/hook", at_ms=at_ms)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def test_a_payload_that_calls_its_event_otherwise_is_nobody_s_we_know() -> None:
    """The folder of plugins is shared, and payloads do not name their agent."""
    payload = {"hook_event_name": "PreToolUse", "session_id": "x", "tool_name": "bash"}
    with pytest.raises(Refused, match="it has no event") as refused:
        map_hook("goose", "PreToolUse", json.dumps(payload).encode(), env={}, cwd="/", at_ms=1)
    assert refused.value.belongs_to is None


def test_whether_a_call_went_well_is_which_event_it_is() -> None:
    assert only(hook("PostToolUse", **CALL))["data"]["ok"] is True
    failed = only(hook("PostToolUseFailure", **CALL))["data"]
    assert failed == {
        "tool": "developer__shell",
        "call_id": "call_4",
        "input": {"command": "false"},
        "ok": False,
    }


def test_a_call_takes_as_long_as_it_is_between_its_events() -> None:
    _, told = fold({}, [*hook("PreToolUse", 1_000, **CALL), *hook("PostToolUse", 1_250, **CALL)])
    assert told[-1]["data"]["ms"] == 250


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"reason": "too risky", "cause": "hook"}, "too risky"),
        ({"reason": " ", "cause": "hook"}, "hook"),
        ({"reason": 7, "blocked_by": "guard"}, "denied"),
    ],
)
def test_a_call_that_is_denied_has_its_end_there(fields: dict[str, Any], error: str) -> None:
    draft = only(hook("PreToolUseResult", decision="deny", **CALL, **fields))
    assert (draft["type"], draft["data"]["ok"], draft["data"]["error"]) == ("tool.ended", False, error)


@pytest.mark.parametrize("decision", ["allow", None, "later"])
def test_a_call_that_is_not_denied_goes_on(decision: str | None) -> None:
    assert hook("PreToolUseResult", decision=decision, **CALL) == []


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"tool_input": {"path": "notes.txt"}}, ["/src/demo/notes.txt"]),
        ({"tool_input": {"file_path": "/etc/hosts"}}, ["/etc/hosts"]),
        ({"tool_input": {}, "matcher_context": "/src/demo/notes.txt"}, ["/src/demo/notes.txt"]),
    ],
)
def test_a_change_is_told_by_the_edit_s_own_event(fields: dict[str, Any], paths: list[str]) -> None:
    told = {**CALL, "tool_name": "developer__text_editor", **fields}
    assert only(hook("AfterFileEdit", **told))["data"] == {"paths": paths}
    assert [draft["type"] for draft in hook("PostToolUse", **told)] == ["tool.ended"]


def test_the_name_of_a_tool_is_no_file() -> None:
    assert hook("AfterFileEdit", **{**CALL, "tool_input": {}}) == []


@pytest.mark.parametrize(
    "event", ["BeforeReadFile", "BeforeShellExecution", "AfterShellExecution", "SubagentStart"]
)
def test_what_says_a_call_again_or_was_never_sent_is_nothing(event: str) -> None:
    assert hook(event, **CALL) == []


def test_a_turn_and_its_session() -> None:
    turn = only(hook("UserPromptSubmit", message="Hej 🚀", working_dir="/src/demo"))
    assert (turn["data"], turn["memo"]["prompt"]) == ({"prompt_chars": 5}, "Hej 🚀")
    assert turn["session"] == {"id": "20261129_3", "cwd": "/src/demo"}
    end = only(hook("Stop", last_assistant_message="Done."))
    assert (end["data"], end["memo"]["transcript"]["said"]) == ({"reason": "stop"}, "Done.")
    assert only(hook("SessionStart"))["data"] == {"source": "unknown"}
    assert only(hook("SessionEnd"))["data"] == {"reason": "other"}
