"""What writes to the outbox, among 100 000 and among 1 000 000 events: how long it holds the writers' lock.

A hook's commit, a session that is forgotten (two hundred events), the slice that retention deletes at a time, and
a look at whether anything is old enough to go. Intake waits for no longer than the longest of these. Each is found
by an index or begins at an end, so ten times the events are a level of the tree more at most.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing

from sessionpipe.clock import now_ms
from sessionpipe.outbox import Outbox
from tests.benchmarks import atlarge
from tests.benchmarks.measure import show

FEW, MANY, RUNS = 100_000, 1_000_000, 25


def run() -> None:
    with (
        closing(Outbox.open(atlarge.outbox(FEW).outbox)) as few,
        closing(Outbox.open(atlarge.outbox(MANY).outbox)) as many,
    ):
        for name, do, budget in (
            ("commit", _commit, 10),
            ("forget", _forget, 40),
            ("prune-slice", _prune, 40),
            ("prune-nothing", _nothing_old, 5),
        ):
            pairs = [(_ms(do, few, number), _ms(do, many, number)) for number in range(RUNS)]
            little, much = (statistics.median(times) for times in zip(*pairs, strict=True))
            show(f"outbox-{name}-{MANY}", much, "ms", budget)
            show(f"growth-outbox-{name}", much / little, "x for ten times the events", 2)


def _ms(do: Callable[[Outbox, int], object], outbox: Outbox, number: int) -> float:
    start = time.perf_counter()
    do(outbox, number)
    return (time.perf_counter() - start) * 1000


def _commit(outbox: Outbox, number: int) -> None:
    with outbox.transaction() as tx:
        session = tx.session("claude-code", atlarge.name(0), now_ms())
        for _ in range(4):
            tx.append(session, "tool.ended", now_ms(), 1, b"x" * 1_000)
        tx.save(session)
        tx.mark_done([f"{number}.job"])


def _forget(outbox: Outbox, number: int) -> None:
    outbox.forget("claude-code", atlarge.name(50 + number), now_ms(), 1, lambda _seq: b"{}")


def _prune(outbox: Outbox, number: int) -> None:
    outbox.prune_oldest([], now_ms())


def _nothing_old(outbox: Outbox, number: int) -> None:
    outbox.prune(0, outbox.last_position(), 20_000 + 500 * number)
