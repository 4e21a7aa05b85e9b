"""adapters/devin.toml: what its made scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.adapters.fold import fold
from sessionpipe.protocol import attention_id

PROMPT = "0b0f2f6e-0000-4000-8000-000000000001"


def hook(event: str, *, env: dict[str, str] | None = None, **members: Any) -> list[Draft]:
    payload = {"hook_event_name": event, "session_id": "amber-otter", "prompt_id": PROMPT, **members}
    env = {"DEVIN_PROJECT_DIR": "/src/demo"} if env is None else env
    return map_hook("devin", event, json.dumps(payload).encode(), env=env, cwd="/hook", at_ms=1_000)


CALL: dict[str, Any] = {
    "tool_name": "grep",
    "tool_input": {"pattern": "x"},
    "tool_use_id": "functions.grep:0",
}


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


class TestClaims:
    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"transcript_path": "/home/dev/.claude/projects/-src/1.jsonl"}, "claude-code"),
            ({"transcript_path": "/home/dev/.codex/sessions/2026/rollout-1.jsonl"}, "codex"),
            ({"turn_id": "t"}, "codex"),
            ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session-1.json"}, "gemini-cli"),
            ({"transcript_path": "/home/dev/.factory/sessions/-src/1.jsonl"}, "droid"),
            ({"conversation_id": "c"}, "cursor"),
            ({"timestamp": "2026-11-30T00:00:00Z"}, "copilot-cli"),
        ],
    )
    def test_a_payload_of_another_agent_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            hook("Stop", **members)
        assert refused.value.belongs_to == owner

    @pytest.mark.parametrize("name", [PROMPT, "", None, 7, "a/b", "../../etc"])
    def test_a_session_is_called_by_words(self, name: Any) -> None:
        with pytest.raises(Refused):
            hook("Stop", session_id=name)

    def test_an_event_it_does_not_have_is_refused(self) -> None:
        """One other name in its file disables every hook there, so there is none to be ignored, either."""
        for event in ("Notification", "SubagentStop", "PreCompact"):
            with pytest.raises(Refused, match="no event"):
                hook(event)
        assert len(registry.table("devin")["events"]) == 8
        assert "ignore" not in registry.table("devin")

    @pytest.mark.parametrize(
        "event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
    )
    def test_what_it_runs_of_claude_codes_settings_is_known_for_its(self, event: str) -> None:
        data = json.dumps({"session_id": "amber-otter", "tool_name": "exec", "prompt": "x"}).encode()
        for env in ({}, {"DEVIN_PROJECT_DIR": "/src"}):
            with pytest.raises(Refused) as refused:
                map_hook("claude-code", event, data, env=env, cwd="/", at_ms=1)
            assert refused.value.belongs_to == "devin"


class TestTheSession:
    def test_its_folder_is_the_variables_else_the_hooks(self) -> None:
        assert only(hook("Stop"))["session"] == {"id": "amber-otter", "cwd": "/src/demo"}
        assert only(hook("Stop", env={}))["session"]["cwd"] == "/hook"

    @pytest.mark.parametrize(
        ("source", "told"), [("startup", "startup"), ("resume", "resume"), ("x", "unknown")]
    )
    def test_a_source_nobody_knows_is_unknown(self, source: str, told: str) -> None:
        assert only(hook("SessionStart", source=source, prompt_id=None))["data"] == {"source": told}

    @pytest.mark.parametrize(
        ("reason", "told"), [("other", "other"), ("logout", "logout"), ("x", "other"), (3, "other")]
    )
    def test_a_reason_nobody_knows_is_another(self, reason: Any, told: str) -> None:
        assert only(hook("SessionEnd", reason=reason))["data"] == {"reason": told}

    def test_a_compaction_is_its_own_doing(self) -> None:
        assert only(hook("PostCompaction", summary="x", trigger="manual"))["data"] == {"trigger": "auto"}

    def test_what_was_said_last_is_remembered_for_the_store(self) -> None:
        assert only(hook("Stop", last_assistant_message="Done."))["memo"]["transcript"] == {
            "path": None,
            "said": "Done.",
            "final": False,
        }


class TestCalls:
    @pytest.mark.parametrize(
        ("response", "ok", "error", "output"),
        [
            ({"success": True, "output": "a", "error": None}, True, None, "a"),
            ({"success": False, "output": "", "error": "no"}, False, "no", ""),
            ({"success": False, "output": ""}, False, None, ""),
            ({"success": True, "output": "a", "error": "warning"}, True, None, "a"),
            ({"success": None, "output": "a"}, True, None, "a"),
            ({"success": "false", "output": "a"}, True, None, "a"),
            ({"success": 0, "output": "a"}, True, None, "a"),
            ("bare", True, None, "bare"),
            (None, True, None, None),
        ],
    )
    def test_a_call_worked_unless_success_is_exactly_false(
        self, response: Any, ok: bool, error: str | None, output: str | None
    ) -> None:
        data = only(hook("PostToolUse", tool_name="exec", tool_response=response))["data"]
        assert (data["ok"], data.get("error"), data.get("output")) == (ok, error, output)

    def test_a_permission_is_named_as_its_call_else_by_what_it_asks(self) -> None:
        asked: dict[str, Any] = {"tool_name": "exec", "tool_input": {"command": "ls"}}
        named = only(hook("PermissionRequest", tool_use_id="chatcmpl-tool-1", **asked))
        assert (named["data"]["attention_id"], named["data"]["message"]) == ("chatcmpl-tool-1", "exec ls")
        unnamed = only(hook("PermissionRequest", **asked))["data"]["attention_id"]
        assert unnamed == attention_id(PROMPT, "exec", {"command": "ls"})

    def test_a_question_to_the_person_is_answered_by_its_calls_end(self) -> None:
        call: dict[str, Any] = {
            "tool_name": "ask_user_question",
            "tool_use_id": "chatcmpl-tool-1",
            "tool_input": {},
        }
        sent = fold({}, [*hook("PreToolUse", **call), *hook("PostToolUse", **call)])[1]
        assert [(each["type"], each["data"].get("how")) for each in sent][2:] == [
            ("attention.needed", None),
            ("attention.cleared", "answered"),
            ("tool.ended", None),
        ]

    @pytest.mark.parametrize(
        ("tool", "response", "changed"),
        [
            ("write", {"success": True}, True),
            ("edit", "ok", True),
            ("edit", {"success": False}, False),
            ("read", "", False),
        ],
    )
    def test_files_are_changed_by_what_writes_them_and_works(
        self, tool: str, response: Any, changed: bool
    ) -> None:
        drafts = hook("PostToolUse", tool_name=tool, tool_input={"file_path": "a.py"}, tool_response=response)
        assert [each["data"]["paths"] for each in drafts[1:]] == ([["/src/demo/a.py"]] if changed else [])


class TestSubagents:
    def test_which_one_it_is_is_not_made_up(self) -> None:
        draft = only(hook("PreToolUse", **CALL))
        assert "agent_id" not in draft["data"]
        assert draft["memo"]["thread"]

    def test_its_work_answers_nothing_that_the_session_was_asked(self) -> None:
        asked = hook(
            "PermissionRequest", tool_name="exec", tool_input={"command": "ls"}, tool_use_id="chatcmpl-tool-1"
        )
        work = [*hook("PreToolUse", **CALL), *hook("PostToolUse", **CALL)]
        sent = fold({}, [*hook("UserPromptSubmit", prompt="x"), *asked, *work])[1]
        assert "attention.cleared" not in [each["type"] for each in sent]

    def test_nor_does_it_set_a_turn_going_again_that_has_ended(self) -> None:
        turn = [*hook("UserPromptSubmit", prompt="x"), *hook("Stop")]
        work = [*hook("PreToolUse", **CALL), *hook("PostToolUse", **CALL)]
        assert [each["type"] for each in fold({}, [*turn, *work, *hook("Stop")])[1]].count("turn.ended") == 1


def test_a_call_that_was_refused_has_no_end() -> None:
    call: dict[str, Any] = {
        "tool_name": "exec",
        "tool_input": {"command": "ls"},
        "tool_use_id": "chatcmpl-tool-1",
    }
    sent = fold({}, [*hook("PreToolUse", **call), *hook("PermissionRequest", **call), *hook("Stop")])[1]
    assert [each["type"] for each in sent][-2:] == ["attention.cleared", "turn.ended"]
