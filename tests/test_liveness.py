"""The lock one worker holds and the FIFO it listens on."""

from __future__ import annotations

import fcntl
import os
import select
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sessionpipe.liveness import Fifo, Lock, send, worker_alive, worker_leaves, worker_trouble
from sessionpipe.paths import State


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.root.mkdir()
    return state


class TestLock:
    def test_one_holder_at_a_time(self, state: State) -> None:
        first, second = Lock(state), Lock(state)
        assert first.acquire()
        assert not second.acquire()
        first.release()
        assert second.acquire()
        second.release()

    def test_the_holder_is_named_and_nothing_is_created_to_find_out(self, state: State) -> None:
        assert worker_alive(state) == (False, None)
        assert not state.lock.exists()
        lock = Lock(state)
        lock.acquire()
        assert worker_alive(state) == (True, os.getpid())
        lock.release()
        assert worker_alive(state) == (False, None)

    @pytest.mark.parametrize("trouble", ["", "the disk is full", "leaving"])
    def test_a_holder_that_leaves_says_so_and_it_is_no_trouble(self, state: State, trouble: str) -> None:
        lock = Lock(state)
        lock.acquire()
        lock.say(trouble)
        assert (worker_leaves(state), worker_trouble(state)) == (False, trouble or None)
        lock.say("", leaving=True)
        assert (worker_leaves(state), worker_trouble(state)) == (True, None)
        lock.release()
        assert not worker_leaves(state)

    def test_a_killed_holder_holds_nothing(self, state: State) -> None:
        script = (
            "import os, signal, sys\nfrom pathlib import Path\nfrom sessionpipe.liveness import Lock\n"
            "from sessionpipe.paths import State\nassert Lock(State(Path(sys.argv[1]))).acquire()\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", script, str(state.root)], check=False)
        assert done.returncode == -9
        assert worker_alive(state) == (False, None)

    def test_a_holder_notices_that_its_file_was_removed(self, state: State) -> None:
        lock = Lock(state)
        lock.acquire()
        assert lock.still_there()
        state.lock.unlink()
        assert not lock.still_there()
        state.lock.touch()
        assert not lock.still_there()
        lock.release()

    def test_somebody_who_looks_whether_a_worker_lives_is_not_taken_for_one(
        self, state: State, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state.lock.touch()
        looking = os.open(state.lock, os.O_RDONLY)
        fcntl.flock(looking, fcntl.LOCK_SH)
        # He is done when the lock is tried a second time.
        monkeypatch.setattr("sessionpipe.liveness.time.sleep", lambda _seconds: os.close(looking))
        lock = Lock(state)
        assert lock.acquire()
        lock.release()

    def test_no_room_for_its_process_id_does_not_keep_a_worker_from_working(
        self, state: State, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_args: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("sessionpipe.liveness.os.pwrite", full)
        lock = Lock(state)
        assert lock.acquire()
        assert worker_alive(state)[0]
        lock.release()

    def test_a_link_planted_in_its_place_is_put_aside_and_not_followed(
        self, state: State, tmp_path: Path
    ) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        state.lock.symlink_to(victim)
        assert worker_alive(state) == (False, None)
        lock = Lock(state)
        assert lock.acquire()
        assert worker_alive(state) == (True, os.getpid())
        lock.release()
        assert victim.read_text() == "precious"

    def test_what_keeps_the_holder_from_its_work_can_be_read_while_it_holds(self, state: State) -> None:
        lock = Lock(state)
        assert lock.acquire()
        lock.say("the disk is full\nand more")
        assert (worker_alive(state), worker_trouble(state)) == (
            (True, os.getpid()),
            "the disk is full and more",
        )
        lock.say("")
        assert worker_trouble(state) is None
        lock.say("full again")
        lock.release()
        assert worker_trouble(state) is None


class TestFifo:
    def test_a_byte_reaches_the_listener(self, state: State) -> None:
        fifo = Fifo(state.fifo)
        fifo.open()
        assert send(state.fifo, b"w")
        assert (fifo.drain(), fifo.drain()) == (b"w", b"")
        fifo.close()

    def test_nobody_listens(self, state: State) -> None:
        assert not send(state.fifo, b"w")

    def test_after_closing_a_writer_finds_no_reader(self, state: State) -> None:
        fifo = Fifo(state.fifo)
        fifo.open()
        fifo.close()
        assert not send(state.fifo, b"w")

    def test_it_does_not_read_as_ready_when_writers_come_and_go(self, state: State) -> None:
        fifo = Fifo(state.fifo)
        fifo.open()
        send(state.fifo, b"w")
        fifo.drain()
        assert select.select([fifo.fileno()], [], [], 0)[0] == []
        fifo.close()

    def test_a_regular_file_in_its_place_is_no_listener(self, state: State) -> None:
        state.fifo.write_bytes(b"")
        assert not send(state.fifo, b"w")
        assert state.fifo.read_bytes() == b""

    @pytest.mark.parametrize("kind", ["file", "link", "folder", "socket"])
    def test_whatever_has_its_name_gives_way_to_it(self, state: State, tmp_path: Path, kind: str) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        {
            "file": lambda: state.fifo.write_bytes(b"jj"),
            "link": lambda: state.fifo.symlink_to(victim),
            "folder": state.fifo.mkdir,
            "socket": lambda: os.mknod(state.fifo, 0o600 | stat.S_IFSOCK),
        }[kind]()
        fifo = Fifo(state.fifo)
        fifo.open()
        assert send(state.fifo, b"w")
        assert fifo.drain() == b"w"
        assert victim.read_text() == "precious"
        fifo.close()

    def test_what_is_in_a_folder_in_its_place_is_kept(self, state: State) -> None:
        state.fifo.mkdir()
        (state.fifo / "somebody's").touch()
        fifo = Fifo(state.fifo)
        fifo.open()
        fifo.close()
        (aside,) = state.root.glob("worker.fifo.aside-*")
        assert [path.name for path in aside.iterdir()] == ["somebody's"]

    def test_it_notices_that_hooks_would_open_another_one(self, state: State) -> None:
        fifo = Fifo(state.fifo)
        fifo.open()
        assert fifo.still_there()
        state.fifo.unlink()
        assert not fifo.still_there()
        os.mkfifo(state.fifo)
        assert not fifo.still_there()
        fifo.close()
