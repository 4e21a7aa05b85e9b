"""``sessionpipe map``: what one payload becomes, and nothing else happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.adapters import registry
from sessionpipe.cli import cli
from sessionpipe.paths import data_dir, state_dir
from tests.schema import assert_valid

SESSION = "8c132906-8c3f-4814-870a-afc3d05e1d2e"
PAYLOAD: dict[str, Any] = {
    "session_id": SESSION,
    "transcript_path": f"/home/dev/.claude/projects/-home-dev-src/{SESSION}.jsonl",
    "cwd": "/home/dev/src",
    "prompt_id": "p-1",
}


def run(*words: str, payload: Any = None, **members: Any) -> Result:
    data = payload if payload is not None else json.dumps({**PAYLOAD, **members})
    return CliRunner().invoke(cli, ["map", *words], input=data)


def events(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = [json.loads(line) for line in result.stdout.split("\n") if line]
    for event in found:
        assert_valid(event)
    return found


def test_the_whole_event_as_it_would_be_stored() -> None:
    result = run("claude-code", "Stop", "--at", "1795976081342", "--cwd", "/", background_tasks=[])
    (event,) = events(result)
    assert {**event, "id": "*"} == {
        "protocol": 1,
        "id": "*",
        "type": "turn.ended",
        "time": "2026-11-29T18:14:41.342Z",
        "tier": 3,
        "harness": {"name": "claude-code", "event": "Stop"},
        "session": {"id": SESSION, "seq": 0, "cwd": "/home/dev/src"},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": {"turn_id": "p-1", "reason": "stop", "background": 0},
    }


def test_several_events_of_one_payload_are_numbered_from_zero() -> None:
    found = events(
        run("claude-code", "PostToolUse", tool_name="Write", tool_input={"file_path": "/home/dev/src/a"})
    )
    assert [(e["type"], e["session"]["seq"]) for e in found] == [("tool.ended", 0), ("files.changed", 1)]
    assert found[1]["data"] == {"paths": ["a"]}


def test_home_is_shortened_only_when_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/dev")
    (unsaid,) = events(run("claude-code", "Stop"))
    (said,) = events(run("claude-code", "Stop", "--env", "HOME=/home/dev"))
    assert (unsaid["session"]["cwd"], said["session"]["cwd"]) == ("/home/dev/src", "~/src")


def test_the_hooks_variables_are_those_that_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "1")
    (unsaid,) = events(run("claude-code", "Stop"))
    (said,) = events(run("claude-code", "Stop", "--env", "CLAUDE_CODE_SESSION_ATTENDED=1"))
    assert "attended" not in unsaid["session"]
    assert said["session"]["attended"] is True


def test_secrets_are_gone() -> None:
    token = "ghp_" + "aB3" * 12
    result = run("claude-code", "PreToolUse", tool_name="Bash", tool_input={"command": f"push {token}"})
    (event,) = events(result)
    assert token not in result.stdout
    assert event["data"]["input"]["command"].startswith("push ")


def test_a_requests_message_is_cut_to_what_is_shown() -> None:
    (event,) = events(
        run("claude-code", "PermissionRequest", tool_name="Bash", tool_input={"command": "x " * 300})
    )
    assert len(event["data"]["message"]) == len("Bash ") + 120


def test_the_harnesss_own_files_are_found_by_their_names() -> None:
    scenario = data_dir("conformance") / "harness" / "claude-code" / "subagent"
    record = json.loads((scenario / "01-SessionStart.json").read_text("utf-8"))
    words = ("claude-code", "SessionStart")
    payload = json.dumps(record["stdin"])
    (plain,) = events(run(*words, payload=payload))
    (enriched,) = events(run(*words, "--files", str(scenario / "files"), payload=payload))
    assert "version" not in plain["harness"]
    assert enriched["harness"]["version"] == "2.1.332"


def test_what_follows_two_dashes_is_the_hooks_own() -> None:
    said = json.dumps({"type": "agent-turn-complete", "thread-id": SESSION, "turn-id": "t-1"})
    (event,) = events(run("codex", "notify", "--", said, payload=""))
    assert event["data"] == {"turn_id": "t-1", "reason": "stop"}


def test_nothing_is_remembered_and_so_nothing_is_cleared() -> None:
    assert events(run("claude-code", "ElicitationResult", action="accept")) == []


def test_an_event_that_means_nothing_prints_nothing() -> None:
    assert events(run("claude-code", "PostToolBatch")) == []


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [
        ("Stop", "", "an empty payload"),
        ("Stop", "[]", "a JSON array, not an object"),
        ("Stop", "{}", "it has no transcript_path"),
        ("Stop", '{"cursor_version":"1"}', "this is a payload of cursor; it belongs to cursor"),
        ("Explode", "{}", "claude-code has no event of this name"),
    ],
)
def test_a_refused_payload_prints_its_reason_apart_and_is_no_failure(
    event: str, payload: str, reason: str
) -> None:
    result = run("claude-code", event, payload=payload)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"sessionpipe: refused: {reason}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("nobody", "Stop"), f"no harness is called 'nobody'; there are {', '.join(registry.names())}"),
        (("claude-code", "Stop", "--env", "HOME"), "--env takes NAME=VALUE, not 'HOME'"),
        (("claude-code", "Stop", "--files", "/nowhere"), "does not exist"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_known(words: tuple[str, ...], complaint: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


def test_it_touches_no_state(tmp_path: Path) -> None:
    run("claude-code", "Stop")
    assert not state_dir().exists()
