"""live: whether hooks tell a session that a stream tells, too."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.live import KEPT_S, prune, told_by_hooks, unmark
from sessionpipe.paths import State

SINCE = 1_795_974_777_000


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.live.mkdir(parents=True)
    return state


def mark(state: State, **fields: Any) -> Path:
    path = state.live / "pi-s"
    path.write_text(json.dumps({"pid": os.getpid(), "since": SINCE, **fields}))
    return path


def gone() -> int:
    """The id of a process that is no more."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def told(state: State, at_ms: int, reading_since_ms: int = SINCE) -> bool:
    return told_by_hooks(state, "pi", "s", at_ms, reading_since_ms)


def test_what_happens_from_a_mark_s_beginning_to_its_end_is_told_by_hooks(state: State) -> None:
    mark(state, until=SINCE + 1000)
    assert [told(state, SINCE + at) for at in (-1, 0, 1000, 1001)] == [False, True, True, False]


def test_without_an_end_it_is_told_as_long_as_the_process_lives(state: State) -> None:
    mark(state)
    # However long ago we began to read, or after it: one may begin to read in the middle.
    assert told(state, SINCE + 10_000_000, SINCE + 9_000_000)
    assert not told(state, SINCE - 1)


def test_a_process_that_was_killed_told_what_we_read_of_it_and_nothing_later(state: State) -> None:
    mark(state, pid=gone())
    assert told(state, SINCE + 100, SINCE + 2_000)
    assert not told(state, SINCE + 3_600_000, SINCE + 3_500_000)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid":"x","since":0}', b'{"since":0}', b"\xff"])
def test_a_mark_that_is_none_says_nothing(state: State, content: bytes) -> None:
    (state.live / "pi-s").write_bytes(content)
    assert not told(state, SINCE)


def test_no_mark_and_no_folder_say_nothing(tmp_path: Path) -> None:
    assert not told(State(tmp_path / "none"), SINCE)


@pytest.mark.parametrize("pid", [0, -1])
def test_a_pid_that_is_no_single_process_is_none(state: State, pid: int) -> None:
    mark(state, pid=pid)
    assert not told(state, SINCE + 3_600_000, SINCE + 3_500_000)


def test_old_marks_go_and_others_stay(state: State) -> None:
    old, new = mark(state), state.live / "pi-new"
    new.write_text("{}")
    os.utime(old, (time.time() - KEPT_S - 60,) * 2)
    prune(state)
    assert (old.exists(), new.exists()) == (False, True)
    prune(State(state.root / "none"))


def test_a_session_that_is_forgotten_leaves_no_mark(state: State) -> None:
    path = mark(state)
    unmark(state, "pi", "s")
    assert not path.exists()
    unmark(state, "pi", "s")
