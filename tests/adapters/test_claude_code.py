"""adapters/claude-code.toml: what the recorded scenarios don't show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook

SESSION = "8c132906-8c3f-4814-870a-afc3d05e1d2e"
TRANSCRIPT = f"/home/dev/.claude/projects/-home-dev-src/{SESSION}.jsonl"


def hook(event: str, env: Mapping[str, str] | None = None, **members: Any) -> list[Draft]:
    payload = {
        "session_id": SESSION,
        "transcript_path": TRANSCRIPT,
        "cwd": "/home/dev/src",
        "hook_event_name": event,
        **members,
    }
    kept = {name: member for name, member in payload.items() if member is not None}
    return map_hook("claude-code", event, json.dumps(kept).encode(), env=env or {}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


class TestClaims:
    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"cursor_version": "3.9", "conversation_id": "c-1"}, "cursor"),
            ({"generation_id": "g-1", "transcript_path": None}, "cursor"),
            ({"session_id": "amber-otter", "cwd": None, "transcript_path": None}, "devin"),
            ({"timestamp": "2026-11-29T18:00:00Z", "transcript_path": None}, "copilot-cli"),
            ({"transcript_path": "/home/dev/.copilot/session-state/x/events.jsonl"}, "copilot-cli"),
            ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session-1.jsonl"}, "gemini-cli"),
            ({"transcript_path": "/home/dev/.factory/sessions/-src/x.jsonl"}, "droid"),
            ({"transcript_path": "/home/dev/.codex/sessions/2026/rollout-2026-x.jsonl"}, "codex"),
            ({"turn_id": "t-1", "transcript_path": None}, "codex"),
        ],
    )
    def test_another_agent_that_runs_our_entry_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            hook("Stop", **members)
        assert refused.value.belongs_to == owner

    def test_devin_is_known_by_its_variable_too(self) -> None:
        with pytest.raises(Refused) as refused:
            hook("Stop", {"DEVIN_PROJECT_DIR": "/src"}, transcript_path=None)
        assert refused.value.belongs_to == "devin"

    def test_claude_code_started_by_devin_is_claude_code(self) -> None:
        assert hook("Stop", {"DEVIN_PROJECT_DIR": "/src"})

    @pytest.mark.parametrize(
        ("members", "reason"),
        [
            ({"transcript_path": None}, "it has no transcript_path"),
            ({"transcript_path": ""}, "it has no transcript_path"),
            ({"session_id": "abc123"}, "its session id is no UUID"),
            ({"session_id": f"{SESSION}0"}, "its session id is no UUID"),
        ],
    )
    def test_what_claude_code_never_sends_is_refused_without_naming_anybody(
        self, members: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(Refused, match=reason) as refused:
            hook("Stop", **members)
        assert refused.value.belongs_to is None


@pytest.mark.parametrize(
    ("said", "attended"), [("1", True), ("0", False), ("yes", None), ("", None), (None, None)]
)
def test_whether_a_person_attends_is_what_the_harness_says(said: str | None, attended: bool | None) -> None:
    env = {} if said is None else {"CLAUDE_CODE_SESSION_ATTENDED": said}
    assert only(hook("SessionStart", env, source="startup"))["session"].get("attended") is attended


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("clear", "clear"),
        ("logout", "logout"),
        ("prompt_input_exit", "exit"),
        ("other", "other"),
        ("resume", "other"),
        ("bypass_permissions_disabled", "other"),
        (7, "other"),
        (None, "other"),
    ],
)
def test_why_a_session_ended(reason: Any, ended: str) -> None:
    assert only(hook("SessionEnd", reason=reason))["data"] == {"reason": ended}


@pytest.mark.parametrize(
    ("source", "started"), [("fork", "fork"), ("teleport", "unknown"), (None, "unknown")]
)
def test_how_a_session_started(source: str | None, started: str) -> None:
    assert only(hook("SessionStart", source=source))["data"] == {"source": started}


@pytest.mark.parametrize(
    ("source", "submitted_by"),
    [("loop_wakeup", "loop_wakeup"), ("a new word", None), ("x" * 41, None), (7, None), (None, None)],
)
def test_who_submitted_a_prompt_is_passed_on_as_the_bare_word_it_is(
    source: Any, submitted_by: str | None
) -> None:
    draft = only(hook("UserPromptSubmit", prompt="x", source=source))
    assert draft["data"].get("submitted_by") == submitted_by


@pytest.mark.parametrize(
    ("prompt", "injected"),
    [
        ("<task-notification>\n<task-id>b1</task-id>", True),
        ("\n <system-reminder>look again</system-reminder>", True),
        ('<cross-session-message from="x">hello', True),
        ("<local-command-stderr>no</local-command-stderr>", True),
        ("what is a <task-notification>?", None),
        ("/compact please", None),
    ],
)
def test_a_block_the_harness_wrote_is_not_a_persons_words(prompt: str, injected: bool | None) -> None:
    draft = only(hook("UserPromptSubmit", prompt=prompt))
    assert draft["data"].get("injected") is injected
    assert ("prompt" in draft["memo"]) is not bool(injected)


class TestFiles:
    @pytest.mark.parametrize(
        ("tool", "asked", "paths"),
        [
            ("Write", {"file_path": "/src/a", "content": "x"}, ["/src/a"]),
            ("MultiEdit", {"file_path": "b"}, ["/home/dev/src/b"]),
            ("NotebookEdit", {"notebook_path": "/src/c.ipynb"}, ["/src/c.ipynb"]),
        ],
    )
    def test_a_write_changes_the_file_it_names(self, tool: str, asked: Any, paths: list[str]) -> None:
        _, files = hook("PostToolUse", tool_name=tool, tool_input=asked)
        assert (files["type"], files["data"]) == ("files.changed", {"paths": paths})

    @pytest.mark.parametrize(
        ("event", "tool", "asked"),
        [
            ("PostToolUse", "Read", {"file_path": "/src/a"}),
            ("PostToolUse", "Write", {"file_path": ["/src/a"]}),
            ("PostToolUseFailure", "Write", {"file_path": "/src/a"}),
        ],
    )
    def test_reading_and_failing_change_nothing(self, event: str, tool: str, asked: Any) -> None:
        assert only(hook(event, tool_name=tool, tool_input=asked))["type"] == "tool.ended"


def test_a_call_the_classifier_denied_has_ended_and_asks_nobody() -> None:
    draft = only(hook("PermissionDenied", tool_name="Bash", tool_use_id="toolu_1", reason="too risky"))
    assert draft["type"] == "tool.ended"
    assert draft["data"] == {"tool": "Bash", "call_id": "toolu_1", "ok": False, "error": "too risky"}


class TestNotifications:
    @pytest.mark.parametrize(
        ("kind", "attention", "echo"),
        [
            ("permission_prompt", "permission", True),
            ("idle_prompt", "idle", None),
            ("agent_needs_input", "question", None),
            ("elicitation_dialog", "elicitation", True),
            ("elicitation_url_dialog", "elicitation", True),
        ],
    )
    def test_what_waits_for_a_person(self, kind: str, attention: str, echo: bool | None) -> None:
        draft = only(hook("Notification", notification_type=kind, message="Look"))
        assert draft["data"] == {"attention_id": "notif-1000", "kind": attention, "message": "Look"}
        assert draft["memo"].get("echo") is echo

    @pytest.mark.parametrize("kind", ["auth_success", "agent_completed", "news", 7, None])
    def test_what_waits_for_nobody(self, kind: Any) -> None:
        assert hook("Notification", notification_type=kind, message="Look") == []

    @pytest.mark.parametrize(
        ("message", "how"),
        [
            ('Elicitation response for server "lab": accept', "answered"),
            ('Elicitation response for server "lab": decline', "answered"),
            ('Elicitation response for server "lab": cancel', "cancelled"),
            ("Done", "answered"),
        ],
    )
    def test_an_elicitation_that_is_over(self, message: str, how: str) -> None:
        draft = only(hook("Notification", notification_type="elicitation_response", message=message))
        assert (draft["type"], draft["data"]["how"]) == ("attention.cleared", how)
        assert (draft["memo"]["kind"], draft["memo"]["echo"]) == ("elicitation", True)


RUNNING: dict[str, Any] = {"id": "b1", "type": "shell", "status": "running", "description": "dev server"}


class TestBackground:
    @pytest.mark.parametrize(
        ("tasks", "background"),
        [
            ([], 0),
            ([RUNNING, {"id": "b2", "status": "completed"}, {"id": "b3", "status": "waiting"}, "odd"], 2),
            ("unreachable", None),
            (None, None),
        ],
    )
    def test_a_turns_end_counts_what_still_runs(self, tasks: Any, background: int | None) -> None:
        assert only(hook("Stop", background_tasks=tasks))["data"].get("background") == background

    def test_a_subagent_that_stops_does_not_count_itself(self) -> None:
        tasks = [RUNNING, {"id": "agent-1", "type": "subagent", "status": "running"}]
        draft = only(hook("SubagentStop", agent_id="agent-1", agent_type="Explore", background_tasks=tasks))
        assert draft["data"] == {"agent_id": "agent-1", "agent_type": "Explore", "background": 1}

    def test_the_helper_of_a_compaction_is_no_subagent(self) -> None:
        assert hook("SubagentStop", agent_id="agent-1", agent_type="", background_tasks=[]) == []


def test_an_agent_type_alone_is_a_main_thread() -> None:
    draft = only(hook("PreToolUse", agent_type="reviewer", tool_name="Bash"))
    assert "thread" not in draft["memo"]


def test_the_text_of_an_api_error_is_not_what_the_assistant_said() -> None:
    draft = only(hook("StopFailure", error="rate_limit", last_assistant_message="API Error: 429"))
    assert draft["data"] == {"reason": "error", "error": "rate_limit"}
    assert draft["memo"]["transcript"]["said"] is None


class TestStatusLine:
    """What a person's own status line command pipes on to us."""

    def windows(self, limits: Any) -> Any:
        drafts = hook("StatusLine", hook_event_name=None, rate_limits=limits, model={"id": "claude-x"})
        return only(drafts)["data"]["windows"] if drafts else None

    def test_each_window_stands_for_itself(self) -> None:
        used = {"used_percentage": 23.5, "resets_at": 1_795_979_399}
        five_hour = {
            "id": "five_hour",
            "used_percent": 23.5,
            "resets_at": "2026-11-29T19:09:59.000Z",
            "window_minutes": 300,
        }
        assert self.windows({"five_hour": used}) == [five_hour]
        assert self.windows({"five_hour": used, "seven_day": {"used_percentage": 0}}) == [
            five_hour,
            {"id": "seven_day", "used_percent": 0, "window_minutes": 10_080},
        ]

    @pytest.mark.parametrize("limits", [None, {}, [], {"five_hour": None}, {"five_hour": {"resets_at": 1}}])
    def test_without_numbers_there_are_no_limits(self, limits: Any) -> None:
        assert self.windows(limits) is None

    def test_it_opens_no_session(self) -> None:
        (draft,) = hook("StatusLine", rate_limits={"five_hour": {"used_percentage": 1}})
        assert draft["memo"]["only_known"] is True

    def test_another_agents_status_line_is_refused(self) -> None:
        with pytest.raises(Refused):
            hook("StatusLine", transcript_path=None, rate_limits={"five_hour": {"used_percentage": 1}})
