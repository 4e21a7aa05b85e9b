"""adapters/cursor.toml: what its made scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.adapters.fold import fold

CONVERSATION = "7f1c0de4-0000-4000-8000-0000000000c1"


def hook(event: str, *, env: dict[str, str] | None = None, **members: Any) -> list[Draft]:
    payload = {
        "conversation_id": CONVERSATION,
        "generation_id": "g-1",
        "model": "large-high",
        "model_id": "large",
        "hook_event_name": event,
        "cursor_version": "3.9.16",
        "workspace_roots": ["/home/dev/src"],
        "user_email": "dev@example.com",
        "transcript_path": None,
        **members,
    }
    data = json.dumps(payload).encode()
    return map_hook("cursor", event, data, env=env or {}, cwd="/home/dev/.cursor", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


class TestTheSession:
    def test_is_the_conversation_and_a_turn_is_a_generation(self) -> None:
        draft = only(hook("beforeSubmitPrompt", prompt="Fix it", session_id="another"))
        assert draft["session"] == {"id": CONVERSATION, "cwd": "/home/dev/src", "model": "large"}
        assert draft["data"] == {"turn_id": "g-1", "prompt_chars": 6}
        assert draft["harness"] == {"name": "cursor", "event": "beforeSubmitPrompt", "version": "3.9.16"}

    def test_of_the_person_nothing_is_told(self) -> None:
        assert "example.com" not in json.dumps([hook(event) for event in registry.table("cursor")["events"]])

    @pytest.mark.parametrize("roots", [[], [""], None, "x", [7]])
    def test_a_folder_that_is_not_said_is_the_variables_and_never_the_hooks(self, roots: Any) -> None:
        assert "cwd" not in only(hook("sessionStart", workspace_roots=roots))["session"]
        env = {"CURSOR_PROJECT_DIR": "/home/dev/other"}
        assert (
            only(hook("sessionStart", workspace_roots=roots, env=env))["session"]["cwd"] == "/home/dev/other"
        )

    def test_the_folder_of_a_call_is_not_the_sessions(self) -> None:
        draft = only(hook("preToolUse", tool_name="Shell", tool_input={}, cwd="/tmp"))
        assert draft["session"]["cwd"] == "/home/dev/src"

    def test_an_older_version_names_its_model_otherwise_and_itself_in_a_variable(self) -> None:
        draft = only(hook("sessionStart", model_id=None, cursor_version=None, env={"CURSOR_VERSION": "2.1"}))
        assert (draft["session"]["model"], draft["harness"]["version"]) == ("large-high", "2.1")

    @pytest.mark.parametrize(("background", "attended"), [(True, False), (False, None), ("yes", None)])
    def test_a_background_agent_has_nobody_at_it(self, background: object, attended: bool | None) -> None:
        assert (
            only(hook("sessionStart", is_background_agent=background))["session"].get("attended") is attended
        )

    @pytest.mark.parametrize(
        "missing", [{"conversation_id": None}, {"conversation_id": ""}, {"conversation_id": 5}]
    )
    def test_a_payload_without_a_conversation_is_nobodys(self, missing: dict[str, Any]) -> None:
        with pytest.raises(Refused, match="no conversation_id"):
            hook("stop", **missing)


class TestWhatIsNotRegistered:
    @pytest.mark.parametrize(
        "event",
        [
            "beforeShellExecution",
            "beforeMCPExecution",
            "beforeReadFile",
            "beforeTabFileRead",
            "afterTabFileEdit",
        ],
    )
    def test_gates_and_the_tabs_events_mean_nothing_and_are_no_mistake(self, event: str) -> None:
        assert hook(event, command="rm", file_path="/x") == []
        assert event not in registry.table("cursor")["events"]

    def test_every_event_it_takes_is_one_that_cursor_has(self) -> None:
        """One name that it doesn't know voids the whole file."""
        known = (
            "sessionStart sessionEnd beforeSubmitPrompt preToolUse postToolUse postToolUseFailure subagentStart"
            " subagentStop afterFileEdit preCompact stop"
        )
        assert set(registry.table("cursor")["events"]) == set(known.split())


class TestCalls:
    @pytest.mark.parametrize(
        ("tool", "output", "ok"),
        [
            ("Shell", '{"output":"","exitCode":0}', True),
            ("Shell", '{"output":"","exitCode":1}', False),
            ("Shell", '{"output":"","exitCode":-9}', False),
            ("Shell", '{"output":"","exitCode":null}', True),
            ("Shell", '{"output":"cut of', True),
            ("Shell", "plain", True),
            ("Shell", None, True),
            ("MCP:run", '{"exitCode":1}', True),
        ],
    )
    def test_a_command_is_ok_when_its_exit_code_is_0(self, tool: str, output: Any, ok: bool) -> None:
        assert only(hook("postToolUse", tool_name=tool, tool_output=output))["data"]["ok"] is ok

    def test_output_is_what_the_string_says(self) -> None:
        said = only(hook("postToolUse", tool_name="Shell", tool_output='{"output":"\\ud800","exitCode":0}'))
        assert said["data"]["output"] == {"output": "\ufffd", "exitCode": 0}
        assert only(hook("postToolUse", tool_name="Read", tool_output="[1]"))["data"]["output"] == "[1]"

    @pytest.mark.parametrize(
        ("duration", "ms"), [(412.5, 412), (0, 0), (-3.0, None), ("9", None), (True, None)]
    )
    def test_a_duration_is_milliseconds_and_a_fraction(self, duration: object, ms: int | None) -> None:
        assert only(hook("postToolUse", tool_name="Read", duration=duration))["data"].get("ms") == ms

    @pytest.mark.parametrize(
        ("members", "error"),
        [
            ({"error_message": "Timed out", "failure_type": "timeout"}, "Timed out"),
            ({"error_message": "", "failure_type": "permission_denied"}, "permission_denied"),
            ({"failure_type": "error"}, "error"),
            ({}, None),
        ],
    )
    def test_a_failure_says_why_if_only_of_which_kind(
        self, members: dict[str, Any], error: str | None
    ) -> None:
        data = only(hook("postToolUseFailure", tool_name="Shell", **members))["data"]
        assert (data["ok"], data.get("error")) == (False, error)

    def test_an_edit_is_one_change_of_files_however_many_events_tell_of_it(self) -> None:
        asked: dict[str, Any] = {
            "tool_name": "Write",
            "tool_input": {"file_path": "/home/dev/src/a.py"},
            "tool_use_id": "t",
        }
        told = [
            *hook("preToolUse", **asked),
            *hook("afterFileEdit", file_path="/home/dev/src/a.py", edits=[]),
        ]
        told += hook("postToolUse", **asked)
        assert [draft["type"] for draft in told] == ["tool.started", "files.changed", "tool.ended"]


class TestEnds:
    @pytest.mark.parametrize(
        ("status", "reason"),
        [
            ("completed", "stop"),
            ("aborted", "interrupt"),
            ("error", "error"),
            ("melted", "stop"),
            (None, "stop"),
        ],
    )
    def test_a_turn_ends_as_its_status_says(self, status: str | None, reason: str) -> None:
        assert only(hook("stop", status=status))["data"] == {"turn_id": "g-1", "reason": reason}

    def run(self, *drafts: Draft) -> list[tuple[str, Any]]:
        sent = fold({}, drafts)[1]
        return [
            (each["type"], each["data"].get("reason")) for each in sent if each["type"].endswith(".ended")
        ]

    @pytest.mark.parametrize(
        ("reason", "ended"),
        [("completed", "stop"), ("error", "error"), ("aborted", "interrupt"), ("user_close", "interrupt")],
    )
    def test_a_headless_run_ends_its_turn_with_itself(self, reason: str, ended: str) -> None:
        start = hook("sessionStart", generation_id=CONVERSATION)
        call = hook("preToolUse", tool_name="Read", tool_use_id="t")
        end = hook("sessionEnd", generation_id=CONVERSATION, reason=reason)
        assert self.run(*start, *call, *end)[0] == ("turn.ended", ended)

    def test_one_that_called_no_tool_showed_no_turn(self) -> None:
        assert self.run(*hook("sessionStart"), *hook("sessionEnd", reason="completed")) == [
            ("session.ended", "other")
        ]

    def test_where_stop_came_the_sessions_end_ends_no_turn_again(self) -> None:
        drafts = [*hook("beforeSubmitPrompt", prompt="x"), *hook("stop", status="completed")]
        assert self.run(*drafts, *hook("sessionEnd", reason="window_close")) == [
            ("turn.ended", "stop"),
            ("session.ended", "exit"),
        ]

    @pytest.mark.parametrize("reason", ["completed", "melted", None])
    def test_an_end_nobody_has_a_word_for_is_another(self, reason: str | None) -> None:
        assert hook("sessionEnd", reason=reason)[-1]["data"] == {"reason": "other"}


class TestSubagents:
    def test_a_subagent_starts_and_stops_in_its_parent(self) -> None:
        names: dict[str, Any] = {
            "conversation_id": "child",
            "parent_conversation_id": CONVERSATION,
            "subagent_id": "s",
        }
        draft = only(hook("subagentStart", **names, is_background_agent=True))
        assert (draft["session"]["id"], draft["data"]["agent_id"]) == (CONVERSATION, "s")
        assert draft["session"].keys() == {"id", "cwd"}

    def test_its_own_events_name_their_parent(self) -> None:
        draft = only(
            hook("preToolUse", conversation_id="child", parent_conversation_id=CONVERSATION, tool_name="Grep")
        )
        assert (draft["session"]["id"], draft["session"]["parent_id"]) == ("child", CONVERSATION)

    def test_a_conversation_that_names_itself_has_no_parent(self) -> None:
        assert "parent_id" not in only(hook("stop", parent_conversation_id=CONVERSATION))["session"]

    def test_a_stop_that_names_nobody_is_nobodys(self) -> None:
        assert hook("subagentStop", subagent_type="explore") == []


@pytest.mark.parametrize(
    ("claude", "own"),
    [
        ("UserPromptSubmit", "beforeSubmitPrompt"),
        ("PreToolUse", "preToolUse"),
        ("PostToolUse", "postToolUse"),
        ("Stop", "stop"),
        ("SubagentStop", "subagentStop"),
        ("PreCompact", "preCompact"),
        ("SessionStart", "sessionStart"),
        ("SessionEnd", "sessionEnd"),
    ],
)
def test_what_claude_codes_entries_bring_is_known_by_either_name(claude: str, own: str) -> None:
    """Cursor runs the hooks in Claude Code's settings, too, with payloads of its own."""
    payload = {"conversation_id": CONVERSATION, "tool_name": "Read", "subagent_id": "s", "prompt": "x"}
    data = json.dumps(payload).encode()
    with pytest.raises(Refused) as refused:
        map_hook("claude-code", claude, data, env={}, cwd="/", at_ms=1)
    assert refused.value.belongs_to == "cursor"
    told, known = (map_hook("cursor", name, data, env={}, cwd="/", at_ms=1) for name in (claude, own))
    assert [draft["data"] for draft in told] == [draft["data"] for draft in known] != []
