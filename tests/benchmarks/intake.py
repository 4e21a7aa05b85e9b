"""Intake: jobs a second on one core, rules on, from job files to a synced commit.

By the profile no one thing dominates a job of 2 KB: the rules, SQLite's inserts, the adapter's table and the file
itself share it. What was tried: naming a job's file by a string, and decoding its header at once, took what reads
and removes it from 55 to 40 µs a job. Of the nine times a job asks for a file's state six are for the agent's settings,
the repository and the transcript, some 6 % together: asking once a batch would save that where many wait, and nothing
where one does.

A job is 0.4 ms, and 5 ns a byte where there are many. What it brought goes with it: left to the collector, thirty of
2 MB took a process to 105 MB, where it is 54 now; in batches of 16 MB they took it to 77, and three hundred of 200 KB
to 74, which are 45 in batches of 4.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.intake import BATCH_JOBS, Intake
from sessionpipe.outbox import Outbox
from sessionpipe.spool import Spool
from tests.benchmarks.measure import show

SESSIONS = 8
#: The payload's size, how many jobs, bytes, and how many a second at least; from the second on ten times the bytes.
SIZES = (
    ("0.5KB", 3000, 512, 1500),
    ("2KB", 3000, 2048, 1500),
    ("20KB", 800, 20_480, 700),
    ("200KB", 100, 204_800, 250),
    ("2MB", 20, 2_048_000, 40),
)
#: So many jobs wait; so many batches of them are taken.
FEW, MANY, BATCHES = 10_000, 100_000, 5


def payload(number: int, size: int) -> bytes:
    """A recorded shape of ``size`` bytes: the end of a tool call."""
    session = f"3f0c2f2e-6a51-4d7b-9a55-{number % SESSIONS:012d}"
    line = f"src/module_{number}.py:{number % 300}: def handler(self, request): return self.reply(request.body)\n"
    body: dict[str, Any] = {
        "session_id": session,
        "transcript_path": f"/nowhere/{session}.jsonl",
        "cwd": "/nowhere",
        "prompt_id": "b3f6c9d8-0000-4000-8000-000000000001",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "grep -rn handler src", "description": "Find the handlers"},
        "tool_response": {"stdout": "", "stderr": "", "interrupted": False},
        "tool_use_id": f"toolu_{number:024d}",
        "duration_ms": 31,
    }
    body["tool_response"]["stdout"] = (line * (size // len(line) + 1))[: max(0, size - len(json.dumps(body)))]
    return json.dumps(body).encode()


def fill(spool: Spool, jobs: int, size: int) -> None:
    for number in range(jobs):
        header = (
            f"v=1\0harness=claude-code\0event=PostToolUse\0at_ms={1_795_976_000_000 + number}\0cwd=/nowhere\0ppid=1"
            f"\0env.HOME=/nowhere\0env.CLAUDE_CODE_SESSION_ATTENDED=1\0\0"
        )
        (spool.new / f"{number:020d}.job").write_bytes(header.encode() + payload(number, size))


def run() -> None:
    taken = [Taken.of(jobs, size) for _, jobs, size, _ in SIZES]
    for (label, *_, budget), one in zip(SIZES, taken, strict=True):
        show(f"intake-{label}", 1 / one.wall_s, "jobs/s", budget, at_most=False)
    for (label, *_), one, larger in zip(SIZES[2:], taken[1:], taken[2:], strict=False):
        show(f"growth-intake-{label}", larger.cpu_s / one.cpu_s, "x for ten times the bytes", 11)
    few, many = (waiting(jobs) for jobs in (FEW, MANY))
    show(f"intake-{BATCHES}-batches-of-{MANY}", many * 1000, "ms of CPU", 2_500)
    show("growth-intake-waiting", many / few, "x for ten times the jobs that wait", 2)


class Taken(NamedTuple):
    """What one job took."""

    wall_s: float
    cpu_s: float

    @classmethod
    def of(cls, jobs: int, size: int) -> Taken:
        """Of so many of that ``size`` in bytes."""
        with tempfile.TemporaryDirectory() as folder, _intake(Path(folder)) as (spool, intake):
            fill(spool, jobs, size)
            wall, cpu = time.perf_counter(), time.process_time()
            count = intake.run()
            return cls((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count)


def waiting(jobs: int) -> float:
    """Seconds of CPU for the first batches while so many jobs wait: all of them are listed, and sorted, once."""
    with tempfile.TemporaryDirectory() as folder, _intake(Path(folder)) as (spool, intake):
        # Most are links to the first ones: what is behind the batches that are taken is not read.
        fill(spool, BATCHES * BATCH_JOBS, 512)
        for number in range(BATCHES * BATCH_JOBS, jobs):
            (spool.new / f"{number:020d}.job").hardlink_to(spool.new / f"{number % 100:020d}.job")
        cpu = time.process_time()
        intake.run(iter([True] * BATCHES + [False]).__next__)
        return time.process_time() - cpu


@contextmanager
def _intake(folder: Path) -> Iterator[tuple[Spool, Intake]]:
    spool = Spool(folder / "spool")
    spool.prepare()
    with closing(Outbox.open(folder / "outbox.db")) as outbox:
        yield spool, Intake(outbox, spool, machine=lambda: "m", log=lambda _level, message: print(message))
