"""map_anyones: a payload that reaches us by another agent's entry goes to the agent it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sessionpipe.adapters import Refused, map_anyones, map_hook, registry
from tests.recorded import Hook, hooks, scenarios

CURSOR = {
    "hook_event_name": "preToolUse",
    "conversation_id": "0b0f2f6e-0000-4000-8000-0000000000c1",
    "generation_id": "0b0f2f6e-0000-4000-8000-0000000000e1",
    "model": "m-large",
    "cursor_version": "9.9.9",
    "workspace_roots": ["/src/demo"],
    "transcript_path": None,
    "tool_name": "Shell",
    "tool_input": {"command": "make check"},
    "tool_use_id": "tu-11",
}


def by(entry: str, event: str, payload: Any, **env: str) -> list[dict[str, Any]]:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return map_anyones(entry, event, data, env=env, cwd="/w", at_ms=1_000)


def test_what_is_its_own_is_mapped_as_ever() -> None:
    own = by("cursor", "preToolUse", CURSOR)
    assert [draft["harness"]["name"] for draft in own] == ["cursor"]
    assert "foreign" not in own[0]["memo"]


def test_a_payload_of_another_harness_becomes_that_ones_events() -> None:
    (draft,) = by("claude-code", "PreToolUse", CURSOR)
    assert (draft["type"], draft["data"]["tool"]) == ("tool.started", "Shell")
    assert (draft["harness"]["name"], draft["session"]["id"]) == ("cursor", CURSOR["conversation_id"])
    assert draft["memo"]["foreign"] is True


def test_the_event_is_the_one_the_payload_names() -> None:
    """Cursor runs hooks under names of its own, whatever Claude Code's file calls them."""
    (draft,) = by(
        "claude-code", "UserPromptSubmit", {**CURSOR, "hook_event_name": "stop", "status": "completed"}
    )
    assert draft["type"] == "turn.ended"


def test_where_the_payload_names_none_that_its_harness_has_it_is_the_hooks() -> None:
    for named in ({}, {"hook_event_name": 3}, {"hook_event_name": "Explode"}):
        payload = {key: value for key, value in CURSOR.items() if key != "hook_event_name"} | named
        (draft,) = by("claude-code", "PreToolUse", payload)
        assert draft["type"] == "tool.started"


def test_an_event_that_its_harness_does_not_have_is_refused_and_says_whose_it_is() -> None:
    payload = {**CURSOR, "hook_event_name": "PermissionRequest"}
    with pytest.raises(Refused, match="this is a payload of cursor, which has no such event") as refused:
        by("claude-code", "PermissionRequest", payload)
    assert refused.value.belongs_to == "cursor"


def test_one_that_its_own_harness_refuses_too_is_refused_for_both_reasons() -> None:
    payload = {**CURSOR, "conversation_id": "two words"}
    with pytest.raises(Refused, match="a payload of cursor, and yet its session id is not one") as refused:
        by("claude-code", "PreToolUse", payload)
    assert refused.value.belongs_to is None


def test_what_is_certainly_nobodys_is_refused_as_ever() -> None:
    with pytest.raises(Refused, match="no transcript_path") as refused:
        by("claude-code", "Stop", {"session_id": "x"})
    assert refused.value.belongs_to is None
    with pytest.raises(Refused, match="not JSON"):
        by("claude-code", "Stop", b"{nonsense")


def everything() -> Iterator[Hook]:
    for scenario in scenarios():
        yield from (hook for hook in hooks(scenario) if not hook.args)


@pytest.mark.parametrize("entry", registry.names())
def test_law_a_payload_is_taken_as_its_own_harness_would_take_it_or_not_at_all(entry: str) -> None:
    """Every hook of every scenario, run by every other harness's entry of the same name."""
    for hook in everything():
        if hook.harness == entry or not registry.adapter(entry).knows(hook.event):
            continue
        context = {"env": hook.env, "cwd": "/w", "at_ms": hook.at_ms}
        try:
            drafts = map_anyones(entry, hook.event, hook.stdin, **context)  # type: ignore[arg-type]
        except Refused as refused:
            assert refused.belongs_to in (None, hook.harness)
            continue
        own = map_hook(hook.harness, hook.event, hook.stdin, **context)  # type: ignore[arg-type]
        if hook.event not in registry.adapter(entry).ignored:
            assert drafts == [{**draft, "memo": {**draft["memo"], "foreign": True}} for draft in own]
