"""adapters/antigravity.toml: what its made scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook, registry
from sessionpipe.adapters.fold import fold
from sessionpipe.hook import ANSWERS

CONVERSATION = "9c1e77aa-3333-4444-8555-966677788899"


def hook(event: str, at_ms: int = 1_000, **members: Any) -> list[Draft]:
    payload = {
        "conversationId": CONVERSATION,
        "workspacePaths": ["/src/demo"],
        "transcriptPath": "/home/dev/.gemini/antigravity/brain/x/.system_generated/logs/transcript.jsonl",
        "artifactDirectoryPath": "/tmp/a",
        "modelName": "model-1",
        **members,
    }
    return map_hook("antigravity", event, json.dumps(payload).encode(), env={}, cwd="/hook", at_ms=at_ms)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def told(*drafts: Draft) -> list[Draft]:
    return fold({}, drafts)[1]


def types(*drafts: Draft) -> list[str]:
    return [each["type"] for each in told(*drafts)]


def prompt(at_ms: int = 1_000, **members: Any) -> list[Draft]:
    return hook("PreInvocation", at_ms, invocationNum=0, **members)


def stop(at_ms: int = 2_000, **members: Any) -> list[Draft]:
    return hook("Stop", at_ms, terminationReason="NO_TOOL_CALL", error="", **{"fullyIdle": True, **members})


class TestTheSession:
    @pytest.mark.parametrize(
        ("paths", "cwd"),
        [
            (["file:///src/my%20demo"], "/src/my demo"),
            (["file:///c:/work/demo"], "c:/work/demo"),
            (["/src/a", "/src/b"], "/src/a"),
            ([], "/hook"),
            ([""], "/hook"),
            (None, "/hook"),
            ("/src", "/hook"),
            ([7], "/hook"),
        ],
    )
    def test_its_folder_is_a_path_or_a_uri_or_nowhere(self, paths: Any, cwd: str) -> None:
        assert only(hook("SessionStart", workspacePaths=paths))["session"]["cwd"] == cwd

    @pytest.mark.parametrize(
        ("name", "model"), [("model-1", "model-1"), ("auto", None), ("", None), (None, None)]
    )
    def test_a_model_chosen_by_itself_is_not_known(self, name: Any, model: str | None) -> None:
        assert only(hook("SessionStart", modelName=name))["session"].get("model") == model

    @pytest.mark.parametrize("name", [None, "", 7, "a/b"])
    def test_a_payload_without_a_conversation_is_nobodys(self, name: Any) -> None:
        with pytest.raises(Refused):
            hook("Stop", conversationId=name)

    def test_claude_code_knows_its_payload(self) -> None:
        with pytest.raises(Refused) as refused:
            map_hook("claude-code", "Stop", b'{"conversationId":"x"}', env={}, cwd="/", at_ms=1)
        assert refused.value.belongs_to == "antigravity"


class TestTurns:
    def test_the_first_invocation_of_a_conversation_opens_it_and_a_turn(self) -> None:
        first, second = told(*prompt(initialNumSteps=0))
        assert (first["type"], first["data"]) == ("session.started", {"source": "startup"})
        assert second["type"] == "turn.started"

    def test_one_that_goes_on_is_no_startup(self) -> None:
        assert prompt(initialNumSteps=7)[0]["data"] == {"source": "unknown"}

    def test_the_first_of_every_other_prompt_opens_a_turn_alone(self) -> None:
        assert types(*prompt(), *stop(), *prompt(), *stop()) == [
            "session.started",
            *["turn.started", "turn.ended"] * 2,
        ]

    def test_where_sessions_start_by_themselves_they_start_once(self) -> None:
        assert types(*hook("SessionStart"), *prompt()) == ["session.started", "turn.started"]

    @pytest.mark.parametrize("number", [1, 2, 40])
    def test_a_later_invocation_shows_that_it_works(self, number: int) -> None:
        later = hook("PreInvocation", 90_000, invocationNum=number)
        assert types(*prompt(), *later) == ["session.started", "turn.started", "session.heartbeat"]
        assert types(*later) == []

    @pytest.mark.parametrize("number", [None, "0", -1, 0.5, True, False, [], {}])
    def test_a_number_that_is_none_opens_nothing(self, number: Any) -> None:
        assert types(*hook("PreInvocation", invocationNum=number)) == []

    def test_what_comes_of_a_conversation_nobody_saw_begin_opens_nothing(self) -> None:
        assert (
            types(*hook("PostInvocation", invocationNum=3), *hook("PostToolUse", stepIdx=2, error="")) == []
        )


class TestCalls:
    @pytest.mark.parametrize(
        ("error", "ok", "said"),
        [
            ("", True, None),
            (None, True, None),
            ("exit status 2", False, "exit status 2"),
            (" \n", True, None),
            ({}, True, None),
        ],
    )
    def test_a_tool_that_is_named_worked_unless_there_is_an_error(
        self, error: Any, ok: bool, said: str | None
    ) -> None:
        draft = only(hook("PostToolUse", toolCall={"name": "run_command", "args": {"a": 1}}, error=error))
        assert draft["type"] == "tool.ended"
        assert (draft["data"]["ok"], draft["data"].get("error"), draft["data"]["input"]) == (
            ok,
            said,
            {"a": 1},
        )

    @pytest.mark.parametrize(
        "call", [None, {}, {"name": ""}, {"name": "two words"}, {"name": 7}, "run_command"]
    )
    def test_one_that_is_not_named_shows_that_it_works(self, call: Any) -> None:
        assert only(hook("PostToolUse", toolCall=call, error=""))["type"] == "session.heartbeat"

    def test_a_gate_that_was_once_registered_is_not_recorded_and_not_answered(self) -> None:
        assert hook("PreToolUse", toolCall={"name": "run_command"}) == []
        assert "PreToolUse" not in registry.table("antigravity")["events"]
        assert ANSWERS["antigravity"]["PreToolUse"] == b""
        assert ANSWERS["antigravity"]["*"] == b"{}"


class TestEnds:
    @pytest.mark.parametrize(
        ("members", "reason", "error"),
        [
            ({"terminationReason": "NO_TOOL_CALL", "error": ""}, "stop", None),
            ({"terminationReason": "NO_TOOL_CALL", "error": "late"}, "stop", None),
            ({"terminationReason": "MAX_INVOCATIONS", "error": ""}, "interrupt", None),
            ({"terminationReason": "HALTED", "error": "no model"}, "error", "no model"),
            ({"terminationReason": "MODEL_ERROR", "error": ""}, "error", "MODEL_ERROR"),
            ({"error": "no model"}, "error", "no model"),
            ({}, "stop", None),
            ({"terminationReason": 7, "error": {}}, "stop", None),
        ],
    )
    def test_a_turn_ends_by_itself_or_was_ended(
        self, members: dict[str, Any], reason: str, error: str | None
    ) -> None:
        data = only(hook("Stop", **members))["data"]
        assert (data["reason"], data.get("error")) == (reason, error)

    @pytest.mark.parametrize(
        ("idle", "background"), [(True, 0), (False, 1), (None, None), ("no", None), (0, None)]
    )
    def test_what_still_runs_is_some_or_none(self, idle: Any, background: int | None) -> None:
        assert only(stop(fullyIdle=idle))["data"].get("background") == background

    def test_a_stop_that_comes_again_is_told_once(self) -> None:
        assert types(*prompt(), *stop(), *stop(), *stop()).count("turn.ended") == 1

    def test_the_second_one_says_that_the_work_in_the_background_is_done(self) -> None:
        sent = told(*prompt(), *stop(fullyIdle=False), *stop(), *stop())
        assert [each["data"]["background"] for each in sent if each["type"] == "turn.ended"] == [1, 0]
