"""Intake: jobs a second on one core, rules on, from job files to a synced commit.

By the profile no one thing dominates a job of 2 KB: the rules, SQLite's inserts, the adapter's table and the file
itself share it. What was tried: naming a job's file by a string, and decoding its header at once, took what reads
and removes it from 55 to 40 µs a job.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from sessionpipe.intake import Intake
from sessionpipe.outbox import Outbox
from sessionpipe.spool import Spool
from tests.benchmarks.measure import show

SESSIONS = 8


def payload(number: int, size: int) -> bytes:
    """A recorded shape of ``size`` bytes: the end of a tool call."""
    session = f"3f0c2f2e-6a51-4d7b-9a55-{number % SESSIONS:012d}"
    line = f"src/module_{number}.py:{number % 300}: def handler(self, request): return self.reply(request.body)\n"
    body = {
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
    for label, jobs, size, budget in (
        ("0.5KB", 3000, 512, 1500),
        ("2KB", 3000, 2048, 1500),
        ("20KB", 800, 20_480, 700),
        ("200KB", 100, 204_800, 250),
    ):
        with tempfile.TemporaryDirectory() as folder:
            spool = Spool(Path(folder) / "spool")
            spool.prepare()
            fill(spool, jobs, size)
            outbox = Outbox.open(Path(folder) / "outbox.db")
            intake = Intake(outbox, spool, machine=lambda: "m", log=lambda _level, message: print(message))
            start = time.perf_counter()
            taken = intake.run()
            show(f"intake-{label}", taken / (time.perf_counter() - start), "jobs/s", budget, at_most=False)
            outbox.close()
