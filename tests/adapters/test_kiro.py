"""adapters/kiro.toml: two spellings of the same events, and the traps of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.hook import NAMELESS

BASH: dict[str, Any] = {"tool_name": "execute_bash", "tool_input": {"command": "ls"}}


def hook(event: str, process: str = "", **fields: Any) -> list[Draft]:
    payload = {"hook_event_name": event, "cwd": "/src/demo", "session_id": "sess_12ab", **fields}
    env = {"SESSIONPIPE_PROCESS": process}
    return map_hook("kiro", event, json.dumps(payload).encode(), env=env, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


@pytest.mark.parametrize(
    ("camel", "pascal", "fields"),
    [
        ("agentSpawn", "SessionStart", {}),
        ("userPromptSubmit", "UserPromptSubmit", {"prompt": "Go"}),
        ("preToolUse", "PreToolUse", BASH),
        ("postToolUse", "PostToolUse", {**BASH, "tool_response": {"success": True, "result": []}}),
        ("stop", "Stop", {}),
    ],
)
def test_both_spellings_say_the_same(camel: str, pascal: str, fields: dict[str, Any]) -> None:
    one, other = only(hook(camel, **fields)), only(hook(pascal, **fields))
    assert (one["type"], one["data"], one["session"]) == (other["type"], other["data"], other["session"])


CLASSIC = ["agentSpawn", "userPromptSubmit", "preToolUse", "postToolUse", "stop"]
PROCESS = "2f6a1f9e-0d5c-4b0a-9a55-6a5107d79a55.4711.89123"


@pytest.mark.parametrize("event", CLASSIC)
@pytest.mark.parametrize("session", [None, ""])
def test_a_hook_of_the_classic_mode_is_of_the_process_that_ran_it(event: str, session: str | None) -> None:
    (draft, *_) = hook(event, PROCESS, session_id=session, **BASH)
    assert draft["session"]["id"] == PROCESS


def test_an_id_of_kiro_s_own_comes_first() -> None:
    assert only(hook("stop", PROCESS))["session"]["id"] == "sess_12ab"


@pytest.mark.parametrize("event", CLASSIC)
def test_without_either_it_is_nobody_s(event: str) -> None:
    with pytest.raises(Refused, match="it has no session id"):
        hook(event, session_id=None, **BASH)


def test_in_the_spelling_it_shares_a_process_is_no_session() -> None:
    with pytest.raises(Refused, match="it has no session id"):
        hook("Stop", PROCESS, session_id=None)


def test_the_hook_tells_the_process_of_those_that_need_it() -> None:
    asking = {name for name in registry.names() if "SESSIONPIPE_PROCESS" in str(registry.table(name))}
    assert asking == set(NAMELESS)


def test_an_agent_file_s_session_may_be_called_anything() -> None:
    session = "0b9a9c1e-6a51-4d7b-9a55-0d3c5f1f5a10"
    assert only(hook("stop", session_id=session))["session"]["id"] == session


def test_of_the_spelling_it_shares_only_kiro_s_own_ids_count() -> None:
    with pytest.raises(Refused):
        hook("Stop", session_id="0b9a9c1e-6a51-4d7b-9a55-0d3c5f1f5a10")


def test_a_payload_of_cursor_s_is_cursor_s() -> None:
    with pytest.raises(Refused) as refused:
        hook("preToolUse", conversation_id="c", **BASH)
    assert refused.value.belongs_to == "cursor"


@pytest.mark.parametrize("prompt", ["", None])
def test_a_prompt_that_is_not_told_has_no_length(prompt: str | None) -> None:
    draft = only(hook("UserPromptSubmit", prompt=prompt))
    assert (draft["data"], "prompt" in draft["memo"]) == ({}, False)


@pytest.mark.parametrize(
    ("response", "ok", "error"),
    [
        ({"success": True, "result": [{"exit_status": "0", "stdout": "a", "stderr": "warning"}]}, True, None),
        ({"success": True, "result": [{"exit_status": 0}]}, True, None),
        ({"success": True, "result": [{"exit_status": "2", "stderr": "bad\n"}]}, False, "bad\n"),
        ({"success": True, "result": [{"exit_status": "signal", "stderr": ""}]}, False, None),
        ({"success": False, "result": [{"exit_status": "0", "stderr": "no"}]}, False, "no"),
        ({"success": False, "result": ["missing"]}, False, "missing"),
        ({"success": False, "result": "missing"}, False, "missing"),
        ({"success": False}, False, None),
        ({"success": "yes", "result": []}, True, None),
        (None, True, None),
        ("text", True, None),
    ],
)
def test_whether_a_call_went_well(response: Any, ok: bool, error: str | None) -> None:
    data = only(hook("postToolUse", **BASH, tool_response=response))["data"]
    assert (data["ok"], data.get("error")) == (ok, error)


def test_a_write_changes_its_file_when_it_went_well() -> None:
    write: dict[str, Any] = {
        "tool_name": "fs_write",
        "tool_input": {"command": "create", "path": "notes.txt"},
    }
    _, files = hook("postToolUse", **write, tool_response={"success": True})
    assert files["data"] == {"paths": ["/src/demo/notes.txt"]}
    assert len(hook("postToolUse", **write, tool_response={"success": False})) == 1


@pytest.mark.parametrize("event", ["PostFileSave", "PostFileCreate", "PostFileDelete"])
def test_a_file_s_own_events(event: str) -> None:
    assert only(hook(event, file_path="/src/demo/a"))["data"] == {"paths": ["/src/demo/a"]}
    assert hook(event) == []


@pytest.mark.parametrize("event", ["PreTaskExec", "PostTaskExec"])
def test_the_tasks_of_a_plan_are_nothing(event: str) -> None:
    assert hook(event) == []


def test_the_end_of_a_turn_may_say_what_was_said() -> None:
    assert only(hook("stop", assistant_response="Done."))["memo"]["transcript"]["said"] == "Done."
    assert only(hook("Stop"))["memo"]["transcript"]["said"] is None
