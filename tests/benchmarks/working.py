"""A worker in a process of its own, over a state directory of the benchmark's: what it uses is its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sessionpipe.paths import State
from sessionpipe.wake import LOOK, wake

_TICKS = os.sysconf("SC_CLK_TCK")


class Working:
    """A worker that runs."""

    def __init__(self, state: State, pid: int) -> None:
        self.state = state
        self._proc = Path("/proc") / str(pid)

    def look(self) -> None:
        """What a hook does behind its job: another byte would have every courier look, too."""
        wake(self.state, b"j")

    def cpu_s(self) -> float:
        """Its processor time until now."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self, *, peak: bool = False) -> float:
        """What it has in memory, or the most it ever had."""
        name = "VmHWM" if peak else "VmRSS"
        lines = (self._proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

    def until(self, what: Callable[[], bool], seconds: float = 120) -> None:
        """Wait for ``what``; looking costs the benchmark's time, and not the worker's."""
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline or not self._proc.exists():
                raise SystemExit(f"the worker did not come to it; its log: {_log(self.state)}")
            time.sleep(0.002)


@contextmanager
def working(state: State, sinks: str) -> Iterator[Working]:
    """Start one with ``sinks`` as its config; at the end it is told to end."""
    config = state.root.parent / "config"
    config.mkdir(mode=0o700, exist_ok=True)
    (config / "config.toml").write_text(sinks)
    env = {
        "HOME": str(state.root.parent),
        "PATH": os.environ["PATH"],
        "SESSIONPIPE_STATE_DIR": str(state.root),
        "SESSIONPIPE_CONFIG_DIR": str(config),
    }
    command = [sys.executable, "-m", "sessionpipe", "worker"]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL) as process:
        worker = Working(state, process.pid)
        try:
            worker.until(lambda: wake(state, LOOK))
            yield worker
        finally:
            process.send_signal(signal.SIGTERM)


def _log(state: State) -> str:
    try:
        return state.log.read_text()[-2_000:]
    except OSError as error:
        return str(error)
