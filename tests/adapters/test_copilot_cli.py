"""adapters/copilot-cli.toml: what its made scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.adapters.fold import fold

SESSION = "5f0e2c7a-1111-4222-8333-944455566677"
AT = 1_791_000_000_123


def hook(event: str, **members: Any) -> list[Draft]:
    """A hook of a camelCase name."""
    payload = {"sessionId": SESSION, "timestamp": AT, "cwd": "/src/demo", **members}
    return map_hook("copilot-cli", event, json.dumps(payload).encode(), env={}, cwd="/hook", at_ms=1_000)


def pascal(event: str, **members: Any) -> list[Draft]:
    """One of a name that Claude Code has, too."""
    payload = {
        "hook_event_name": event,
        "session_id": SESSION,
        "timestamp": "2026-10-03T21:20:00.123Z",
        "cwd": "/src/demo",
        **members,
    }
    return map_hook("copilot-cli", event, json.dumps(payload).encode(), env={}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


CALL: dict[str, Any] = {"toolName": "bash", "toolArgs": {"command": "npm test"}}
SNAKE: dict[str, Any] = {"tool_name": "bash", "tool_input": {"command": "npm test"}}


class TestDialects:
    def test_both_say_the_same(self) -> None:
        camel = only(
            hook("postToolUse", **CALL, toolResult={"resultType": "success", "textResultForLlm": "ok"})
        )
        snake = only(
            pascal(
                "PostToolUse", **SNAKE, tool_result={"result_type": "success", "text_result_for_llm": "ok"}
            )
        )
        assert camel["data"] == snake["data"]
        assert camel["data"] == {"tool": "bash", "input": {"command": "npm test"}, "output": "ok", "ok": True}
        assert camel["session"] == snake["session"] == {"id": SESSION, "cwd": "/src/demo"}

    def test_the_time_is_the_payloads_in_either_form(self) -> None:
        assert only(hook("agentStop"))["at_ms"] == AT
        assert only(pascal("Stop"))["at_ms"] == 1_791_062_400_123
        assert only(hook("agentStop", timestamp="soon"))["at_ms"] == 1_000

    def test_only_one_name_of_each_event_is_installed(self) -> None:
        assert all(name[0].islower() for name in registry.table("copilot-cli")["events"])

    def test_arguments_may_be_a_string_of_json(self) -> None:
        assert only(hook("preToolUse", toolName="bash", toolArgs='{"command": "ls"}'))["data"]["input"] == {
            "command": "ls"
        }
        assert only(hook("preToolUse", toolName="bash", toolArgs="ls"))["data"]["input"] == "ls"

    def test_a_notification_is_spelt_alike_in_both(self) -> None:
        said = {"hook_event_name": "notification", "session_id": SESSION, "sessionId": None}
        asked = hook("notification", **said, notification_type="permission_prompt", message="May I?")
        assert only(asked)["data"] == {
            "attention_id": f"notif-{AT}",
            "kind": "permission",
            "message": "May I?",
        }


class TestClaims:
    def test_a_payload_without_a_time_and_a_name_of_its_own_is_not_its(self) -> None:
        with pytest.raises(Refused, match="sessionId or notification_type or timestamp"):
            pascal("Stop", timestamp=None)

    def test_an_old_payload_without_an_id_opens_no_session(self) -> None:
        with pytest.raises(Refused, match="no session id"):
            pascal("Stop", session_id=None)

    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"transcript_path": "/home/dev/.claude/projects/-src/1.jsonl"}, "claude-code"),
            ({"prompt_id": "p", "transcript_path": "/x/1.jsonl"}, "claude-code"),
            ({"prompt_id": "p", "session_id": "amber-otter", "transcript_path": None}, "devin"),
            ({"transcript_path": "/home/dev/.codex/sessions/rollout-1.jsonl"}, "codex"),
            ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session-1.json"}, "gemini-cli"),
            ({"transcript_path": "/home/dev/.factory/sessions/-src/1.jsonl"}, "droid"),
            ({"conversation_id": "c"}, "cursor"),
        ],
    )
    def test_a_payload_of_another_agent_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            pascal("Stop", **members)
        assert refused.value.belongs_to == owner

    @pytest.mark.parametrize(
        "event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
    )
    def test_what_it_runs_of_claude_codes_settings_is_known_for_its(self, event: str) -> None:
        """A repository's .claude/settings.json is read by Copilot, too."""
        transcript = {"transcript_path": f"/home/dev/.copilot/session-state/{SESSION}/events.jsonl"}
        payload = {"session_id": SESSION, "timestamp": "2026-10-03T21:20:00.123Z", "cwd": "/src", **SNAKE}
        data = json.dumps({**payload, **(transcript if event == "Stop" else {})}).encode()
        with pytest.raises(Refused) as refused:
            map_hook("claude-code", event, data, env={}, cwd="/", at_ms=1)
        assert refused.value.belongs_to == "copilot-cli"
        assert map_hook("copilot-cli", event, data, env={}, cwd="/", at_ms=1)


class TestSessions:
    @pytest.mark.parametrize(
        ("source", "told"),
        [
            ("new", "startup"),
            ("startup", "startup"),
            ("resume", "resume"),
            ("x", "unknown"),
            (None, "unknown"),
        ],
    )
    def test_a_session_starts_as_its_source_says(self, source: str | None, told: str) -> None:
        assert only(hook("sessionStart", source=source))["data"] == {"source": told}

    @pytest.mark.parametrize("source", ["new", "startup"])
    def test_a_prompt_that_comes_first_opens_the_session_and_its_start_behind_it_is_no_other(
        self, source: str
    ) -> None:
        drafts = [*hook("userPromptSubmitted", prompt="Go"), *hook("sessionStart", source=source)]
        assert [each["type"] for each in fold({}, drafts)[1]] == ["session.started", "turn.started"]

    def test_a_session_that_is_resumed_starts_again(self) -> None:
        drafts = [*hook("sessionStart", source="new"), *hook("sessionStart", source="resume")]
        assert [each["data"]["source"] for each in fold({}, drafts)[1]] == ["startup", "resume"]

    @pytest.mark.parametrize(
        ("reason", "ended", "told"),
        [
            ("complete", "stop", "other"),
            ("error", "error", "other"),
            ("abort", "interrupt", "other"),
            ("timeout", "error", "other"),
            ("user_exit", "interrupt", "exit"),
            (None, "stop", "other"),
        ],
    )
    def test_its_end_is_the_turns_where_no_stop_came(self, reason: str | None, ended: str, told: str) -> None:
        drafts = [*hook("userPromptSubmitted", prompt="Go"), *hook("sessionEnd", reason=reason)]
        ends = [each["data"]["reason"] for each in fold({}, drafts)[1] if each["type"].endswith("ended")]
        assert ends == [ended, told]
        stopped = [*drafts[:1], *hook("agentStop"), *drafts[1:]]
        ends = [each["data"]["reason"] for each in fold({}, stopped)[1] if each["type"].endswith("ended")]
        assert ends == ["stop", told]

    def test_a_session_may_end_with_every_prompt_and_go_on(self) -> None:
        once = [*hook("sessionStart"), *hook("userPromptSubmitted", prompt="x"), *hook("sessionEnd")]
        types = [each["type"] for each in fold({}, [*once, *once])[1]]
        assert types == ["session.started", "turn.started", "turn.ended", "session.ended"] * 2


class TestCalls:
    @pytest.mark.parametrize(
        ("result", "ok"),
        [({"resultType": "success"}, True), ({"resultType": "failure"}, False), ({}, True), (None, True)],
    )
    def test_a_result_says_whether_it_worked(self, result: Any, ok: bool) -> None:
        assert only(hook("postToolUse", **CALL, toolResult=result))["data"]["ok"] is ok

    @pytest.mark.parametrize("error", ["No such file", {"message": "No such file", "name": "Error"}])
    def test_a_failure_has_an_event_of_its_own(self, error: Any) -> None:
        data = only(hook("postToolUseFailure", **CALL, error=error))["data"]
        assert (data["ok"], data["error"]) == (False, "No such file")

    def test_its_time_is_between_the_two_and_its_id_is_made(self) -> None:
        drafts = [*hook("preToolUse", **CALL), *hook("postToolUse", **CALL, timestamp=AT + 1500)]
        started, ended = fold({}, drafts)[1][-2:]
        assert ended["data"]["ms"] == 1500
        assert started["data"]["call_id"] == ended["data"]["call_id"]

    def test_one_that_was_refused_stays_without_an_end(self) -> None:
        drafts = [*hook("preToolUse", **CALL), *hook("agentStop", timestamp=AT + 9)]
        assert [each["type"] for each in fold({}, drafts)[1]] == [
            "session.started",
            "tool.started",
            "turn.ended",
        ]

    @pytest.mark.parametrize(
        ("tool", "arguments", "paths"),
        [
            ("edit", {"path": "a.py"}, ["/src/demo/a.py"]),
            ("create", '{"path": "/tmp/b"}', ["/tmp/b"]),
            ("view", {"path": "a.py"}, None),
            ("edit", {"command": "x"}, None),
        ],
    )
    def test_what_it_wrote_is_in_its_arguments(
        self, tool: str, arguments: Any, paths: list[str] | None
    ) -> None:
        drafts = hook("postToolUse", toolName=tool, toolArgs=arguments)
        assert [each["data"].get("paths") for each in drafts[1:]] == ([paths] if paths else [])


class TestAttention:
    @pytest.mark.parametrize(
        "kind",
        ["shell_completed", "shell_detached_completed", "agent_completed", "agent_idle", "new_word", None],
    )
    def test_work_in_the_background_asks_nothing_of_a_person(self, kind: str | None) -> None:
        assert hook("notification", session_id=SESSION, notification_type=kind, message="x") == []

    @pytest.mark.parametrize("event", ["permissionRequest", "PermissionRequest"])
    def test_what_is_asked_of_the_rules_is_not_asked_of_the_person(self, event: str) -> None:
        assert hook(event, **CALL) == []

    def test_the_call_that_was_asked_about_answers_it_when_it_ends(self) -> None:
        asked = hook(
            "notification", session_id=SESSION, notification_type="permission_prompt", message="May I?"
        )
        drafts = [*hook("preToolUse", **CALL), *asked, *hook("postToolUse", **CALL)]
        assert [each["type"] for each in fold({}, drafts)[1]][-2:] == ["attention.cleared", "tool.ended"]


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "told"),
        [
            ({"message": "Quota exceeded", "name": "QuotaError"}, "QuotaError"),
            ({"message": "Quota exceeded", "name": "Error"}, "Quota exceeded"),
            ("Quota exceeded", "Quota exceeded"),
            (None, None),
        ],
    )
    def test_one_that_nothing_helps_against_ends_the_turn(self, error: Any, told: str | None) -> None:
        draft = only(hook("errorOccurred", error=error, errorContext="model_call", recoverable=False))
        assert (draft["data"]["reason"], draft["data"].get("error")) == ("error", told)

    @pytest.mark.parametrize(
        "members",
        [
            {"recoverable": True, "errorContext": "model_call"},
            {"errorContext": "model_call"},
            {"recoverable": False, "errorContext": "tool_execution"},
            {"recoverable": False, "errorContext": "user_input"},
        ],
    )
    def test_any_other_leaves_it_running(self, members: dict[str, Any]) -> None:
        assert hook("errorOccurred", error={"message": "x", "name": "y"}, **members) == []

    def test_the_stop_behind_it_is_of_the_same_turn(self) -> None:
        error = hook("errorOccurred", error="x", errorContext="model_call", recoverable=False)
        drafts = [*hook("userPromptSubmitted", prompt="Go"), *error, *hook("agentStop")]
        assert [each["data"]["reason"] for each in fold({}, drafts)[1] if each["type"] == "turn.ended"] == [
            "error"
        ]
