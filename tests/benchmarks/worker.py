"""The worker's memory while a dead sink lacks 100 000 events, and while it lacks 1 000 000.

A real worker over an outbox of that many, whose one sink answers 503, until it has tried, looked the file through
and recorded what hooks brought meanwhile. What is waited for stays in the outbox: a courier reads what a batch has
room for, and a page at a time where much of it is for other tiers.

``worker-memory`` is what it has asleep, until the next attempt; ``peak`` the most it ever had. What was tried: the
peak was 81 MB, of which compiling the rules took 42 for a moment, and of these 34 were a second automaton for texts
of a few bytes, which came out too large and was thrown away; without it the peak is 46. Two threads compiled the
rules at the same moment, which took 118. Fewer of glibc's arenas (``MALLOC_ARENA_MAX``) are 5 MB less, and not worth
a variable in every worker's environment. Looking for the rules' words in four or eight passes takes as little memory
to compile, and as many times as long to look.
"""

from __future__ import annotations

from contextlib import closing

from sessionpipe.outbox import Outbox
from sessionpipe.spool import Spool
from tests.benchmarks import atlarge
from tests.benchmarks.intake import fill
from tests.benchmarks.measure import show
from tests.benchmarks.sinkhole import receiving
from tests.benchmarks.working import working

FEW, MANY, HOOKS = 100_000, 1_000_000, 500
_SINK = '[[sinks]]\nname = "refuses"\nkind = "http"\nurl = "{url}"\ntier = 1\n'


def run() -> None:
    few, many = waiting(FEW), waiting(MANY)
    for name, little, much, budget in zip(("", "-peak"), few, many, (80, 80), strict=True):
        show(f"worker-memory{name}-{MANY}", much, "MB", budget)
        show(f"growth-worker-memory{name}", much / little, "x for ten times the events", 1.15)


def waiting(events: int) -> tuple[float, float]:
    """The memory of a worker that waits with so many events for its sink, in MB, and the most it had."""
    state = atlarge.outbox(events)
    with receiving(down=True) as receiver, closing(Outbox.open(state.outbox)) as box:
        box.remove_sink("refuses")
        box.remember("checked_ms", 0)
        spool = Spool(state.spool)
        spool.prepare()
        with working(state, _SINK.format(url=receiver.url)) as worker:
            worker.until(lambda: receiver.refused > 0)
            fill(spool, HOOKS, 2048)
            worker.look()
            worker.until(lambda: spool.empty() and bool(box.note("checked_ms")) and receiver.refused > 2)
            return worker.memory_mb(), worker.memory_mb(peak=True)
