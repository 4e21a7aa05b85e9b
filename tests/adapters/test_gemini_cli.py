"""adapters/gemini-cli.toml: what the recorded scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook
from sessionpipe.adapters.fold import fold

SESSION = "eed896d3-792c-4ee6-a314-5a833a6ccd37"
CHAT = "/home/dev/.gemini/tmp/tui-main/chats/session-2026-11-29T18-19-eed896d3.jsonl"


def hook(event: str, **members: Any) -> list[Draft]:
    payload = {
        "session_id": SESSION,
        "transcript_path": CHAT,
        "cwd": "/home/dev/src",
        "hook_event_name": event,
        "timestamp": "2026-11-29T18:19:46.844Z",
        **members,
    }
    kept = {name: member for name, member in payload.items() if member is not None}
    return map_hook("gemini-cli", event, json.dumps(kept).encode(), env={}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


class TestClaims:
    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"prompt_id": "p-1"}, "claude-code"),
            ({"transcript_path": f"/home/dev/.claude/projects/-src/{SESSION}.jsonl"}, "claude-code"),
            ({"transcript_path": "/home/dev/.codex/sessions/2026/11/29/rollout-x.jsonl"}, "codex"),
            ({"turn_id": "t-1"}, "codex"),
        ],
    )
    def test_a_payload_of_another_agent_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            hook("SessionStart", **members)
        assert refused.value.belongs_to == owner

    @pytest.mark.parametrize("member", ["transcript_path", "timestamp", "session_id"])
    def test_what_gemini_cli_always_says_is_asked_for(self, member: str) -> None:
        with pytest.raises(Refused):
            hook("SessionStart", **{member: None})

    def test_a_session_id_is_a_uuid(self) -> None:
        with pytest.raises(Refused, match="no UUID"):
            hook("SessionStart", session_id="session-1")


class TestMoments:
    def test_an_event_is_of_the_time_it_says(self) -> None:
        assert only(hook("BeforeAgent", prompt="x"))["at_ms"] == 1_795_976_386_844

    def test_a_time_that_is_none_is_the_hooks(self) -> None:
        assert only(hook("BeforeAgent", prompt="x", timestamp="now"))["at_ms"] == 1_000


def shell(output: str, **response: Any) -> dict[str, Any]:
    """How a command ended, as its draft says it."""
    told = {"llmContent": output, "returnDisplay": "x", **response}
    (draft,) = hook(
        "AfterTool", tool_name="run_shell_command", tool_input={"command": "x"}, tool_response=told
    )
    return {name: draft["data"][name] for name in ("ok", "error") if name in draft["data"]}


def wrapped(*lines: str) -> str:
    return "\n".join(["<untrusted_context>", *lines, "</untrusted_context>"])


class TestCommands:
    def test_a_status_stands_behind_the_output(self) -> None:
        assert shell(wrapped("Output: out", "Exit Code: 3", "Process Group PGID: 7")) == {
            "ok": False,
            "error": "Exit Code: 3",
        }

    @pytest.mark.parametrize("pids", [[], ["Background PIDs: 1, 2"]])
    def test_so_does_the_signal_that_ended_it(self, pids: list[str]) -> None:
        told = wrapped("Output: (empty)", "Signal: 9", *pids, "Process Group PGID: 7")
        assert shell(told) == {"ok": False, "error": "Signal: 9"}

    @pytest.mark.parametrize(
        "output",
        [
            wrapped("Output: Exit Code: 3", "Process Group PGID: 7"),
            wrapped("Output: a", "Exit Code: 3", "and more", "Process Group PGID: 7"),
            wrapped("Output: a", "Process Group PGID: 7") + "\nExit Code: 3",
            "Command moved to background (PID: 3). Output hidden.",
            "",
        ],
    )
    def test_what_a_command_printed_is_no_status(self, output: str) -> None:
        assert shell(output) == {"ok": True}

    def test_a_status_behind_an_output_of_megabytes_is_found(self) -> None:
        told = wrapped("Output: " + "x\n" * (1 << 20), "Exit Code: 1", "Process Group PGID: 7")
        assert shell(told)["error"] == "Exit Code: 1"

    def test_the_harnesss_own_error_counts_before_a_status(self) -> None:
        told = wrapped("Output: a", "Exit Code: 3", "Process Group PGID: 7")
        assert shell(told, error={"message": "no such tool", "type": "x"}) == {
            "ok": False,
            "error": "no such tool",
        }

    def test_another_tool_may_say_what_it_likes(self) -> None:
        told = {"llmContent": wrapped("Output: a", "Exit Code: 3", "Process Group PGID: 7")}
        (draft,) = hook("AfterTool", tool_name="read_file", tool_input={}, tool_response=told)
        assert draft["data"]["ok"] is True

    @pytest.mark.parametrize("response", ["text", None, [], {"llmContent": [{"text": "Exit Code: 3"}]}])
    def test_a_response_of_another_kind_is_no_failure(self, response: Any) -> None:
        drafts = hook("AfterTool", tool_name="run_shell_command", tool_input={}, tool_response=response)
        assert only(drafts)["data"]["ok"] is True


class TestFiles:
    @pytest.mark.parametrize("tool", ["write_file", "replace"])
    def test_a_write_changes_its_file_unless_it_failed(self, tool: str) -> None:
        wrote = {"tool_name": tool, "tool_input": {"file_path": "a.py"}}
        kinds = [draft["type"] for draft in hook("AfterTool", **wrote, tool_response={"llmContent": "ok"})]
        assert kinds == ["tool.ended", "files.changed"]
        failed = {"llmContent": "no", "error": {"message": "no"}}
        assert [draft["type"] for draft in hook("AfterTool", **wrote, tool_response=failed)] == ["tool.ended"]


def permission(**details: Any) -> Draft:
    return only(
        hook(
            "Notification",
            notification_type="ToolPermission",
            message="Tool Confirm requires it",
            details={"title": "Confirm", **details},
        )
    )


class TestPermission:
    def test_of_a_command_it_shows_the_command(self) -> None:
        draft = permission(type="exec", command="make", rootCommand="make")
        assert (draft["data"]["tool"], draft["data"]["message"]) == (
            "run_shell_command",
            "run_shell_command make",
        )

    @pytest.mark.parametrize("kind", ["edit", "mcp", "info", "exit_plan_mode"])
    def test_of_anything_else_it_shows_geminis_own_words(self, kind: str) -> None:
        draft = permission(type=kind, filePath="/home/dev/a.py")
        assert "tool" not in draft["data"]
        assert draft["data"]["message"] == "Tool Confirm requires it"

    def test_the_same_request_names_the_same_attention(self) -> None:
        one, same = permission(type="exec", command="make"), permission(type="exec", command="make")
        other = permission(type="exec", command="make test")
        assert one["data"]["attention_id"] == same["data"]["attention_id"]
        assert one["data"]["attention_id"] != other["data"]["attention_id"]

    def test_another_notification_needs_nobody(self) -> None:
        assert hook("Notification", notification_type="Other", message="x", details={}) == []

    @pytest.mark.parametrize("details", [{"type": "exec", "command": "make"}, {"type": "edit"}])
    def test_the_end_of_the_call_that_asked_shows_the_answer(self, details: dict[str, Any]) -> None:
        tool = "run_shell_command" if details["type"] == "exec" else "write_file"
        call = {"tool_name": tool, "tool_input": {"command": "make", "description": "Make it"}}
        asked = [*hook("BeforeAgent", prompt="x"), *hook("BeforeTool", **call), permission(**details)]
        state, _ = fold({}, asked)
        _, told = fold(state, hook("AfterTool", **call, tool_response={"llmContent": "done"}))
        assert [draft["type"] for draft in told] == ["attention.cleared", "tool.ended"]
        assert told[0]["data"]["how"] == "answered"

    def test_of_calls_side_by_side_the_one_that_asked_shows_the_answer(self) -> None:
        calls = [{"tool_name": "run_shell_command", "tool_input": {"command": word}} for word in ("a", "b")]
        started = [draft for call in calls for draft in hook("BeforeTool", **call)]
        state, _ = fold({}, [*started, permission(type="exec", command="b", rootCommand="b")])
        state, told = fold(state, hook("AfterTool", **calls[0], tool_response={}))
        assert [draft["type"] for draft in told] == ["tool.ended"]
        state, told = fold(state, hook("AfterTool", **calls[1], tool_response={}))
        assert [draft["type"] for draft in told] == ["attention.cleared", "tool.ended"]


class TestEnds:
    @pytest.mark.parametrize(
        ("said", "reason"),
        [
            ("exit", "exit"),
            ("clear", "clear"),
            ("logout", "logout"),
            ("prompt_input_exit", "exit"),
            ("new", "other"),
            (None, "other"),
        ],
    )
    def test_why_a_session_ended(self, said: str | None, reason: str) -> None:
        assert only(hook("SessionEnd", reason=said))["data"] == {"reason": reason}

    def test_a_session_that_ends_three_times_ends_once(self) -> None:
        ends = hook("SessionEnd", reason="exit")
        _, told = fold({}, [*hook("SessionStart", source="startup"), *ends, *ends, *ends])
        assert [draft["type"] for draft in told] == ["session.started", "session.ended"]


def test_a_compression_that_may_not_come_about_is_none() -> None:
    assert hook("PreCompress", trigger="auto") == []
    assert only(hook("PreCompress", trigger="manual"))["data"] == {"trigger": "manual"}


@pytest.mark.parametrize("event", ["AfterModel", "BeforeModel", "BeforeToolSelection"])
def test_what_goes_on_around_the_model_means_nothing(event: str) -> None:
    assert hook(event, llm_request={}) == []
