"""adapters/pi.toml: with what our extension adds, and from Pi's events alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.adapters import Draft, Refused, map_hook

SESSION = "01a22871-9832-75a7-be73-f037762926a1"
CREATED = 1_795_974_862_898  # the time in that id


def hook(event: str, ev: dict[str, Any], ctx: dict[str, Any] | None = None, **more: Any) -> list[Draft]:
    line = {
        "event": event,
        "t": CREATED + 200.25,
        "ev": ev,
        "ctx": {"mode": "tui", "cwd": "/home/dev/src", "sessionId": SESSION, "model": "fake/fake-1", **(ctx or {})},
        **more,
    }  # fmt: skip
    return map_hook("pi", event, json.dumps(line).encode(), env={}, cwd="/hook", at_ms=1_000)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def test_an_event_happened_when_pi_says_it_did() -> None:
    assert only(hook("agent_start", {}))["at_ms"] == CREATED + 200


def test_a_payload_that_is_not_from_our_extension_is_refused() -> None:
    with pytest.raises(Refused, match="it has no event"):
        map_hook("pi", "agent_start", b'{"type":"agent_start"}', env={}, cwd="/", at_ms=1_000)


@pytest.mark.parametrize(
    ("model", "id_"),
    [
        ("fake/fake-1", "fake-1"),
        ("router/maker/model", "maker/model"),
        ("bare", "bare"),
        ({"id": "fake-1", "provider": "fake"}, "fake-1"),
        (None, None),
        (7, None),
    ],
)
def test_the_model_is_named_without_its_provider(model: Any, id_: str | None) -> None:
    assert only(hook("agent_start", {}, {"model": model}))["session"].get("model") == id_


@pytest.mark.parametrize(
    ("mode", "attended"), [("tui", True), ("json", False), ("print", False), ("rpc", None)]
)
def test_whether_a_person_attends(mode: str, attended: bool | None) -> None:
    assert only(hook("agent_start", {}, {"mode": mode}))["session"].get("attended") is attended


class TestStarts:
    @pytest.mark.parametrize(
        ("reason", "ctx", "source"),
        [
            ("new", {}, "startup"),
            ("resume", {"messages": 4}, "resume"),
            ("fork", {"parentSession": "/p.jsonl", "messages": 4}, "fork"),
            ("startup", {"messages": 0, "entries": 3}, "startup"),
            ("startup", {"messages": 4}, "resume"),
            ("startup", {"messages": 4, "parentSession": "/p.jsonl", "created": CREATED}, "fork"),
            ("startup", {"messages": 4, "parentSession": "/p.jsonl", "created": CREATED - 90_000}, "resume"),
            # From Pi's own words alone: entries that are no messages, and the time in the session's id.
            ("startup", {"entries": 2}, "startup"),
            ("startup", {"entries": 6}, "resume"),
            ("startup", {"entries": 10, "parentSession": "/p.jsonl"}, "fork"),
            ("teleport", {"messages": 4}, "unknown"),
        ],
    )
    def test_how_a_session_started(self, reason: str, ctx: dict[str, Any], source: str) -> None:
        assert only(hook("session_start", {"reason": reason}, ctx))["data"] == {"source": source}

    def test_a_reload_neither_starts_nor_ends_a_session(self) -> None:
        assert hook("session_start", {"reason": "reload"}) == []
        assert hook("session_shutdown", {"reason": "reload"}) == []


@pytest.mark.parametrize(
    ("reason", "ended"), [("quit", "exit"), ("new", "other"), ("resume", "other"), ("fork", "other")]
)
def test_why_a_session_ended(reason: str, ended: str) -> None:
    assert only(hook("session_shutdown", {"reason": reason}))["data"] == {"reason": ended}


class TestRuns:
    def test_a_run_begins_with_what_started_it(self) -> None:
        run = {"id": "run-1", "source": "interactive", "prompt": "Hej 🚀", "prompt_chars": 5}
        draft = only(hook("agent_start", {}, run=run))
        assert draft["data"] == {"turn_id": "run-1", "submitted_by": "interactive", "prompt_chars": 5}
        assert draft["memo"]["prompt"] == "Hej 🚀"

    def test_a_run_that_an_extension_started_is_nobodys_words(self) -> None:
        draft = only(hook("agent_start", {}, run={"id": "run-1", "custom": True}))
        assert draft["data"] == {"turn_id": "run-1", "injected": True}

    @pytest.mark.parametrize(
        ("aborted", "run", "ended"),
        [
            (False, {}, {"reason": "stop"}),
            (False, {"outcome": "completed", "stop": "length"}, {"reason": "stop"}),
            (True, {"outcome": "completed"}, {"reason": "interrupt"}),
            # Aborted while it waited to try again.
            (True, {"outcome": "error", "error": "500: {}"}, {"reason": "interrupt"}),
            (
                False,
                {"outcome": "error", "error": '400: {"message":"bad","type":"invalid_request_error"}'},
                {"reason": "error", "error": "invalid_request_error"},
            ),
            (
                False,
                {"outcome": "error", "error": "429 slow down"},
                {"reason": "error", "error": "rate_limit"},
            ),
            (
                False,
                {"outcome": "error", "error": "connection reset"},
                {"reason": "error", "error": "unknown"},
            ),
            (False, {"outcome": "error"}, {"reason": "error", "error": "unknown"}),
        ],
    )
    def test_how_a_run_ended(self, aborted: bool, run: dict[str, Any], ended: dict[str, str]) -> None:
        assert only(hook("agent_settled", {"aborted": aborted}, run=run))["data"] == ended

    def test_the_end_of_a_run_says_what_to_wait_for(self) -> None:
        draft = only(
            hook("agent_settled", {"aborted": False}, {"sessionFile": "/s.jsonl"}, run={"said": "Done."})
        )
        assert draft["memo"]["transcript"] == {"path": "/s.jsonl", "said": "Done.", "final": False}


class TestTools:
    def ended(self, tool: str = "write", **members: Any) -> list[Draft]:
        more = {"args": members.pop("args")} if "args" in members else {}
        ev = {"toolCallId": "call_1", "toolName": tool, "isError": False, **members}
        return hook("tool_execution_end", ev, **more)

    def test_a_call_that_went_well(self) -> None:
        draft = only(
            self.ended("bash", durationMs=15.6, result={"content": [{"type": "text", "text": "ok"}]})
        )
        assert draft["data"] == {
            "tool": "bash",
            "call_id": "call_1",
            "ok": True,
            "ms": 16,
            "output": [{"type": "text", "text": "ok"}],
        }

    def test_a_call_that_failed_says_so_in_the_first_text_of_its_result(self) -> None:
        content = [
            {"type": "image", "data": "x"},
            {"type": "text", "text": "no file"},
            {"type": "text", "text": "x"},
        ]
        draft = only(self.ended("read", isError=True, result={"content": content}))
        assert (draft["data"]["ok"], draft["data"]["error"]) == (False, "no file")

    def test_a_call_that_does_not_say_whether_it_failed_is_no_event(self) -> None:
        assert self.ended("bash", isError="no") == []

    @pytest.mark.parametrize(
        ("path", "changed"),
        [("sub/new.txt", "/home/dev/src/sub/new.txt"), ("/abs/x", "/abs/x"), ("~/x", "~/x")],
    )
    def test_a_write_changes_the_file_its_arguments_name(self, path: str, changed: str) -> None:
        _, files = self.ended(args={"path": path})
        assert files["data"] == {"paths": [changed]}

    @pytest.mark.parametrize(
        ("tool", "members"),
        [
            ("write", {"isError": True, "args": {"path": "x"}}),
            ("read", {"args": {"path": "x"}}),
            ("edit", {}),
        ],
    )
    def test_nothing_else_changes_a_file(self, tool: str, members: dict[str, Any]) -> None:
        assert only(self.ended(tool, **members))["type"] == "tool.ended"


@pytest.mark.parametrize(
    ("dialog", "kind"),
    [("confirm", "permission"), ("select", "question"), ("input", "question"), (None, "question")],
)
def test_a_dialog_asks_and_its_end_answers(dialog: str | None, kind: str) -> None:
    asked = only(hook("ui_prompt_start", {"kind": dialog, "title": "Proceed?"}))
    assert (asked["data"]["kind"], asked["data"]["message"]) == (kind, "Proceed?")
    answered = only(hook("ui_prompt_end", {"kind": dialog, "title": "Proceed?"}))
    assert (answered["data"], answered["memo"]["kind"]) == ({"how": "answered"}, kind)


@pytest.mark.parametrize(
    ("reason", "trigger"), [("manual", "manual"), ("threshold", "auto"), ("overflow", "auto")]
)
def test_what_made_it_compact(reason: str, trigger: str) -> None:
    assert only(hook("session_compact", {"reason": reason}))["data"] == {"trigger": trigger}
