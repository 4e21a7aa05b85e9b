"""adapters/droid.toml: what its made scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.adapters.fold import fold

SESSION = "0d3b6c1e-2222-4333-8444-955566677788"
FILE = f"/home/dev/.factory/sessions/-src-demo/{SESSION}.jsonl"


def hook(
    event: str, *, env: dict[str, str] | None = None, camel: bool = False, **members: Any
) -> list[Draft]:
    names = ("sessionId", "transcriptPath") if camel else ("session_id", "transcript_path")
    payload = {**dict(zip(names, (SESSION, FILE), strict=True)), "cwd": "/src/demo", **members}
    return map_hook("droid", event, json.dumps(payload).encode(), env=env or {}, cwd="/hook", at_ms=1_000)


CALL: dict[str, Any] = {"tool_name": "Execute", "tool_input": {"command": "make"}}


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def types(*drafts: Draft) -> list[str]:
    return [each["type"] for each in fold({}, drafts)[1]]


class TestClaims:
    @pytest.mark.parametrize("camel", [False, True])
    def test_what_all_events_have_may_be_spelt_either_way(self, camel: bool) -> None:
        draft = only(hook("Stop", camel=camel))
        assert draft["session"] == {"id": SESSION, "cwd": "/src/demo"}
        assert draft["memo"]["file"] == FILE

    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"transcript_path": "/home/dev/.claude/projects/-src/1.jsonl"}, "claude-code"),
            ({"prompt_id": "p", "transcript_path": "/x/1.jsonl"}, "claude-code"),
            ({"prompt_id": "p", "session_id": "amber-otter", "transcript_path": None}, "devin"),
            ({"transcript_path": "/home/dev/.codex/sessions/2026/rollout-1.jsonl"}, "codex"),
            ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session-1.json"}, "gemini-cli"),
            ({"transcript_path": "/home/dev/.copilot/session-state/1/events.jsonl"}, "copilot-cli"),
            ({"generation_id": "g"}, "cursor"),
        ],
    )
    def test_a_payload_of_another_agent_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            hook("Stop", **members)
        assert refused.value.belongs_to == owner

    def test_its_files_may_be_called_projects_as_claude_codes(self) -> None:
        assert hook("Stop", transcript_path="/home/dev/.factory/projects/-src/1.jsonl")

    def test_a_payload_without_a_transcript_is_nobodys(self) -> None:
        with pytest.raises(Refused, match="transcript_path or transcriptPath"):
            hook("Stop", transcript_path=None)

    @pytest.mark.parametrize("camel", [False, True])
    def test_claude_code_knows_it_for_droids(self, camel: bool) -> None:
        names = ("sessionId", "transcriptPath") if camel else ("session_id", "transcript_path")
        data = json.dumps(dict(zip(names, (SESSION, FILE), strict=True))).encode()
        with pytest.raises(Refused) as refused:
            map_hook("claude-code", "Stop", data, env={}, cwd="/", at_ms=1)
        assert refused.value.belongs_to == "droid"


class TestTheSession:
    def test_its_folder_may_be_told_by_a_variable_alone(self) -> None:
        env = {"FACTORY_PROJECT_DIR": "/src/other"}
        assert only(hook("Stop", cwd=None, env=env))["session"]["cwd"] == "/src/other"
        assert only(hook("Stop", cwd=None))["session"]["cwd"] == "/hook"

    @pytest.mark.parametrize(
        ("model", "told"), [("custom:my-model", "my-model"), ("m-1", "m-1"), ("custom:", None)]
    )
    def test_that_a_person_added_a_model_is_no_part_of_its_name(self, model: str, told: str | None) -> None:
        assert only(hook("Stop", model=model))["session"].get("model") == told

    @pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact"])
    def test_a_session_starts_as_its_source_says(self, source: str) -> None:
        assert only(hook("SessionStart", source=source))["data"] == {"source": source}
        assert only(hook("SessionStart", source="other"))["data"] == {"source": "unknown"}

    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("clear", "clear"),
            ("logout", "logout"),
            ("prompt_input_exit", "exit"),
            ("other", "other"),
            ("x", "other"),
        ],
    )
    def test_and_ends_as_its_reason_says(self, reason: str, told: str) -> None:
        assert only(hook("SessionEnd", reason=reason))["data"] == {"reason": told}

    def test_there_are_nine_events(self) -> None:
        assert len(registry.table("droid")["events"]) == 9


class TestCalls:
    @pytest.mark.parametrize(
        ("response", "ok", "error"),
        [
            ("done", True, None),
            ({"stdout": "x"}, True, None),
            ({"success": True}, True, None),
            ({"success": False}, False, None),
            ({"success": False, "error": "no"}, False, "no"),
            ({"error": "no"}, False, "no"),
            ({"error": {"message": "no"}}, False, "no"),
            ({"error": ""}, True, None),
            ({"success": "false"}, True, None),
            (None, True, None),
            (["x"], True, None),
        ],
    )
    def test_a_response_is_an_object_or_a_string_and_only_the_first_can_say_that_it_failed(
        self, response: Any, ok: bool, error: str | None
    ) -> None:
        data = only(hook("PostToolUse", **CALL, tool_response=response))["data"]
        assert (data["ok"], data.get("error")) == (ok, error)

    def test_without_an_id_a_call_and_its_end_find_each_other(self) -> None:
        other: dict[str, Any] = {"tool_name": "Task", "tool_input": {"prompt": "x"}}
        drafts = [
            *hook("PreToolUse", **CALL),
            *hook("PreToolUse", **other),
            *hook("PostToolUse", **CALL),
        ]
        sent = fold({}, drafts)[1][1:]
        assert sent[0]["data"]["call_id"] == sent[2]["data"]["call_id"] != sent[1]["data"]["call_id"]

    @pytest.mark.parametrize(
        ("tool", "asked", "response", "paths"),
        [
            ("Create", {"file_path": "a.py"}, "ok", ["/src/demo/a.py"]),
            ("Edit", {"file_path": "/x/a.py"}, {"success": True}, ["/x/a.py"]),
            ("MultiEdit", {"file_path": "/x/a.py"}, {}, ["/x/a.py"]),
            ("Edit", {"file_path": "/x/a.py"}, {"success": False}, None),
            ("Edit", {"file_path": "/x/a.py"}, {"error": "no"}, None),
            ("Edit", {}, "ok", None),
            ("Read", {"file_path": "/x/a.py"}, "ok", None),
        ],
    )
    def test_files_are_changed_by_tools_that_write_when_they_worked(
        self, tool: str, asked: Any, response: Any, paths: list[str] | None
    ) -> None:
        drafts = hook("PostToolUse", tool_name=tool, tool_input=asked, tool_response=response)
        assert [each["data"]["paths"] for each in drafts[1:]] == ([paths] if paths else [])

    def test_a_call_from_a_subagents_file_is_the_subagents(self) -> None:
        file = "/home/dev/.factory/sessions/-src/agent-77aa.jsonl"
        assert only(hook("PreToolUse", transcript_path=file, **CALL))["data"]["agent_id"] == "77aa"
        assert "agent_id" not in only(hook("PreToolUse", **CALL))["data"]

    def test_a_subagent_that_is_not_named_has_no_end(self) -> None:
        assert hook("SubagentStop") == []


class TestNotifications:
    @pytest.mark.parametrize(
        ("message", "kind"),
        [
            ("Droid needs your permission to use Execute", "permission"),
            ("Waiting for your approval", "permission"),
            ("Please confirm the plan", "permission"),
            ("Droid is waiting for your input", "idle"),
            ("Session is idle", "idle"),
            ("Droid needs your attention", "idle"),
            ("Permissions are needed for your input", "permission"),
            ("Update available", None),
            ("impermissible", None),
            ("", None),
            (None, None),
            (7, None),
        ],
    )
    def test_a_message_says_what_for(self, message: Any, kind: str | None) -> None:
        assert [each["data"]["kind"] for each in hook("Notification", message=message)] == (
            [kind] if kind else []
        )

    def test_the_end_of_the_call_that_was_asked_about_is_the_answer(self) -> None:
        call = {**CALL, "tool_use_id": "c"}
        asked = hook("Notification", message="Droid needs your permission")
        assert types(*hook("PreToolUse", **call), *asked, *hook("PostToolUse", **call))[-2:] == [
            "attention.cleared",
            "tool.ended",
        ]


def test_a_turn_that_was_interrupted_has_no_stop_and_ends_with_the_next_or_the_session() -> None:
    prompts = hook("UserPromptSubmit", prompt="a")
    assert types(*prompts, *prompts, *hook("Stop")) == [
        "session.started",
        "turn.started",
        "turn.started",
        "turn.ended",
    ]
    assert types(*prompts, *hook("SessionEnd", reason="other"))[-1] == "session.ended"
