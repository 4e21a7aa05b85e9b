"""``kill -9`` at every step: each fault point, at each of its passings, in the real process.

What must hold afterwards is the same everywhere: nothing lost, nothing twice, and the next process goes
on by itself.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sessionpipe.outbox import SinkState
from sessionpipe.outboxfile import those_set_aside
from sessionpipe.protocol import rfc3339
from sessionpipe.spool import Spool
from tests.delivery.events import START, lines, record
from tests.e2e.bed import SESSION, Bed
from tests.e2e.forked import Forked
from tests.test_faults import points

CALLS = ("toolu_1", "toolu_2")
#: More passings than any of these runs has.
ENOUGH = 40


class Scene(NamedTuple):
    """What is there before, what runs and dies, what ends it, and what must hold then."""

    before: Callable[[Bed], Any]
    dies: tuple[str, ...]
    ends: tuple[str, ...]
    holds: Callable[[Bed, Any], None]


# --- a session is recorded and delivered --------------------------------------------------------


def a_turn(bed: Bed) -> None:
    bed.settings()
    now = int(time.time() * 1000)
    bed.transcript.parent.mkdir(parents=True)
    said = [
        {"type": "user", "message": {"role": "user", "content": "ask"}},
        {
            "type": "assistant",
            "message": {"id": "m", "model": "claude-x", "content": [{"type": "text", "text": "yes"}]},
        },
    ]
    rows = [
        {"uuid": str(n), "isSidechain": False, "timestamp": rfc3339(now), "sessionId": SESSION, **line}
        for n, line in enumerate(said)
    ]
    bed.transcript.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, call in enumerate(CALLS):
        bed.put("PostToolUse", now + number, tool_name="Bash", tool_input={}, tool_use_id=call)
    bed.put("Stop", now + 10, last_assistant_message="yes")


def each_once_everywhere(bed: Bed, _: Any) -> None:
    events = bed.events()
    assert Spool(bed.state.spool).names() == []
    assert Counter(e["data"]["call_id"] for e in events if e["type"] == "tool.ended") == Counter(CALLS)
    assert [e["data"]["turn"] for e in events if e["type"] == "turn.transcript"] == [1]
    assert [e["session"]["seq"] for e in events] == list(range(len(events)))
    sent = [e for e in events if e["type"] != "session.heartbeat"]
    assert [(e["id"], e["session"]["seq"]) for e in lines(bed.out)] == [
        (e["id"], e["session"]["seq"]) for e in sent
    ]


TURN = Scene(a_turn, ("flush",), ("flush",), each_once_everywhere)
LIFE = TURN._replace(dies=("worker",))


# --- old events go ------------------------------------------------------------------------------


def old_events(bed: Bed) -> None:
    bed.settings()
    now = int(time.time() * 1000)
    with bed.outbox() as outbox:
        record(outbox, session="old", at_ms=START, count=1100)
        record(outbox, session="new", at_ms=now, count=3)
        outbox.add_sink("notes", 0)
        outbox.change_sink("notes", lambda sink: sink.placed(1103))


def only_the_new_ones_are_there(bed: Bed, _: Any) -> None:
    assert {event["session"]["id"] for event in bed.events()} == {"new"}
    assert not bed.out.exists()


PRUNE = Scene(old_events, ("worker",), ("worker",), only_the_new_ones_are_there)


# --- the bound is reached -----------------------------------------------------------------------


def too_much_for_a_paused_sink(bed: Bed) -> None:
    bed.settings("paused = true\n", "[retention]\nmax_mb = 1\n")
    now = int(time.time() * 1000)
    with bed.outbox() as outbox:
        record(outbox, "tool.ended", {"output": "y" * 900}, at_ms=now, count=1500)
        outbox.add_sink("notes", 0)
        outbox.change_sink("notes", lambda sink: sink.placed(100))


def what_went_was_counted(bed: Bed, _: Any) -> None:
    with bed.outbox() as outbox:
        rows = outbox.read(0, 10_000, 1 << 40)
        sink = outbox.sink("notes")
        assert outbox.occupied() <= 1 << 20
    assert isinstance(sink, SinkState)
    assert [row.position for row in rows] == list(range(rows[0].position, 1501))
    # Of 1500 events the sink had 100: the first that is left is the last lost one's next.
    assert sink.lost == rows[0].position - 1 - 100
    assert "let go before it had them" in (bed.run("status"), bed.said())[1]


BOUND = Scene(too_much_for_a_paused_sink, ("worker",), ("worker",), what_went_was_counted)


# --- a session is forgotten ---------------------------------------------------------------------


def two_sessions(bed: Bed) -> None:
    bed.settings()
    with bed.outbox() as outbox:
        for _ in range(3):
            record(outbox, "tool.ended", {"output": "words to forget"}, session="one")
            record(outbox, "tool.ended", {"output": "words to keep"}, session="two")


def it_is_gone_and_every_sink_is_told_once(bed: Bed, _: Any) -> None:
    bed.finish("flush")
    kept = [(e["session"]["id"], e["session"]["seq"], e["type"]) for e in lines(bed.out)]
    assert kept == [
        *(("two", seq, "tool.ended") for seq in range(3)),
        ("one", 3, "session.forgotten"),
    ]
    stored = b"".join(path.read_bytes() for path in bed.state.root.rglob("*") if path.is_file())
    assert b"words to forget" not in stored
    assert b"words to keep" in stored


def forget_again(bed: Bed) -> None:
    """A person whose command died calls it again, and is told when it had got through."""
    if bed.run("forget", "claude-code:one") != 0:
        assert "no session is called" in bed.said()


FORGET = Scene(two_sessions, ("forget", "claude-code:one"), (), it_is_gone_and_every_sink_is_told_once)


# --- a damaged outbox is set aside --------------------------------------------------------------


def damaged(bed: Bed) -> dict[str, bytes]:
    bed.settings()
    with bed.outbox() as outbox:
        record(outbox, "tool.ended", {"output": "y" * 300}, session="one", count=60)
        outbox.add_sink("notes", 0)
    bed.put("PostToolUse", int(time.time() * 1000), tool_name="Bash", tool_input={}, tool_use_id="toolu_1")
    with bed.state.outbox.open("r+b") as file:
        file.seek(4 * 4096)
        file.write(os.urandom(4096))  # The root of the events: none can be reached from it.
    return {"damaged": bed.state.outbox.read_bytes()}


def it_was_set_aside_once_and_lost_nothing(bed: Bed, before: dict[str, bytes]) -> None:
    (aside,) = those_set_aside(bed.state.outbox)
    assert aside.read_bytes() == before["damaged"]
    left = {path.name for path in bed.state.root.glob("outbox.db*")} - {aside.name}
    assert left <= {"outbox.db", "outbox.db-wal", "outbox.db-shm", "outbox.db.reserve"}
    keys = [(e["session"]["id"], e["session"]["seq"]) for e in lines(bed.out)]
    assert keys[:60] == [("one", seq) for seq in range(60)]
    assert [id_ for id_, _ in keys[60:]] == [SESSION, SESSION]
    assert bed.run("status") == 0
    assert aside.name in bed.said()


SALVAGE = Scene(damaged, ("flush",), ("flush",), it_was_set_aside_once_and_lost_nothing)


#: Where each point is passed. One that is not here, or no longer in the source, fails a test below.
SCENES: dict[str, Scene] = {
    "intake.read": TURN,
    "intake.mapped": TURN,
    "intake.inserted": TURN,
    "intake.committed": TURN,
    "intake.unlinked": TURN,
    "transcript.read": TURN,
    "transcript.inserted": TURN,
    "courier.read": TURN,
    "courier.filtered": TURN,
    "courier.before_send": TURN,
    "courier.sent": TURN,
    "courier.committed": TURN,
    "file.written": TURN,
    "file.synced": TURN,
    "outbox.commit": TURN,
    "outbox.committed": TURN,
    "worker.leaving": LIFE,
    "prune.deleted": PRUNE,
    "prune.bounded": BOUND,
    "forget.erased": FORGET,
    "outbox.set_aside": SALVAGE,
    "salvage.read": SALVAGE,
    "salvage.built": SALVAGE,
    "salvage.ready": SALVAGE,
    "salvage.placed": SALVAGE,
}
#: Passed only where a disk is full: tests/e2e/test_full_disk.py.
ON_A_FULL_DISK = {"forget.erased_some"}
#: Passed by no scene: tests/test_backfill.py, tests/install/test_install.py and test_files.py have them.
ELSEWHERE = {"backfill.inserted", "install.written", "install.overwritten", "install.renamed"}


@pytest.mark.parametrize("point", SCENES)
def test_killed_at_each_passing_of_a_point_it_goes_on_as_if_nothing_had_been(
    tmp_path: Path, forked: Forked, point: str
) -> None:
    scene = SCENES[point]
    for passing in range(1, ENOUGH):
        bed = Bed(tmp_path / str(passing), forked)
        before = scene.before(bed)
        died = bed.run(*scene.dies, fault=f"{point}:{passing}")
        if died != -signal.SIGKILL:
            assert died == 0, bed.said()
            assert passing > 1, f"{point} was not passed at all"
            scene.holds(bed, before)
            return
        if scene.ends:
            bed.finish(*scene.ends)
        else:
            forget_again(bed)
        scene.holds(bed, before)
    raise AssertionError(f"{point} is passed {ENOUGH} times and more")


def test_no_point_is_left_out() -> None:
    assert set(SCENES) | ON_A_FULL_DISK | ELSEWHERE == set(points())
