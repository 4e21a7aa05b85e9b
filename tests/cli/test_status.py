"""What is recorded, what waits, how each sink does; and that looking changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessionpipe import __version__
from sessionpipe.cli.status import sink_data, standing
from sessionpipe.config import SinkConfig
from sessionpipe.liveness import Lock
from sessionpipe.log import log
from sessionpipe.outbox import SinkState
from sessionpipe.paths import State, make_private, state_dir
from sessionpipe.places import NO_ROOM
from sessionpipe.protocol import rfc3339
from tests.cli.conftest import START as FIRST
from tests.sinkrow import put

FUTURE = 4_000_000_000_000
START = 1_790_000_000_000


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: modes and contents, the shared memory of a live database apart."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith("-shm")
    }


def report(run: Any) -> dict[str, Any]:
    done = run("status", "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_a_fresh_machine_has_empty_collections_and_stays_fresh(run: Any, tmp_path: Path) -> None:
    before = tree(tmp_path)
    got = report(run)
    assert {
        key: got[key] for key in ("version", "jobs", "events", "sessions", "harnesses", "sinks", "worker")
    } == {
        "version": __version__,
        "jobs": {"waiting": 0, "rejected": 0},
        "events": 0,
        "sessions": 0,
        "harnesses": [],
        "sinks": [],
        "worker": {"alive": False, "pid": None},
    }
    assert got["state_dir"] == str(state_dir())
    assert run("status").exit_code == 0
    assert tree(tmp_path) == before


@pytest.mark.parametrize("open_elsewhere", [False, True], ids=["at rest", "in use"])
def test_looking_changes_nothing(run: Any, recorder: Any, tmp_path: Path, open_elsewhere: bool) -> None:
    recorder.add("one", "session.started", {"source": "startup"})
    if not open_elsewhere:
        recorder.outbox.close()
    before = tree(tmp_path)
    assert report(run)["events"] == 1
    assert tree(tmp_path) == before


def test_it_counts_events_sessions_and_jobs(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started")
    recorder.add("one", "session.ended")
    recorder.add("two", "session.started", harness="codex")
    spool = recorder.state.spool
    for name in ("new/1.job", "new/2.job", "new/half.tmp", "rejected/0.json"):
        make_private((spool / name).parent)
        (spool / name).write_bytes(b"")
    got = report(run)
    assert (got["events"], got["sessions"]) == (3, 2)
    assert got["jobs"] == {"waiting": 2, "rejected": 1}


def test_a_worker_is_alive_while_it_holds_the_lock(run: Any, recorder: Any) -> None:
    lock = Lock(recorder.state)
    assert lock.acquire()
    assert report(run)["worker"] == {"alive": True, "pid": os.getpid()}
    lock.release()
    assert report(run)["worker"] == {"alive": False, "pid": None}


SINKS = """
[[sinks]]
name = "board"
kind = "http"
url = "https://board.example/in?key=hush"
tier = 2
token = "hush"

[[sinks]]
name = "notes"
kind = "file"
path = "/tmp/notes.ndjson"
paused = true

[[sinks]]
name = "new"
kind = "stdout"
"""


def test_a_sink_shows_how_far_it_is_and_why_it_waits(run: Any, recorder: Any, config_file: Path) -> None:
    config_file.write_text(SINKS)
    for _ in range(3):
        recorder.add("one", "session.started")
    board = recorder.outbox.add_sink("board", 1)
    put(
        recorder.outbox,
        msgspec.structs.replace(
            board,
            max_tier=1,
            failures=2,
            next_attempt_ms=FUTURE,
            since_ms=START,
            last_error="HTTP 503",
            sent=1,
            dropped=4,
            withheld=5,
        ),
    )
    recorder.outbox.add_sink("notes", 3)
    board_, notes, new = report(run)["sinks"]
    assert board_ == {
        "name": "board",
        "kind": "http",
        "target": "https://board.example/in",
        "tier": 2,
        "effective_tier": 1,
        "position": 1,
        "behind": 2,
        "paused": False,
        "reason": "HTTP 503",
        "since": rfc3339(START),
        "next_attempt": rfc3339(FUTURE),
        "sent": 1,
        "dropped": 4,
        "withheld": 5,
        "lost": 0,
    }
    assert (notes["paused"], notes["reason"], notes["behind"]) == (True, "paused by you", 0)
    assert (new["position"], new["behind"], new["reason"]) == (0, 3, None)


def test_a_wait_that_was_asked_for_says_its_reason_too(run: Any, recorder: Any, config_file: Path) -> None:
    config_file.write_text(SINKS)
    recorder.add("one", "session.started")
    row = msgspec.structs.replace(
        recorder.outbox.add_sink("board", 0), next_attempt_ms=FUTURE, last_error="BOARD_TOKEN is not set"
    )
    put(recorder.outbox, row)
    board = report(run)["sinks"][0]
    assert (board["reason"], board["next_attempt"]) == ("BOARD_TOKEN is not set", rfc3339(FUTURE))
    put(recorder.outbox, msgspec.structs.replace(row, next_attempt_ms=1))
    board = report(run)["sinks"][0]
    assert (board["reason"], board["next_attempt"]) == ("BOARD_TOKEN is not set", None)


def test_a_receivers_pause_says_its_reason(run: Any, recorder: Any, config_file: Path) -> None:
    config_file.write_text(SINKS)
    put(
        recorder.outbox,
        msgspec.structs.replace(
            recorder.outbox.add_sink("board", 0), paused="HTTP 401", last_error="x", failures=1
        ),
    )
    board = report(run)["sinks"][0]
    assert (board["paused"], board["reason"]) == (True, "HTTP 401")
    assert "paused: HTTP 401" in run("status").output


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "up to date"),
        ({"since_ms": START}, "up to date"),
        (
            {
                "failures": 3,
                "last_error": "HTTP 503",
                "since_ms": START,
                "next_attempt_ms": START + HOUR + 5_000,
            },
            "up to date; HTTP 503, for 1 h 0 min; next attempt in 5.0 s",
        ),
        (
            {
                "next_attempt_ms": START + HOUR - 1,
                "last_error": "X is not set",
                "since_ms": START + HOUR - 9_000,
            },
            "up to date; X is not set, for 9.0 s",
        ),
        (
            {"paused": "HTTP 401: no; `sessionpipe sinks resume b`", "since_ms": START},
            "up to date; paused 1 h ago: HTTP 401: no; `sessionpipe sinks resume b`",
        ),
        (
            {"dropped": 1, "withheld": 2},
            "up to date; 1 event given up; 2 events of a type its receiver does not take",
        ),
    ],
)
def test_each_state_of_a_sink_is_a_sentence(row: dict[str, Any], says: str) -> None:
    sink = SinkConfig(name="b", kind="http", url="https://b.example", tier=1)
    now = START + HOUR
    assert standing(sink_data(sink, SinkState(name="b", **row), 0, now), now) == says


def test_no_credential_is_shown(run: Any, recorder: Any, config_file: Path) -> None:
    config_file.write_text(SINKS)
    assert "hush" not in run("status", "--json").output + run("status").output


def test_a_config_that_does_not_parse_is_one_line_and_all_else_is_shown(
    run: Any, recorder: Any, config_file: Path
) -> None:
    config_file.write_text(SINKS + "tier = = 1\n")
    recorder.add("one", "session.started")
    recorder.outbox.add_sink("board", 0)
    got = report(run)
    assert len(got["problems"]) == 1
    assert f"{config_file} line 18" in got["problems"][0]
    assert got["events"] == 1
    (board,) = got["sinks"]
    assert (board["name"], board["kind"], board["behind"], board["paused"]) == ("board", None, 1, True)
    shown = run("status").output.splitlines()
    assert sum(f"{config_file} line 18" in text for text in shown) == 1


def test_an_outbox_that_is_none_is_said_and_all_else_is_shown(run: Any, config_file: Path) -> None:
    state = State(state_dir())
    make_private(state.root)
    state.outbox.write_bytes(b"not a database, and long enough to be seen as none" * 100)
    config_file.write_text(SINKS)
    got = report(run)
    assert "is damaged (it is no whole database)" in got["problems"][0]
    assert [sink["name"] for sink in got["sinks"]] == ["board", "notes", "new"]


def test_what_people_see_is_short_and_plain(run: Any, recorder: Any, config_file: Path) -> None:
    config_file.write_text(SINKS)
    recorder.add("one", "session.started")
    shown = run("status").output
    assert "recorded  1 event of 1 session\n" in shown
    assert "board  http    tier 2  1 event behind" in shown
    assert "1 event behind; `sessionpipe flush` and `worker --foreground` serve it\n" in shown
    assert "\x1b" not in shown


class TestBound:
    """What will go when the outbox reaches ``max_mb`` is said before it does."""

    @pytest.fixture
    def almost(self, recorder: Any, config_file: Path) -> Any:
        """An outbox almost all of which one paused sink still needs, and another does not."""
        for _ in range(60):
            recorder.add("one", "tool.ended", {"output": "y" * 16_000})
        recorder.outbox.add_sink("notes", 2)
        recorder.outbox.add_sink("board", 50)
        config_file.write_text("[retention]\nmax_mb = 1\n" + SINKS)
        return recorder

    def test_it_says_which_sink_how_many_and_since_when(self, run: Any, almost: Any) -> None:
        got = report(run)
        kept = got["retention"]
        assert (kept["days"], kept["max_mb"], kept["bytes"]) == (30, 1, almost.outbox.occupied())
        (risk,) = kept["at_risk"]
        assert risk == {
            "sink": "notes",
            "events": 58,
            "since": rfc3339(FIRST + 3000),
            "full": round(almost.outbox.occupied() / (1 << 20), 2),
        }
        assert got["problems"] == [
            f"notes lacks 58 events, the oldest of {risk['since']}, and the outbox is {risk['full']:.0%} full"
            " (max_mb): when it is full the oldest of them are let go"
        ]

    def test_with_room_or_without_a_bound_nothing_is_at_risk(
        self, run: Any, almost: Any, config_file: Path
    ) -> None:
        for bound in ("", "[retention]\nmax_mb = 2\n"):
            config_file.write_text(bound + SINKS)
            assert report(run)["retention"]["at_risk"] == []

    def test_what_was_let_go_is_said(self, run: Any, recorder: Any, config_file: Path) -> None:
        config_file.write_text(SINKS)
        put(recorder.outbox, msgspec.structs.replace(recorder.outbox.add_sink("board", 0), lost=7))
        assert report(run)["sinks"][0]["lost"] == 7
        assert "7 events let go before it had them (max_mb was reached)" in run("status").output


def test_what_keeps_the_worker_from_its_work_is_said(run: Any, recorder: Any) -> None:
    lock = Lock(recorder.state)
    assert lock.acquire()
    lock.say("intake: the disk is full\x1b[2J")
    assert report(run)["problems"] == ["the worker waits: intake: the disk is full\x1b[2J"]
    assert "\x1b" not in run("status").output
    lock.release()
    assert report(run)["problems"] == []


def test_jobs_that_nobody_works_at_are_told_with_the_last_error(run: Any, recorder: Any) -> None:
    make_private(recorder.state.spool)
    make_private(recorder.state.spool / "new")
    (recorder.state.spool / "new" / "1.job").write_bytes(b"")
    assert report(run)["problems"] == []
    log(recorder.state, "error", "the worker cannot work: why")
    (problem,) = report(run)["problems"]
    assert problem.startswith("no worker is at work, and jobs wait; the last one said: the worker cannot")


def test_a_damaged_outbox_that_was_set_aside_is_named(run: Any, recorder: Any) -> None:
    aside = recorder.state.root / "outbox.db.corrupt-20261130T001753Z"
    aside.touch()
    got = report(run)
    assert got["set_aside"] == [str(aside)]
    assert got["problems"] == [f"a damaged outbox was set aside as {aside}; `sessionpipe doctor` says more"]


@pytest.mark.parametrize("free", [0, NO_ROOM - 1, NO_ROOM])
def test_a_full_disk_is_said(run: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr("sessionpipe.places.room", lambda _root: free)
    assert any("the disk is full" in problem for problem in report(run)["problems"]) == (free < NO_ROOM)
