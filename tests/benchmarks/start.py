"""A worker's start, as a hook starts it: until its first job is in a synced commit, until the event is at a receiver
on loopback, and the processor time of its whole life, which is this one job and the wait for more.

``first`` is the first one of a state directory; the others find the compiled rules in it. All as ratios to
``python -I -c pass``, of the same run, with milliseconds beside.

What was tried, by the processor time of a start until its event was delivered (some 400 to 550 ms before):

- The rules as hyperscan compiled them are kept in the state directory: of 100 to 190 ms 1 is left.
- What ties a value to a name is compiled when a text first has such a sign behind a name: 20 ms. The other
  expressions of the rules that are compiled as they are imported are some 12 ms, a tenth of a millisecond each.
- The rulesets' tables are kept as JSON: parsing TOML took 20 ms. ``marshal`` would be 0.25 ms faster, and is nothing
  to read a file with that somebody may have damaged.
- An id without python-ulid, which imports importlib.metadata and typing_extensions: 40 ms.
- email.utils is imported for a date in an answer alone: 7 ms.
- A type's hints are evaluated once: 1.5 ms.

What is left are imports, of which httpcore and msgspec are half.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sessionpipe.__main__
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.intake import fill
from tests.benchmarks.measure import show
from tests.benchmarks.sinkhole import Kept, receiving

RUNS, WHOLE = 9, 3
_PROGRAM = str(Path(sessionpipe.__main__.__file__))


class Start(NamedTuple):
    """What a worker took, in seconds: to its commit, to the receiver, and of the processor."""

    commit: float
    delivery: float
    cpu: float


def run() -> None:
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        first = start(Path(folder), receiver)
        pairs = [(bare(), start(Path(folder), receiver)) for _ in range(RUNS)]
        whole = [start(Path(folder), receiver, whole=True).cpu for _ in range(WHOLE)]
    starts = [one for _, one in pairs]
    wall, cpu = (statistics.median(values) for values in zip(*(one for one, _ in pairs), strict=True))
    commit, delivery = (statistics.median(one[at] for one in starts) for at in (0, 1))
    show("worker-start-to-first-commit", commit * 1000, "ms", 300)
    show("worker-start-to-first-commit-ratio", commit / wall, "x-bare-start", 16)
    show("worker-start-to-receiver", delivery * 1000, "ms", 400)
    show("worker-first-start-to-first-commit", first.commit * 1000, "ms", 700)
    show("worker-start-cpu", statistics.median(one.cpu for one in starts) / cpu, "x-bare-start", 25)
    show("worker-whole-cpu", statistics.median(whole) / cpu, "x-bare-start", 30)


def bare() -> tuple[float, float]:
    """An interpreter's start: its time, and the processor's."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-I", "-c", "pass"])
    cpu = _ended(process)
    return time.perf_counter() - begun, cpu


def start(folder: Path, receiver: Kept, *, whole: bool = False) -> Start:
    """One start with a job; it is told to end once that is delivered, or with ``whole`` ends by itself."""
    state, config = State(folder / "state"), folder / "config"
    state.root.mkdir(mode=0o700, exist_ok=True)
    config.mkdir(mode=0o700, exist_ok=True)
    (config / "config.toml").write_text(
        f'[[sinks]]\nname = "board"\nkind = "http"\nurl = "{receiver.url}"\ntier = 1\n'
    )
    spool = Spool(state.spool)
    spool.prepare()
    fill(spool, 1, 2048)
    # A job of that name was recorded by the start before.
    (job,) = spool.new.glob("*.job")
    job.rename(job.with_name(f"{time.time_ns():020d}.job"))
    receiver.bodies.clear()
    env = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "SESSIONPIPE_STATE_DIR": str(state.root),
        "SESSIONPIPE_CONFIG_DIR": str(config),
    }
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-I", _PROGRAM, "worker"], env=env, cwd="/", stdin=subprocess.DEVNULL
    )
    commit = _until(spool.empty) - begun
    delivery = _until(lambda: bool(receiver.bodies)) - begun
    if not whole:
        process.send_signal(signal.SIGTERM)
    return Start(commit, delivery, _ended(process))


def _until(what: Callable[[], bool]) -> float:
    deadline = time.monotonic() + 30
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit("the worker did not come to it")
        time.sleep(0.0005)
    return time.perf_counter()


def _ended(process: subprocess.Popen[bytes]) -> float:
    """The processor time of ``process``, when it has ended."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime
