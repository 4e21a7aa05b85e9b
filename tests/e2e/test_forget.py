"""Forgetting, end to end: recorded, delivered, erased, and the sink told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli.playback import Hook, Stage, load
from sessionpipe.paths import data_dir
from sessionpipe.protocol import short_id

SCENARIO = data_dir("conformance") / "harness" / "claude-code" / "subagent"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        (stage.config / "config.toml").write_text(
            f'[[sinks]]\nname = "file"\nkind = "file"\npath = "{stage.root}/out.ndjson"\ntier = 3\n'
        )
        yield stage


def sessionpipe(stage: Stage, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sessionpipe", *arguments],
        env=stage.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def delivered(stage: Stage, session: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (stage.root / "out.ndjson").read_text("utf-8").splitlines()]
    return [event for event in events if event["session"]["id"] == session]


def session_of(hook: Hook) -> str:
    return str(json.loads(hook.payload)["session_id"])


@pytest.mark.parametrize("worker", ["alive", "at rest"])
def test_a_session_is_erased_and_the_sink_is_told_last(stage: Stage, worker: str) -> None:
    recording = load(SCENARIO, stage.home, {"Use a subagent": "words to be forgotten"})
    stage.play("claude-code", recording)
    stage.flush()
    session = session_of(recording.hooks[0])
    before = delivered(stage, session)
    assert any("words to be forgotten" in json.dumps(event) for event in before)
    if worker == "at rest":
        stage.stop_worker()

    said = sessionpipe(stage, "forget", short_id("claude-code", session))

    assert "words to be forgotten" not in files(stage.state.root)
    assert said.startswith(f"erased {short_id('claude-code', session)}")
    stage.flush()
    *same, last = delivered(stage, session)
    assert same == before
    assert (last["type"], last["session"]["seq"]) == ("session.forgotten", before[-1]["session"]["seq"] + 1)
    assert last["session"].keys() == {"id", "seq"}


def test_a_job_that_waited_is_forgotten_too_and_a_later_one_is_not(stage: Stage) -> None:
    recording = load(SCENARIO, stage.home, {})
    first, prompt, *_, later = (h for h in recording.hooks if session_of(h) == session_of(recording.hooks[0]))
    session = session_of(first)
    stage.fire("claude-code", first)
    stage.flush()
    stage.stop_worker()
    stage.environment["SESSIONPIPE_NO_WORKER"] = "1"
    stage.fire("claude-code", prompt)
    sessionpipe(stage, "forget", f"claude-code:{session}")
    stage.fire("claude-code", later)
    stage.flush()
    types = [event["type"] for event in delivered(stage, session)]
    assert types == ["session.started", "session.forgotten", "session.started", "session.ended"]


def files(root: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in root.rglob("*") if path.is_file())
