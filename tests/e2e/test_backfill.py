"""The sessions that were there before: installed, told to a sink, gone on with, forgotten, and not told twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sessionpipe.paths import data_dir
from tests.e2e.machine import Machine, wait_for
from tests.schema import assert_valid

CONFORMANCE = data_dir("conformance")
#: How far back is far enough for what was once recorded.
EVER = ("--days", "3650")


def with_codex(machine: Machine) -> str:
    """A machine on which Codex has been used; the session's id."""
    (rollout,) = (CONFORMANCE / "harness" / "codex" / "apply_patch" / "files").glob("rollout-*.jsonl")
    folder = machine.home / ".codex" / "sessions" / "2026" / "11" / "29"
    folder.mkdir(parents=True)
    shutil.copyfile(rollout, folder / rollout.name)
    return rollout.stem[-36:]


def with_claude_code(machine: Machine) -> str:
    """The same of Claude Code."""
    told = json.loads((CONFORMANCE / "transcripts" / "claude-code" / "tui-title.json").read_text())
    folder = machine.home / ".claude" / "projects" / "-home-dev-src"
    folder.mkdir(parents=True)
    source = CONFORMANCE / "transcripts" / "claude-code" / "tui-title.jsonl"
    shutil.copyfile(source, folder / f"{told['session']}.jsonl")
    return str(told["session"])


def delivered(path: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for event in events:
        assert_valid(event)
    return events


def test_what_was_there_before_is_told_once_and_goes_on(machine: Machine) -> None:
    session, sink = with_codex(machine), machine.root / "events.ndjson"
    machine.sessionpipe("sinks", "add", f"file:{sink}", "--tier", "1")
    assert "1 session recorded (codex 1)" in machine.sessionpipe("backfill", *EVER).stdout
    # The worker was woken by it.
    (first,) = wait_for(lambda: delivered(sink), "the session is delivered")
    assert (first["type"], first["session"]["id"], first["session"]["seq"]) == (
        "session.backfill",
        session,
        0,
    )
    assert first["harness"]["name"] == "codex"
    machine.sessionpipe("backfill", *EVER)
    payload = {
        "session_id": session,
        "cwd": "/w",
        "prompt": "again",
        "turn_id": "t-1",
        "hook_event_name": "UserPromptSubmit",
    }
    machine.hook("codex", "UserPromptSubmit", payload)
    machine.sessionpipe("flush")
    assert [(event["type"], event["session"]["seq"]) for event in delivered(sink)] == [
        ("session.backfill", 0),
        ("turn.started", 1),
    ]


def test_one_that_was_forgotten_is_not_found_again(machine: Machine) -> None:
    session = with_codex(machine)
    machine.sessionpipe("backfill", *EVER)
    machine.sessionpipe("forget", f"codex:{session}")
    done = machine.sessionpipe("backfill", *EVER)
    assert "known already" in done.stdout
    assert [event["type"] for event in machine.events()] == ["session.forgotten"]


def test_each_agents_own_files_are_read(machine: Machine) -> None:
    sessions = {("codex", with_codex(machine)), ("claude-code", with_claude_code(machine))}
    machine.sessionpipe("backfill", *EVER)
    events = machine.events()
    assert {(event["harness"]["name"], event["session"]["id"]) for event in events} == sessions
    for event in events:
        assert_valid(event)
        assert event["session"]["title"]
        assert event["data"]["turns"] > 0
    lasts = [event["data"]["last_at"] for event in events]
    assert lasts == sorted(lasts, reverse=True)
