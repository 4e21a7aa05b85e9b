"""The worker's loop, leaving and its parts, in this process; tests/e2e/test_worker.py has the processes."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sessionpipe import parts, worker
from sessionpipe.clock import now_ms
from sessionpipe.intake import Intake
from sessionpipe.liveness import Fifo, Lock, send, worker_alive
from sessionpipe.outbox import Outbox, OutboxError, SinkState
from sessionpipe.parts import Part, Trouble
from sessionpipe.paths import State, make_private
from sessionpipe.spool import Spool
from sessionpipe.worker import Worker
from tests.e2e.machine import wait_for
from tests.plugin import written
from tests.sinks.test_plugins import packages as packages

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


class Bench:
    """A state directory, and workers in threads of this process instead of processes."""

    def __init__(self, root: Path) -> None:
        self.state = State(root / "state")
        self.state.root.mkdir()
        self.config = root / "config"
        self.spool = Spool(self.state.spool)
        self.spool.prepare()
        self.put_count = 0
        self.threads: list[threading.Thread] = []

    def put(self) -> None:
        self.put_count += 1
        name = f"{self.put_count:020d}.job"
        body = (
            b"v=1\0harness=claude-code\0event=UserPromptSubmit\0at_ms=%d\0cwd=/nowhere\0\0" % now_ms()
            + json.dumps(
                {
                    "session_id": SESSION,
                    "transcript_path": f"/nowhere/{SESSION}.jsonl",
                    "cwd": "/nowhere",
                    "hook_event_name": "UserPromptSubmit",
                    "prompt": "x",
                }
            ).encode()
        )
        (self.spool.tmp / name).write_bytes(body)
        (self.spool.tmp / name).rename(self.spool.new / name)

    def hook(self) -> None:
        """What a hook does: a job, then a byte to whoever reads, else a worker."""
        self.put()
        if not send(self.state.fifo, b"j"):
            self.start()

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=worker.run, args=(self.state, self.config))
        self.threads.append(thread)
        thread.start()
        return thread

    def log(self) -> str:
        return self.state.log.read_text() if self.state.log.exists() else ""

    def prompts(self) -> int:
        outbox = Outbox.open(self.state.outbox)
        try:
            return sum(row.type == "turn.started" for row in outbox.read(0, 10_000))
        finally:
            outbox.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(worker, "LINGER_S", 0.0)
    # This process was started by no hook.
    monkeypatch.setattr(worker, "inherited_fifo", lambda _state: None)
    bench = Bench(tmp_path)
    yield bench
    for thread in bench.threads:
        thread.join(30)
        assert not thread.is_alive()


def serving(bench: Bench, **how: Any) -> tuple[Worker, threading.Thread, list[str]]:
    """A worker at work in a thread, and what its ``serve`` returned."""
    lock, fifo = Lock(bench.state), Fifo(bench.state.fifo)
    assert lock.acquire()
    fifo.open()
    one = Worker(bench.state, bench.config, fifo=fifo, lock=lock)
    ended: list[str] = []

    def work() -> None:
        try:
            ended.append(one.serve(**how))
        finally:
            fifo.close()
            lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    bench.threads.append(thread)
    return one, thread, ended


def stop(one: Worker, thread: threading.Thread) -> None:
    one._stop.set()
    one.fifo.poke()
    thread.join(30)


class TestLeaving:
    def test_whatever_the_interleaving_no_job_is_left_and_no_worker(self, bench: Bench) -> None:
        """Workers that leave at once, and hooks that come as they do."""

        def hooks() -> None:
            for _ in range(60):
                bench.hook()

        bench.hook()
        hooks()
        for thread in list(bench.threads):
            thread.join(30)
        wait_for(lambda: not any(thread.is_alive() for thread in bench.threads), "the workers to leave")
        assert bench.spool.names() == []
        assert worker_alive(bench.state) == (False, None)
        assert not send(bench.state.fifo, b"w")
        assert bench.prompts() == 61

    def test_a_job_that_comes_between_the_last_look_and_the_closed_fifo_is_seen(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        close = Fifo.close
        late = iter([bench.put, bench.put])

        def closing(fifo: Fifo) -> None:
            # The hook finds a reader still and goes away satisfied.
            next(late, lambda: None)()
            close(fifo)

        monkeypatch.setattr(Fifo, "close", closing)
        bench.start().join(30)
        assert bench.spool.names() == []
        assert bench.prompts() == 2

    def test_one_that_lost_the_lock_looks_again_for_who_took_it_for_a_worker(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        holder = Lock(bench.state)
        holder.acquire()
        waiting = worker.waiting

        def look(*args: Any, **kwargs: Any) -> bool:
            # Between the two tries a hook comes, and the holder, which has looked already, leaves.
            if bench.put_count == 0:
                bench.put()
                holder.release()
            return waiting(*args, **kwargs)

        monkeypatch.setattr(worker, "waiting", look)
        bench.start().join(30)
        assert bench.spool.names() == []


class TestTrouble:
    def test_what_fails_is_waited_out_however_many_hooks_come(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[int] = []

        def full(_self: Intake, _go_on: Callable[[], bool]) -> int:
            tried.append(1)
            raise OSError(28, "No space left on device")

        rounds: list[float] = []
        sleep = Worker._sleep

        def slept(self: Worker, seconds: float) -> bytes:
            rounds.append(seconds)
            return sleep(self, seconds)

        monkeypatch.setattr(parts, "TROUBLE_S", (3600.0,))
        monkeypatch.setattr(Intake, "run", full)
        monkeypatch.setattr(Worker, "_sleep", slept)
        one, thread, ended = serving(bench)
        wait_for(lambda: tried, "the first try")
        for _ in range(5):
            before = len(rounds)
            bench.hook()
            # It wakes, sees that it is too soon, and sleeps on.
            wait_for(lambda before=before: len(rounds) > before, "a round")
        stop(one, thread)
        assert len(tried) == 1
        assert min(rounds) > 0
        assert ended == ["stopped"]
        assert bench.log().count("No space left") == 1

    def test_a_sink_that_cannot_be_begun_does_not_end_the_worker(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.config.mkdir()
        (bench.config / "config.toml").write_text(
            f'[[sinks]]\nname = "f"\nkind = "file"\npath = "{bench.config}/f"\ntier = 0\n'
        )
        fails = iter([sqlite3.OperationalError("database is locked")])
        add_sink = Outbox.add_sink

        def locked_once(self: Outbox, *args: Any) -> Any:
            for error in fails:
                raise error
            return add_sink(self, *args)

        monkeypatch.setattr(parts, "TROUBLE_S", (0.01,))
        monkeypatch.setattr(Outbox, "add_sink", locked_once)
        bench.put()
        one, thread, _ended = serving(bench, forever=True)
        wait_for((bench.config / "f").exists, "the sink")
        stop(one, thread)
        assert "database is locked" in bench.log()

    def test_an_outbox_that_cannot_be_opened_is_tried_again_by_the_same_worker(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker, "TROUBLE_S", (0.01,) * 5)
        monkeypatch.setattr(parts, "TROUBLE_S", (0.01,) * 5)
        bench.state.outbox.mkdir()
        bench.put()
        with pytest.raises(OutboxError, match="is a folder"):
            worker.run(bench.state, bench.config)
        assert bench.log().count("is a folder") == 1
        assert not send(bench.state.fifo, b"w")
        assert len(bench.spool.names()) == 1
        bench.state.outbox.rmdir()
        bench.start().join(30)
        assert bench.prompts() == 1

    def test_an_outbox_that_was_moved_away_is_not_written_to_any_more(self, bench: Bench) -> None:
        bench.put()
        _one, thread, ended = serving(bench, forever=True)
        wait_for(bench.spool.empty, "the first job")
        bench.state.outbox.rename(bench.state.root / "away")
        bench.hook()
        thread.join(30)
        assert ended == ["moved"]
        assert len(bench.spool.names()) == 1
        bench.start().join(30)
        assert bench.prompts() == 1

    def test_a_fifo_that_was_removed_is_made_again(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker, "_LONGEST_SLEEP_S", 0.02)
        one, thread, _ended = serving(bench, forever=True)
        wait_for(lambda: send(bench.state.fifo, b"w"), "a worker")
        bench.state.fifo.unlink()
        wait_for(lambda: send(bench.state.fifo, b"w"), "it to listen again")
        stop(one, thread)

    @pytest.mark.parametrize(("last_s", "left"), [(0.0, 4), (3600.0, 0)])
    def test_a_signal_ends_it_between_two_batches_and_what_is_left_gets_a_moment(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, last_s: float, left: int
    ) -> None:
        monkeypatch.setattr(worker, "_LAST_S", last_s)
        monkeypatch.setattr("sessionpipe.intake.BATCH_JOBS", 1)
        for _ in range(5):
            bench.put()
        take = Intake._take

        def signalled(intake: Intake) -> int:
            one._stop.set()
            return take(intake)

        monkeypatch.setattr(Intake, "_take", signalled)
        one, thread, ended = serving(bench)
        thread.join(30)
        assert ended == ["stopped"]
        assert len(bench.spool.names()) == left

    def test_jobs_without_end_do_not_keep_the_loop_from_its_other_work(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker, "SLICE_S", 0.0)
        for _ in range(3):
            bench.put()
        looked: list[int] = []
        reconfigure = Worker._reconfigure

        def counted(self: Worker, outbox: Outbox) -> None:
            looked.append(len(bench.spool.names()))
            if len(looked) == 3:
                monkeypatch.setattr(worker, "SLICE_S", 60.0)
            reconfigure(self, outbox)

        monkeypatch.setattr(Worker, "_reconfigure", counted)
        bench.start().join(30)
        assert looked[:3] == [3, 3, 3]
        assert bench.prompts() == 3


ENDLESS = """
import time
from pathlib import Path
from sessionpipe.sinks.base import Acked, Limits, Sink

class sink(Sink):
    def __init__(self, setup):
        self.ends = Path(setup.config.url)
    def limits(self):
        return Limits(10, 100_000)
    def send(self, batch):
        while not self.ends.exists():
            time.sleep(0.01)
        return Acked()
"""


class TestHanging:
    def test_a_sink_that_does_not_come_back_is_told_of_until_it_does(
        self, bench: Bench, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parts, "HANGS_S", 0.05)
        monkeypatch.setattr(worker, "_LONGEST_SLEEP_S", 0.05)
        written(packages, "endless", ENDLESS)
        make_private(bench.config)
        (bench.config / "config.toml").write_text(
            f'[[sinks]]\nname = "e"\nkind = "endless"\nurl = "{tmp_path}/ends"\ntier = 1\n'
        )
        bench.put()
        one, thread, _ = serving(bench)

        def row() -> SinkState:
            outbox = Outbox.open(bench.state.outbox)
            try:
                return outbox.sink("e") or SinkState(name="e")
            finally:
                outbox.close()

        wait_for(lambda: row().last_error == worker.HANGS and row().since_ms, "the reason")
        assert (row().sent, row().failures, row().paused) == (0, 0, None)
        (tmp_path / "ends").touch()
        wait_for(lambda: row().sent, "the batch")
        assert (row().last_error, row().since_ms) == (None, 0)
        assert bench.log().count(worker.HANGS) == 1
        stop(one, thread)


class TestParts:
    def test_one_that_cannot_open_the_outbox_at_first_goes_to_work_later(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fails = iter([OutboxError("locked")])
        whole = Outbox.open

        def locked_once(path: Path, **how: Any) -> Outbox:
            for error in fails:
                raise error
            return whole(path, **how)

        stepped = threading.Event()

        class One(Part):
            def step(self, outbox: Outbox, now_ms: int, force: bool) -> tuple[bool, int | None]:
                stepped.set()
                return False, None

        monkeypatch.setattr(parts, "TROUBLE_S", (0.01,))
        monkeypatch.setattr(Outbox, "open", staticmethod(locked_once))
        lock = Lock(bench.state)
        host = Worker(bench.state, bench.config, fifo=Fifo(bench.state.fifo), lock=lock)
        part = One("one", host)
        part.start()
        assert stepped.wait(30)
        part.stop()
        part.join(30)
        assert "one: locked" in bench.log()

    def test_the_loop_is_woken_by_the_last_of_them_that_rests(self, bench: Bench) -> None:
        """Else every hook has it look at everything as many times as there are sinks."""

        class Scripted:
            idle = True

            def state(self) -> tuple[bool, int | None]:
                return self.idle, None

        fifo = Fifo(bench.state.fifo)
        fifo.open()
        one = Worker(bench.state, bench.config, fifo=fifo, lock=Lock(bench.state))
        board, wall = Scripted(), Scripted()
        one._reader, one._couriers = cast(Any, Scripted()), cast(Any, {"board": board, "wall": wall})
        wall.idle = False
        one.rested()
        assert fifo.drain() == b""
        wall.idle = True
        one.rested()
        assert fifo.drain() == b"i"
        fifo.close()

    def test_the_same_trouble_is_told_once_for_each_wait(self) -> None:
        trouble = Trouble()
        lines = [trouble.add(OSError("full"))[1] for _ in range(20)]
        assert len([line for line in lines if line]) == len(parts.TROUBLE_S)
        assert trouble.add(OSError("other"))[1]
        trouble.over()
        assert trouble.add(OSError("other")) == (parts.TROUBLE_S[0], "OSError('other'); tried again in 1 s")


def test_the_first_jobs_of_a_worker_are_of_this_machine_too(bench: Bench) -> None:
    bench.config.mkdir()
    (bench.config / "config.toml").write_text('[machine]\nname = "studio"\n')
    bench.hook()
    wait_for(bench.prompts, "the job")
    outbox = Outbox.open(bench.state.outbox)
    events = [json.loads(row.body) for row in outbox.read(0, 100)]
    outbox.close()
    assert [event["session"].get("machine") for event in events] == ["studio"] * len(events)


def test_of_two_workers_at_once_each_job_is_recorded_once(bench: Bench) -> None:
    """The lock file was removed under the first, so that a second one got the lock too."""
    for _ in range(200):
        bench.put()
    first = Lock(bench.state)
    first.acquire()
    # The first goes on as one that holds a lock nobody else respects.
    os.unlink(bench.state.lock)  # noqa: PTH108
    outbox = Outbox.open(bench.state.outbox)
    try:
        other = Intake(outbox, bench.spool, machine=lambda: "m", log=lambda _level, _message: None)
        bench.start()
        other.run()
        other.finish()
    finally:
        outbox.close()
    for thread in bench.threads:
        thread.join(30)
    assert bench.spool.names() == []
    assert bench.prompts() == 200
    first.release()


def test_old_marks_of_sessions_that_hooks_told_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "UPKEEP_AFTER_S", 0.0)
    bench.state.live.mkdir()
    for name, age in (("pi-old", 30 * 86_400), ("pi-new", 60)):
        (bench.state.live / name).write_text("{}")
        os.utime(bench.state.live / name, (time.time() - age,) * 2)
    bench.start().join(30)
    assert [path.name for path in bench.state.live.iterdir()] == ["pi-new"]


def test_a_worker_that_only_waits_does_nothing_but_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UPKEEP_AFTER_S", 0.0)
    rounds: list[float] = []
    sleep = Worker._sleep

    def slept(self: Worker, seconds: float) -> bytes:
        rounds.append(seconds)
        return sleep(self, seconds)

    monkeypatch.setattr(Worker, "_sleep", slept)
    bench.put()
    one, thread, _ended = serving(bench, forever=True)
    wait_for(lambda: one._upkeep is not None and one._upkeep.is_alive(), "its upkeep")

    def rests() -> bool:
        return bool(rounds) and rounds[-1] == worker._LONGEST_SLEEP_S and one._standing() == (False, False)

    wait_for(rests, "it to rest")
    before = len(rounds)
    for number in range(1, 4):
        send(bench.state.fifo, b"i")  # Whatever it is woken for, it goes to sleep again.
        wait_for(lambda number=number: len(rounds) >= before + number, "a round")
    wait_for(rests, "it to rest again")
    stop(one, thread)
    assert len(rounds) <= before + 4
