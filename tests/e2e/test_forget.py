"""Forgetting, end to end: recorded, delivered, erased, and the sink told."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli.forget import body
from sessionpipe.cli.playback import Hook, Stage, load
from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Courier
from sessionpipe.outbox import Outbox
from sessionpipe.paths import data_dir
from sessionpipe.protocol import short_id
from tests.delivery.events import START, opened, record
from tests.receiver import Answer, Receiver

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


class TestInFlight:
    """A batch with the session in it at the moment the person has it forgotten, at an HTTP receiver."""

    @pytest.fixture
    def outbox(self, tmp_path: Path) -> Iterator[Outbox]:
        with opened(tmp_path / "outbox.db") as outbox:
            record(outbox, session="one", count=3)
            record(outbox, session="two", count=2)
            outbox.add_sink("board", 0)
            yield outbox

    def courier(self, outbox: Outbox, receiver: Receiver) -> Courier:
        sink = SinkConfig(name="board", kind="http", url=receiver.url, tier=3)
        return Courier(sink, outbox, stop=threading.Event(), log=lambda _level, _message: None)

    def forget(self, outbox: Outbox) -> None:
        outbox.forget("claude-code", "one", START, 1, body("claude-code", "one", START))

    def test_what_is_on_the_wire_is_followed_by_the_event_that_says_so(self, outbox: Outbox) -> None:
        def meanwhile(handler: BaseHTTPRequestHandler) -> None:
            with opened(outbox.path) as other:
                self.forget(other)
            text = json.dumps({"accepted": 5, "duplicates": 0, "rejected": []}).encode()
            handler.send_response(202)
            handler.send_header("content-length", str(len(text)))
            handler.end_headers()
            handler.wfile.write(text)

        with Receiver(Answer(raw=meanwhile)) as receiver:
            courier = self.courier(outbox, receiver)
            while courier.step(START).progress:
                continue
            courier.close()
            first, *later = [request.events for request in receiver.requests]
        assert [event["session"]["id"] for event in first] == ["one"] * 3 + ["two"] * 2
        assert [(e["type"], e["session"]["id"]) for batch in later for e in batch] == [
            ("session.forgotten", "one")
        ]

    def test_what_has_to_be_sent_again_is_not(self, outbox: Outbox) -> None:
        with Receiver(Answer(500)) as receiver:
            courier = self.courier(outbox, receiver)
            courier.step(START)
            self.forget(outbox)
            while courier.step(START, force=True).progress:
                continue
            courier.close()
            _, *later = [request.events for request in receiver.requests]
        kept = [(e["session"]["id"], e["type"]) for batch in later for e in batch]
        assert kept == [("two", "turn.started")] * 2 + [("one", "session.forgotten")]

    def test_what_was_packed_already_is_packed_anew(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forgotten_meanwhile(point: str) -> None:
            if point == "courier.filtered" and outbox.position_of("claude-code", "one", 0):
                self.forget(outbox)

        monkeypatch.setattr("sessionpipe.delivery.courier.faults.point", forgotten_meanwhile)
        with Receiver() as receiver:
            courier = self.courier(outbox, receiver)
            while courier.step(START).progress:
                continue
            courier.close()
            events = receiver.events
        assert [event["session"]["id"] for event in events] == ["two", "two", "one"]
        assert events[-1]["type"] == "session.forgotten"


def files(root: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in root.rglob("*") if path.is_file())
