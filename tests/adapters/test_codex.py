"""adapters/codex.toml: what the recorded scenarios don't show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook

SESSION = "01a10860-a43f-7ce2-b12f-a7911ae8a880"
ROLLOUT = f"/home/dev/.codex/sessions/2026/11/29/rollout-2026-11-29T17-53-21-{SESSION}.jsonl"


def hook(event: str, *, args: tuple[str, ...] = (), **members: Any) -> list[Draft]:
    payload = {
        "session_id": SESSION,
        "turn_id": "turn-1",
        "transcript_path": ROLLOUT,
        "cwd": "/home/dev/src",
        "hook_event_name": event,
        "model": "gpt-5.5",
        **members,
    }
    data = b"" if args else json.dumps(payload).encode()
    return map_hook("codex", event, data, args=args, env={}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


class TestClaims:
    @pytest.mark.parametrize(
        ("members", "owner"),
        [
            ({"prompt_id": "p-1"}, "claude-code"),
            ({"transcript_path": f"/home/dev/.claude/projects/-src/{SESSION}.jsonl"}, "claude-code"),
            ({"transcript_path": "/home/dev/.gemini/tmp/x/chats/session-1.jsonl"}, "gemini-cli"),
            ({"conversation_id": "c-1"}, "cursor"),
        ],
    )
    def test_a_payload_of_another_agent_is_named(self, members: dict[str, Any], owner: str) -> None:
        with pytest.raises(Refused) as refused:
            hook("Stop", **members)
        assert refused.value.belongs_to == owner

    def test_an_ephemeral_run_has_no_rollout(self) -> None:
        assert "file" not in only(hook("Stop", transcript_path=None))["memo"]

    def test_a_session_id_is_a_uuid(self) -> None:
        with pytest.raises(Refused, match="no UUID"):
            hook("Stop", session_id="thread-1")


SAID: dict[str, Any] = {
    "type": "agent-turn-complete",
    "thread-id": SESSION,
    "turn-id": "turn-1",
    "cwd": "/home/dev/src",
    "input-messages": ["Say hello"],
    "last-assistant-message": "Hello.",
}


class TestNotify:
    def test_it_ends_a_turn_of_a_session_that_is_known(self) -> None:
        draft = only(hook("notify", args=(json.dumps(SAID),)))
        assert draft["session"] == {"id": SESSION, "cwd": "/home/dev/src"}
        assert draft["data"] == {"turn_id": "turn-1", "reason": "stop"}
        assert draft["memo"]["only_known"] is True
        assert draft["memo"]["transcript"]["said"] == "Hello."

    def test_what_it_says_besides_ends_nothing(self) -> None:
        assert hook("notify", args=(json.dumps({**SAID, "type": "update-available"}),)) == []

    def test_an_argument_that_is_no_json_is_refused(self) -> None:
        with pytest.raises(Refused, match="not JSON"):
            hook("notify", args=("agent-turn-complete",))


class TestPatches:
    PATCH = (
        "*** Begin Patch\n*** Add File: new.txt\n+*** Add File: no.txt\n*** Update File: src/a.py\n"
        "*** Move to: /abs/b.py\n@@\n-x\n+y\n*** Delete File: old.txt  \n*** Update File: new.txt\n*** End Patch\n"
    )

    def patched(self, response: Any, **asked: str) -> list[Draft]:
        return hook(
            "PostToolUse",
            tool_name="apply_patch",
            tool_input=asked or {"command": self.PATCH},
            tool_response=response,
            tool_use_id="call-1",
        )

    def test_a_patch_changes_the_files_its_headers_name_each_once(self) -> None:
        ended, files = self.patched("Exit code: 0\nOutput:\nSuccess.")
        assert ended["data"]["ok"] is True
        root = "/home/dev/src"
        assert files["data"]["paths"] == [
            f"{root}/new.txt",
            f"{root}/src/a.py",
            "/abs/b.py",
            f"{root}/old.txt",
        ]

    def test_a_patch_that_failed_says_why_and_changes_nothing(self) -> None:
        ended = only(self.patched("Exit code: 1\nOutput:\nno such file"))
        assert ended["data"]["ok"] is False
        assert ended["data"]["error"] == "Exit code: 1\nOutput:\nno such file"

    def test_a_patch_without_files_is_a_tool_all_the_same(self) -> None:
        assert only(self.patched("Exit code: 0", command="nonsense"))["type"] == "tool.ended"


@pytest.mark.parametrize(
    ("response", "ok", "error"),
    [
        ("out\n", True, None),
        ("Exit code: 3 is what I printed", True, None),
        ({"content": [{"type": "text", "text": "3"}], "isError": False}, True, None),
        ({"content": [{"type": "image"}, {"type": "text", "text": "boom"}], "isError": True}, False, "boom"),
        (None, True, None),
    ],
)
def test_whether_a_call_went_well_as_far_as_the_hook_knows(
    response: Any, ok: bool, error: str | None
) -> None:
    draft = only(hook("PostToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_response=response))
    assert (draft["data"]["ok"], draft["data"].get("error")) == (ok, error)


def test_a_request_and_its_call_are_known_by_the_same_hash_though_the_request_explains_itself() -> None:
    request = only(
        hook("PermissionRequest", tool_name="Bash", tool_input={"command": "x", "description": "Need it"})
    )
    call = only(hook("PostToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_response=""))
    assert request["memo"]["ask"] == call["memo"]["ask"] != request["data"]["attention_id"]


def test_a_subagents_prompt_is_no_turn_of_the_session() -> None:
    assert hook("UserPromptSubmit", prompt="CHILD TASK", agent_id="thread-2", agent_type="default") == []
