"""``worker`` and ``flush`` as a person runs them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sessionpipe.liveness import Lock
from sessionpipe.paths import State, make_private, state_dir
from tests.e2e.machine import SESSIONPIPE
from tests.patience import PATIENCE_S


@contextmanager
def foreground() -> Iterator[subprocess.Popen[str]]:
    """``sessionpipe worker --foreground``."""
    with subprocess.Popen(
        [*SESSIONPIPE, "worker", "--foreground"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_worker_that_waits_for_another_says_so_and_control_c_ends_it_quietly() -> None:
    state = State(state_dir())
    make_private(state.root)
    lock = Lock(state)
    assert lock.acquire(0)
    try:
        with foreground() as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline() == "another worker is at work; waiting for it to leave\n"
            waiting.send_signal(signal.SIGINT)
            assert (waiting.wait(PATIENCE_S), waiting.stderr.read()) == (130, "")
    finally:
        lock.release()


def test_a_state_directory_that_is_none_is_one_line_without_numbers(run: Any) -> None:
    state_dir().parent.mkdir(parents=True, exist_ok=True)
    state_dir().write_text("a file")
    for command in (["flush"], ["worker", "--foreground"]):
        done = run(*command)
        assert done.exit_code == 1
        assert done.stderr.count("\n") == 1
        assert "Errno" not in done.stderr and "`sessionpipe doctor`" in done.stderr
