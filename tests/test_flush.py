"""Flushing: by a live worker where there is one, by itself where there is none or it goes away."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import msgspec
import pytest

from sessionpipe import flush as module
from sessionpipe.flush import Goal, flush
from sessionpipe.liveness import Fifo, Lock
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.paths import State
from sessionpipe.spool import Spool

SESSION = "01a22870-8eab-7c10-a6bc-f818ba12474d"

CONFIG = """
[[sinks]]
name = "board"
kind = "http"
url = "http://127.0.0.1:9/"
tier = 0
"""


@dataclasses.dataclass
class Place:
    state: State
    config: Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A state directory with one event that the sink ``board`` does not have yet."""
    state, config = State(tmp_path / "state"), tmp_path / "config"
    state.root.mkdir()
    config.mkdir()
    (config / "config.toml").write_text(CONFIG)
    outbox = Outbox.open(state.outbox)
    outbox.add_sink("board", 0)
    outbox.close()
    place = Place(state, config)
    record(place)
    return place


def record(place: Place) -> None:
    outbox = Outbox.open(place.state.outbox)
    with outbox.transaction() as tx:
        session = tx.session("codex", SESSION, 1)
        tx.append(session, "turn.started", 5, 1, b"{}")
        tx.save(session)
    outbox.close()


def change(place: Place, **fields: object) -> None:
    def changed(sink: SinkState) -> SinkState:
        return msgspec.structs.replace(sink, **fields)

    outbox = Outbox.open(place.state.outbox)
    outbox.change_sink("board", changed)
    outbox.close()


class TestBesideALiveWorker:
    @pytest.fixture
    def held(self, place: Place) -> tuple[Lock, Fifo]:
        """The lock and the FIFO of a worker that does nothing."""
        lock, fifo = Lock(place.state), Fifo(place.state.fifo)
        lock.acquire()
        fifo.open()
        return lock, fifo

    def test_a_sink_whose_receiver_paused_it_is_not_waited_for(
        self, place: Place, held: tuple[Lock, Fifo]
    ) -> None:
        change(place, paused="gone (410)")
        assert flush(place.state, place.config, timeout_s=3600).left == [
            "sink board: 1 not delivered (gone (410))"
        ]
        assert held[1].drain() == b"f"

    def test_a_sink_that_failed_since_has_had_its_attempt(
        self, place: Place, held: tuple[Lock, Fifo], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # While flush waits, the worker makes its attempt.
        monkeypatch.setattr(
            module.time, "sleep", lambda _seconds: change(place, failures=1, last_error="refused")
        )
        left = flush(place.state, place.config, timeout_s=3600).left
        assert left == ["sink board: 1 not delivered (refused)"]

    def test_a_worker_that_goes_away_meanwhile_is_stood_in_for(
        self, place: Place, held: tuple[Lock, Fifo], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        went = threading.Event()

        def killed(_seconds: float) -> None:
            if not went.is_set():
                went.set()
                held[1].close()
                held[0].release()

        monkeypatch.setattr(module.time, "sleep", killed)
        (left,) = flush(place.state, place.config, timeout_s=3600).left
        assert went.is_set()
        # This one tried by itself, and says what came of it.
        assert left.startswith("sink board: 1 not delivered (")

    def test_what_hooks_leave_meanwhile_is_not_waited_for(
        self, place: Place, held: tuple[Lock, Fifo], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spool = Spool(place.state.spool)
        spool.prepare()
        (spool.new / "1.job").touch()
        worked: list[int] = []

        def works(_seconds: float) -> None:
            """The worker takes the job that waited; each time it looks another has come."""
            worked.append(1)
            spool.unlink(["1.job"])
            (spool.new / f"{len(worked) + 1}.job").touch()
            if len(worked) == 3:
                change(place, position=1)
                record(place)

        monkeypatch.setattr(module.time, "sleep", works)
        left, more = flush(place.state, place.config, timeout_s=3600)
        assert (left, more) == ([], True)
        assert len(worked) == 3

    def test_a_sink_that_was_given_its_first_batch_is_still_waited_for(
        self, place: Place, held: tuple[Lock, Fifo], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record(place)
        positions = iter([1, 2])
        monkeypatch.setattr(module.time, "sleep", lambda _seconds: change(place, position=next(positions)))
        assert flush(place.state, place.config, timeout_s=3600) == ([], False)
        assert list(positions) == []

    def test_a_transcript_is_waited_for_and_then_delivered(
        self, place: Place, held: tuple[Lock, Fifo], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outbox = Outbox.open(place.state.outbox)
        with outbox.transaction() as tx:
            session = tx.session("codex", SESSION, 1)
            tx.queue_read(session, {"path": "/x"}, 1, 1)
        change(place, position=1)

        def settled() -> None:
            with outbox.transaction() as tx:
                session = tx.session("codex", SESSION, 1)
                tx.append(session, "turn.transcript", 5, 1, b"{}")
                tx.save(session)
                tx.settle_read(session)

        steps = iter([settled, lambda: change(place, position=2)])
        monkeypatch.setattr(module.time, "sleep", lambda _seconds: next(steps)())
        assert flush(place.state, place.config, timeout_s=3600) == ([], False)
        assert list(steps) == []
        outbox.close()


def test_one_look_at_a_live_worker_counts_nothing(place: Place) -> None:
    """It is repeated many times a second, over an outbox of any size."""
    goal = Goal(place.state, place.config)
    outbox = Outbox.look(place.state.outbox)
    assert outbox is not None
    queries: list[str] = []
    outbox._db.set_trace_callback(queries.append)
    assert not goal.reached(outbox)
    assert queries and not [query for query in queries if "FROM events" in query]
    outbox.close()


def test_an_outbox_that_cannot_be_read_is_said(place: Place) -> None:
    assert Goal(place.state, place.config).left(None) == [
        "the outbox cannot be read just now; `sessionpipe status` says more"
    ]
