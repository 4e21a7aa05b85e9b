"""The receiver: events a second into its database, what a page takes with 100 000 of them, and its memory.

Measured on one receiver process over HTTP, in batches of 50. The rate is by the processor time the receiver
itself used, since whoever sends runs on the same machine; ``wall`` is what a sender sees. More events must not
make a page slower: what it shows is read, and not what is there.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sessionpipe.clock import now_ms
from tests.benchmarks.measure import show
from tests.receivers.served import EVENTS, Served, event, serving

COUNT, SESSIONS, BATCH = 100_000, 500, 50
TURN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("turn.started", {"prompt_chars": 20}),
    ("tool.started", {"tool": "Bash"}),
    ("tool.ended", {"tool": "Bash", "ok": True, "ms": 100}),
    ("tool.started", {"tool": "Edit"}),
    ("tool.ended", {"tool": "Edit", "ok": True, "ms": 100}),
    ("files.changed", {"paths": ["src/app.py"]}),
    ("attention.needed", {"attention_id": "a", "kind": "permission", "message": "Bash npm test"}),
    ("attention.cleared", {"attention_id": "a", "how": "answered"}),
    ("turn.ended", {"reason": "stop", "ms": 5000}),
    (
        "turn.transcript",
        {"turn": 1, "user": "u" * 100, "assistant": "a" * 400, "at": "2026-01-01T00:00:00.000Z"},
    ),
)


def run() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as receiver:
        receiver.enter()
        few = COUNT // 3  # From here on every session shown has as many turns as are shown.
        rest = _bodies()
        _send(receiver, [next(rest) for _ in range(few // BATCH)])
        early = _memory(receiver), _cost(receiver)
        bodies = list(rest)
        used, began = _processor(receiver), time.perf_counter()
        _send(receiver, bodies)
        wall, used = time.perf_counter() - began, _processor(receiver) - used
        count = len(bodies) * BATCH
        show("receiver-ingest", count / used, "events/s of its processor time", 2_000, at_most=False)
        show("receiver-ingest-wall", count / wall, "events/s", 2_000, at_most=False)
        show(f"receiver-board-{COUNT}", _first_byte(receiver, "/"), "ms", 50)
        show("receiver-board-growth", _cost(receiver) / early[1], "x for three times the events", 1.3)
        show(f"receiver-session-{COUNT}", _first_byte(receiver, "/session?id=claude-code%3As-7"), "ms", 50)
        show("receiver-memory", _memory(receiver) - early[0], "MB more", 16)


def _bodies() -> Iterator[bytes]:
    """Sessions whose turns take turns, ten events each."""
    start = now_ms() - COUNT * 50
    seqs = [0] * SESSIONS
    batch: list[dict[str, Any]] = []
    for number in range(COUNT):
        index, step = number // 10 % SESSIONS, number % 10
        block = {
            "machine": "studio",
            "cwd": f"~/src/app{index}",
            "branch": "main",
            "title": f"Session {index}",
        }
        type_, data = TURN[step]
        made = event(type_, seqs[index], session=f"s-{index}", at=start + number * 50, tier=2, block=block)
        batch.append(made | {"data": {"turn_id": f"t{number // 10}", "call_id": f"c{number // 2}", **data}})
        seqs[index] += 1
        if len(batch) == BATCH:
            yield json.dumps({"events": batch}).encode()
            batch = []


def _send(receiver: Served, bodies: list[bytes]) -> None:
    headers = receiver.bearer
    for body in bodies:
        answer = receiver.wire.request("POST", receiver.url + EVENTS, headers, body)
        if answer.status != 202 or json.loads(answer.body)["accepted"] != BATCH:
            raise SystemExit(f"the receiver answered {answer.status}: {answer.body[:200]!r}")


def _first_byte(receiver: Served, path: str) -> float:
    """The median of how long a page takes, in milliseconds: it comes in one piece, so all of it."""
    return statistics.median(_ms(lambda: receiver.page(path)) for _ in range(15))


def _ms(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1000


def _cost(receiver: Served) -> float:
    """The receiver's processor time for the board, in seconds: what else runs on the machine is not in it."""
    before = _processor(receiver)
    for _ in range(50):
        receiver.page()
    return (_processor(receiver) - before) / 50


def _processor(receiver: Served) -> float:
    fields = Path(f"/proc/{receiver.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(receiver: Served) -> float:
    """Resident, in MB."""
    lines = Path(f"/proc/{receiver.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
