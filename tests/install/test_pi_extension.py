"""Pi's extension in a bare node: what it posts for recorded events, and that nothing can make it a nuisance."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.adapters.registry import table
from sessionpipe.install.targets import targets
from sessionpipe.paths import data_dir
from tests.e2e.agents import node
from tests.e2e.machine import wait_for

PLAYER = Path(__file__).with_name("player.mjs")
RECORDED = data_dir("conformance") / "extension" / "pi"
POSTED = data_dir("conformance") / "harness" / "pi"


class Stage:
    """The extension with a launcher that writes down how it was called."""

    def __init__(self, root: Path, launcher: str = '{ printf "%s " "$@"; cat; echo; } >> "$0.calls"') -> None:
        self.root = root
        self.launcher = root / "state" / "bin" / "sessionpipe-hook"
        self.launcher.parent.mkdir(parents=True)
        self.launcher.write_text(f"#!/bin/sh\n{launcher}\n")
        self.launcher.chmod(0o700)
        self.extension = root / "extension.mjs"
        self.extension.write_text(targets()["pi"][0].content(self.launcher))

    def play(self, recording: Path, *how: str, **env: str) -> dict[str, Any]:
        done = subprocess.run(
            [node(18), PLAYER, self.extension, recording, *how],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        told: dict[str, Any] = json.loads(done.stdout or "{}")
        return told

    def play_lines(self, lines: list[dict[str, Any]], *how: str, **env: str) -> dict[str, Any]:
        recording = self.root / "recording.ndjson"
        recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.play(recording, *how, **env)

    def marks(self) -> dict[str, dict[str, Any]]:
        """What says which sessions hooks tell."""
        folder = self.root / "state" / "live"
        return {path.name: json.loads(path.read_text()) for path in folder.glob("*")}

    def calls(self) -> list[dict[str, Any]]:
        """The payloads posted, in order; each call's words are checked against its payload."""
        path = Path(f"{self.launcher}.calls")
        posted = []
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            harness, event, payload = line.split(" ", 2)
            posted.append(json.loads(payload))
            assert (harness, event) == ("pi", posted[-1]["event"])
        return posted


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def line(event: str, at: int = 1_795_974_777_507, mode: str = "tui", **ev: Any) -> dict[str, Any]:
    ctx = {"mode": mode, "cwd": "/src", "sessionId": "s", "model": "p/m", "entries": 2}
    return {"event": event, "t": at, "ev": {"type": event, **ev}, "ctx": ctx}


def comparable(payload: dict[str, Any]) -> dict[str, Any]:
    """Without what a recording does not tell: entries that are no messages, the header's time, fractions."""
    ctx = {
        name: value
        for name, value in payload["ctx"].items()
        if name not in ("entries", "messages", "created")
    }
    return {**payload, "t": int(payload["t"]), "ctx": ctx}


@pytest.mark.parametrize("scenario", ["c-tools", "f-http500", "t8-tui-gate", "l-two-prompts"])
def test_what_is_posted_for_a_recorded_session_is_what_the_adapter_is_tested_with(
    stage: Stage, scenario: str
) -> None:
    told = stage.play(RECORDED / f"{scenario}.ndjson")
    assert told["answers"] == ["undefined"]
    expected = [json.loads(path.read_text())["stdin"] for path in sorted((POSTED / scenario).glob("*.json"))]
    assert list(map(comparable, stage.calls())) == list(map(comparable, expected))


def test_compactions_are_posted(stage: Stage) -> None:
    stage.play(RECORDED / "j-compact-threshold.ndjson")
    (compaction,) = [call for call in stage.calls() if call["event"] == "session_compact"]
    assert compaction["ev"] == {"reason": "threshold"}


def test_it_listens_to_what_the_adapter_maps_and_to_nothing_that_could_hurt(stage: Stage) -> None:
    told = stage.play_lines([])
    only_read = {"input", "before_agent_start", "turn_end"}
    assert set(told["subscribed"]) - only_read == set(targets()["pi"][0].events)
    assert not set(told["subscribed"]) & {
        "message_update",
        "tool_call",
        "mcp_servers_change",
        "provider_stream_event",
    }
    assert set(table("pi")["events"]) == set(targets()["pi"][0].events)


def test_the_session_s_start_says_what_only_then_is_cheap(stage: Stage) -> None:
    stage.play_lines([line("session_start", reason="startup"), line("session_shutdown", reason="quit")])
    start, end = stage.calls()
    assert start["ctx"] | {"entries": 2, "messages": 0, "created": 1795974777362} == start["ctx"]
    assert "entries" not in end["ctx"]


def test_a_reload_is_not_told_and_not_heard_twice(stage: Stage) -> None:
    told = stage.play_lines(
        [
            line("session_start", reason="startup"),
            line("session_shutdown", reason="reload"),
            line("session_start", reason="reload"),
            line("ui_prompt_start", kind="confirm"),
            line("session_shutdown", reason="quit"),
        ]
    )
    assert told["answers"] == ["undefined"]
    assert [call["event"] for call in stage.calls()] == [
        "session_start",
        "ui_prompt_start",
        "session_shutdown",
    ]


def test_a_run_knows_who_started_it(stage: Stage) -> None:
    stage.play_lines(
        [
            line("input", text="hi", source="rpc"),
            line("before_agent_start", messageType="user", prompt="a\U0001f600" * 1500),
            line("agent_start", at=1),
            line("agent_settled", aborted=False),
            line("before_agent_start", messageType="custom", message={}),
            line("agent_start", at=2),
            line("session_shutdown", reason="quit"),
        ]
    )
    first, _, second, end = stage.calls()
    run = first["run"]
    assert (run["id"], run["source"], run["prompt_chars"]) == ("run-1", "rpc", 3000)
    # Cut in UTF-16 units, and never through a character.
    assert run["prompt"] == "a\U0001f600" * 666 + "a"
    assert second["run"] == {"id": "run-2", "custom": True}
    assert end["run"] == {"id": "run-2"}


@pytest.mark.parametrize(
    "ev",
    [
        {},
        {"toolCallId": None, "args": [[[[]]] * 3000], "result": 3},
        {"toolCallId": "x", "args": {"content": "y" * 2_000_000, "__proto__": {"a": 1}}, "toolName": 7},
        {"toolCallId": "x", "args": {str(n): "z" * 900 for n in range(9000)}, "result": {"content": "text"}},
    ],
)
def test_any_event_is_posted_in_bounded_size(stage: Stage, ev: dict[str, Any]) -> None:
    events = ["tool_execution_start", "tool_execution_end", "turn_end", "agent_settled", "ui_prompt_end"]
    told = stage.play_lines(
        [*(line(event, **ev) for event in events), line("session_shutdown", reason="quit")]
    )
    assert told["answers"] == ["undefined"]
    assert [call["event"] for call in stage.calls()][:2] == events[:2]
    assert all(len(json.dumps(call)) < 700_000 for call in stage.calls())


# --- beside `sessionpipe ingest pi` -------------------------------------------------------------------


def session(mode: str) -> list[dict[str, Any]]:
    started = line("session_start", mode=mode, reason="startup")
    return [started, line("session_shutdown", at=1_795_974_778_000, mode=mode, reason="quit")]


@pytest.mark.parametrize("mode", ["json", "rpc"])
def test_where_a_stream_may_be_read_a_mark_says_that_hooks_tell_the_session(stage: Stage, mode: str) -> None:
    stage.play_lines(session(mode)[:1], "exit")
    (mark,) = stage.marks().values()
    assert "until" not in mark
    stage.play_lines(session(mode))
    (mark,) = stage.marks().values()
    assert list(stage.marks()) == ["pi-s"]
    assert (mark["since"], mark["until"]) == (1_795_974_777_507, 1_795_974_778_000)
    path = stage.root / "state" / "live" / "pi-s"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("mode", ["tui", "print"])
def test_where_there_is_no_stream_there_is_no_mark(stage: Stage, mode: str) -> None:
    stage.play_lines(session(mode))
    assert stage.marks() == {}
    assert len(stage.calls()) == 2


def test_without_a_launcher_nothing_tells_the_session_and_there_is_no_mark(stage: Stage) -> None:
    stage.launcher.unlink()
    assert stage.play_lines(session("json"))["answers"] == ["undefined"]
    assert stage.marks() == {}


def test_a_mark_that_cannot_be_made_is_no_trouble(stage: Stage) -> None:
    (stage.root / "state" / "live").write_text("in the way")
    assert stage.play_lines(session("json"))["answers"] == ["undefined"]
    assert len(stage.calls()) == 2


def test_run_by_ingest_it_leaves_the_stream_to_tell_what_happens(stage: Stage) -> None:
    stage.play_lines(session("json"), SESSIONPIPE_INGEST=str(os.getpid()))
    assert (stage.calls(), stage.marks()) == ([], {})
    # There is no stream to tell it, or it doesn't say whose it is.
    for mode in ("print", "rpc"):
        stage.play_lines(session(mode), SESSIONPIPE_INGEST=str(os.getpid()))
    assert len(stage.calls()) == 4


def test_a_pi_that_another_one_runs_under_ingest_is_none_of_its(stage: Stage) -> None:
    """What the agent runs inherits the variable, and prints to the agent."""
    stage.play_lines(session("json"), SESSIONPIPE_INGEST="1")
    assert len(stage.calls()) == 2


@pytest.mark.parametrize(
    "launcher",
    ["exit 1", "kill -9 $$", "exec <&-; exit 0", "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2"],
    ids=["fails", "dies", "reads nothing", "is noisy"],
)
def test_a_broken_launcher_is_never_noticed(tmp_path: Path, launcher: str) -> None:
    stage = Stage(tmp_path, launcher)
    events = [line("tool_execution_start", toolCallId="x", args={"c": "y" * 60_000})] * 3
    told = stage.play_lines([*events, line("session_shutdown", reason="quit")])
    assert told["answers"] == ["undefined"]


def test_a_launcher_that_hangs_does_not_keep_pi_from_leaving(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 'echo $$ >> "$0.pids"; exec sleep 600')
    try:
        # The player would run into its own time limit long before the launcher ends.
        told = stage.play_lines([line("ui_prompt_start"), line("session_shutdown", reason="quit")])
        assert told["answers"] == ["undefined"]
    finally:
        for pid in Path(f"{stage.launcher}.pids").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def test_a_missing_launcher_is_never_noticed(stage: Stage) -> None:
    stage.launcher.unlink()
    assert stage.play(RECORDED / "c-tools.ndjson")["answers"] == ["undefined"]


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "large"])
def test_what_waits_when_the_process_ends_is_still_posted(tmp_path: Path, size: int) -> None:
    slow = Stage(tmp_path, 'sleep 0.1; { printf "%s " "$@"; cat; echo; } >> "$0.calls"')
    content = [{"type": "text", "text": "x" * 60_000}] * (1 + size // 60_000)
    events = [line("tool_execution_end", toolCallId=str(n), result={"content": content}) for n in range(4)]
    slow.play_lines([*events, line("session_shutdown", reason="quit")], "exit")
    wait_for(lambda: len(slow.calls()) == 5, "the last events")
    assert [call["ev"].get("toolCallId") for call in slow.calls()] == ["0", "1", "2", "3", None]
