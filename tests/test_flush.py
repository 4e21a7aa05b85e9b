"""Flushing: by a live worker where there is one, by itself where there is none or it goes away."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import msgspec
import pytest

from sessionpipe import flush as module
from sessionpipe.flush import flush
from sessionpipe.liveness import Fifo, Lock
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.paths import State

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
    with outbox.transaction() as tx:
        session = tx.session("codex", "01a22870-8eab-7c10-a6bc-f818ba12474d", 1)
        tx.append(session, "turn.started", 5, 1, b"{}")
        tx.save(session)
    outbox.close()
    return Place(state, config)


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
