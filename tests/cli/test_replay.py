"""``replay``: what a sink has had goes to it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from sessionpipe.cli.sink_place import find
from sessionpipe.config import put_sink
from sessionpipe.outbox import SinkState
from sessionpipe.paths import config_dir
from tests.cli.conftest import START, Recorder

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def roused(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """No worker is started; each time one would have been is noted."""
    times: list[bool] = []
    monkeypatch.setattr("sessionpipe.cli.rouse.rouse", lambda _state: times.append(True))
    return times


@pytest.fixture
def log(run: Run, recorder: Recorder, tmp_path: Path) -> Callable[[], SinkState]:
    """A file sink at tier 0 that has had four of six events, one of which is above its tier."""
    for type_ in ("turn.started", "tool.ended", "turn.ended", "turn.started", "turn.ended", "turn.started"):
        recorder.add("s", type_)
    assert run("sinks", "add", f"file:{tmp_path}/log").exit_code == 0
    had = {"position": 4, "thinning": {"tools": "main"}, "batch_end": 5, "last_id": "x", "sent": 3}
    recorder.outbox.change_sink("log", lambda row: msgspec.structs.replace(row, **had))

    def row() -> SinkState:
        found = recorder.outbox.sink("log")
        assert found is not None
        return found

    return row


def test_from_the_start_unless_said(
    run: Run, log: Callable[[], SinkState], roused: list[bool], tmp_path: Path
) -> None:
    series = log().series
    roused.clear()
    done = run("replay", "log")
    assert done.exit_code == 0, done.output
    assert "5 recorded events go to log, 3 of them again, from " in done.output
    assert f"written to {tmp_path}/log once more" in done.output
    row = log()
    assert (row.position, row.thinning, row.batch_end, row.last_id, row.sent) == (0, {}, 0, "x", 3)
    assert row.series != series
    assert roused == [True]


def test_behind_a_position(run: Run, log: Callable[[], SinkState]) -> None:
    assert "3 recorded events go to log, 1 of them again" in run("replay", "log", "--from", "3").output
    assert log().position == 3


def test_from_some_time_ago(run: Run, log: Callable[[], SinkState], monkeypatch: pytest.MonkeyPatch) -> None:
    # The events are a second apart; the third is of two minutes ago.
    monkeypatch.setattr("sessionpipe.cli.replay.now_ms", lambda: START + 3_000 + 120_000)
    assert run("replay", "log", "--from", "2m").exit_code == 0
    assert log().position == 2


def test_ahead_of_where_it_is_nothing_is_skipped(run: Run, log: Callable[[], SinkState]) -> None:
    before = log()
    refused = run("replay", "log", "--from", "5")
    assert refused.exit_code == 1 and refused.stderr.count("\n") == 1
    assert "position 4" in refused.stderr and "--from now" in refused.stderr
    assert log() == before


@pytest.mark.parametrize("start", ["-1", "yesterday", "1.5", "2w", "", "٣"])
def test_what_is_no_place_is_a_usage_error(run: Run, log: Callable[[], SinkState], start: str) -> None:
    before = log()
    assert run("replay", "log", "--from", start).exit_code == 2
    assert log() == before


def test_a_sink_nobody_knows_is_named_with_those_there_are(run: Run, log: Callable[[], SinkState]) -> None:
    refused = run("replay", "nobody")
    assert refused.exit_code == 1 and "no sink nobody; there is: log" in refused.stderr


def test_a_paused_sink_gets_it_once_it_goes_on(
    run: Run, log: Callable[[], SinkState], recorder: Recorder, roused: list[bool]
) -> None:
    put_sink(config_dir(), msgspec.structs.replace(find("log"), paused=True))
    roused.clear()
    assert "you paused it; `sessionpipe sinks resume log`" in run("replay", "log", "--from", "3").output
    assert roused == []
    put_sink(config_dir(), msgspec.structs.replace(find("log"), paused=False))
    recorder.outbox.change_sink("log", lambda row: msgspec.structs.replace(row, paused="HTTP 401"))
    assert "once it is no longer paused (HTTP 401)" in run("replay", "log").output
    assert log().paused == "HTTP 401"


def test_with_nothing_recorded_there_is_nothing_to_say(run: Run, recorder: Recorder) -> None:
    run("sinks", "add", "stdout")
    assert "nothing of what is kept goes to stdout" in run("replay", "stdout").output


def test_a_receiver_that_was_not_asked_yet_may_take_less(run: Run, recorder: Recorder) -> None:
    recorder.add("s", "session.backfill")
    url = "http://127.0.0.1:9"
    run("sinks", "add", url, "--name", "board")
    recorder.outbox.change_sink("board", lambda row: msgspec.structs.replace(row, position=1))
    output = run("replay", "board").output
    assert "at most 1 recorded event goes to board" in output
    assert "ignores those it has" in output
