"""adapters/opencode.toml: what our plugin posts, in the protocol's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook

T = 1_795_977_000_000
SESSION = {"id": "ses_1", "directory": "/home/dev/src", "title": "Count files", "model": "m-1"}


def hook(event: str, session: dict[str, Any] | None = None, **more: Any) -> list[Draft]:
    line = {"event": event, "t": T, "session": {**SESSION, **(session or {})}, "version": "1.18.33", **more}
    return map_hook("opencode", event, json.dumps(line).encode(), env={}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def call(tool: str = "bash", status: str = "completed", **part: Any) -> list[Draft]:
    told = {"tool": tool, "callID": "call_1", "status": status, **part}
    return hook("message.part.updated", turn="msg_1", part=told)


def test_an_event_is_of_its_session_and_happened_when_opencode_said_so() -> None:
    draft = only(hook("session.created", attended=True))
    assert draft["at_ms"] == T
    assert draft["harness"] == {"name": "opencode", "event": "session.created", "version": "1.18.33"}
    assert draft["session"] == {
        "id": "ses_1",
        "cwd": "/home/dev/src",
        "model": "m-1",
        "title": "Count files",
        "title_source": "harness",
        "attended": True,
    }


@pytest.mark.parametrize("payload", [b'{"type":"session.created"}', b'{"event":"session.created"}'])
def test_a_payload_that_is_not_from_our_plugin_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused, match="it has no"):
        map_hook("opencode", "session.created", payload, env={}, cwd="/", at_ms=1_000)


@pytest.mark.parametrize(
    ("title", "source"),
    [("Count files (fork #1)", "fork"), ("Count (fork #2) files", "startup"), (None, "startup")],
)
def test_how_a_session_started(title: str | None, source: str) -> None:
    assert only(hook("session.created", {"title": title}))["data"] == {"source": source}


def test_a_subagent_is_a_session_below_another() -> None:
    assert only(hook("session.created", {"parentID": "ses_0"}))["session"]["parent_id"] == "ses_0"


def test_a_session_that_goes_on_starts_with_its_turn() -> None:
    started, turn = hook("chat.message", turn="msg_1", resumed=True, prompt="Go", prompt_chars=2)
    assert (started["type"], started["data"]) == ("session.started", {"source": "resume"})
    assert (turn["data"], turn["memo"]["prompt"]) == ({"turn_id": "msg_1", "prompt_chars": 2}, "Go")


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (None, {"reason": "stop"}),
        ({"name": "MessageAbortedError"}, {"reason": "interrupt"}),
        (
            {"name": "APIError", "statusCode": 429, "responseBody": '{"error":{"type": "rate_limit_error"}}'},
            {"reason": "error", "error": "rate_limit_error"},
        ),
        ({"name": "APIError", "statusCode": 503, "responseBody": "<"}, {"reason": "error", "error": "server_error"}),
        ({"name": "ProviderAuthError"}, {"reason": "error", "error": "ProviderAuthError"}),
        ({"name": "not a word"}, {"reason": "error", "error": "unknown"}),
        ({}, {"reason": "error", "error": "unknown"}),
    ],
)  # fmt: skip
def test_how_a_turn_ended(error: dict[str, Any] | None, data: dict[str, Any]) -> None:
    more = {} if error is None else {"error": error}
    assert only(hook("session.idle", turn="msg_1", **more))["data"] == {"turn_id": "msg_1", **data}


def test_the_end_of_a_turn_says_which_message_to_wait_for() -> None:
    draft = only(hook("session.idle", turn="msg_1", last="msg_2", store="/x.db"))
    assert draft["memo"]["transcript"] == {"path": "/x.db", "said": "msg_2", "final": False}


def test_a_call_that_went_well_and_one_that_did_not() -> None:
    well = only(call(input={"command": "ls"}, output="a\n", ms=12))
    assert well["data"] == {
        "tool": "bash",
        "call_id": "call_1",
        "turn_id": "msg_1",
        "input": {"command": "ls"},
        "output": "a\n",
        "ok": True,
        "ms": 12,
    }
    ill = only(call(error="exit code 3"))
    assert (ill["data"]["ok"], ill["data"]["error"]) == (False, "exit code 3")


@pytest.mark.parametrize(
    ("tool", "input_", "paths"),
    [
        ("write", {"filePath": "/home/dev/src/a.txt"}, ["/home/dev/src/a.txt"]),
        ("edit", {"filePath": "a.txt"}, ["/home/dev/src/a.txt"]),
        (
            "apply_patch",
            {
                "patchText": "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n*** Add File: /c.txt\n"
            },
            ["/home/dev/src/a.txt", "/home/dev/src/b.txt", "/c.txt"],
        ),
    ],
)
def test_which_files_a_call_changed(tool: str, input_: dict[str, Any], paths: list[str]) -> None:
    _, files = call(tool, input=input_)
    assert (files["type"], files["data"]) == ("files.changed", {"paths": paths})
    assert len(call(tool, input=input_, error="no")) == 1
    assert len(call(tool, "error", input=input_, error="no")) == 1
    assert len(call("read", input=input_)) == 1


def test_a_subagent_is_told_with_its_call() -> None:
    agent = {"agent": {"id": "ses_2", "type": "general"}}
    assert [draft["type"] for draft in call("task", "running", **agent)] == [
        "tool.started",
        "subagent.started",
    ]
    assert [draft["type"] for draft in call("task", "running", again=True, **agent)] == ["subagent.started"]
    ended, _ = call("task", "error", error="Aborted", **agent)
    assert (ended["type"], ended["data"]) == (
        "subagent.ended",
        {"agent_id": "ses_2", "agent_type": "general"},
    )


def test_a_permission_is_asked_for_and_answered() -> None:
    asked = only(
        hook(
            "permission.asked",
            turn="msg_1",
            ask={"id": "per_1", "tool": "edit", "input": {"path": "/etc/hosts"}},
        )
    )
    assert asked["data"] == {
        "attention_id": "per_1",
        "kind": "permission",
        "tool": "edit",
        "message": "edit /etc/hosts",
    }
    answered = only(hook("permission.replied", ask={"id": "per_1", "reply": "reject"}))
    assert answered["data"] == {"attention_id": "per_1", "how": "answered"}


@pytest.mark.parametrize(
    ("event", "how"), [("question.replied", "answered"), ("question.rejected", "cancelled")]
)
def test_a_question_is_asked_and_over(event: str, how: str) -> None:
    asked = only(hook("question.asked", ask={"id": "que_1", "message": "Which one?"}))
    assert asked["data"] == {"attention_id": "que_1", "kind": "question", "message": "Which one?"}
    assert only(hook(event, ask={"id": "que_1"}))["data"] == {"attention_id": "que_1", "how": how}


@pytest.mark.parametrize(("auto", "trigger"), [(True, "auto"), (False, "manual"), (None, "auto")])
def test_what_made_it_compact(auto: bool | None, trigger: str) -> None:
    assert only(hook("session.compacted", auto=auto))["data"] == {"trigger": trigger}


def test_only_a_session_that_is_known_can_be_deleted() -> None:
    draft = only(hook("session.deleted"))
    assert (draft["type"], draft["memo"]["only_known"]) == ("session.ended", True)
