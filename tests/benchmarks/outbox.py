"""What writes to the outbox, among 100 000 and among 1 000 000 events: how long it holds the writers' lock.

A hook's commit, a session that is forgotten (two hundred events), the slice that retention deletes at a time, and
a look at whether anything is old enough to go. Intake waits for no longer than the longest of these. Each is found
by an index or begins at an end, so ten times the events are a level of the tree more at most.

What looks at every event is linear, and measured among 10 000 and among 100 000, in seconds of CPU: `privacy scan`
(of a million it would be a minute), and salvaging a damaged outbox, which was 66 µs an event and is 48 without
patterns of `match` and without a call for each number of one byte. Half of these are looking twice, so that memory
holds no bodies, and a quarter the insert.

The write-ahead log is copied at 4 MB. While somebody reads an old state it grows by all that is written; afterwards it
was as large as ever as long as a worker lived, and is cut to 16 MiB by the next but one commit.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sessionpipe.clock import now_ms
from sessionpipe.outbox import Outbox
from sessionpipe.outboxfile import wal_of
from sessionpipe.places import identity
from sessionpipe.redaction import PLAIN
from sessionpipe.rescan import look
from sessionpipe.salvage import set_aside
from tests.benchmarks import atlarge
from tests.benchmarks.measure import show

FEW, MANY, RUNS = 100_000, 1_000_000, 25
#: Where every event is looked at.
SOME = 10_000


def run() -> None:
    for name, of_all, least in (("scan", scanned, 8_000), ("salvage", salvaged, 8_000)):
        little, much = (of_all(events) for events in (SOME, FEW))
        show(f"outbox-{name}-{FEW}", FEW / much, "events/s", least, at_most=False)
        # 10 000 fit into the processor's caches; the last tenth of 100 000 takes no longer than the first.
        show(f"growth-outbox-{name}", much / little, "x for ten times the events", 14)
    show("outbox-wal-after-reader", wal_mb(), "MB", 17)
    _writers()


def scanned(events: int) -> float:
    """Seconds of CPU to look at every event under today's rules."""
    with closing(Outbox.open(atlarge.outbox(events).outbox)) as outbox:
        next(look(outbox, PLAIN))  # The rules are compiled then.
        begun = time.process_time()
        if any(found for _, found in look(outbox, PLAIN)):
            raise SystemExit("the rules find something in what is none of anybody's")
        return time.process_time() - begun


def salvaged(events: int) -> float:
    """Seconds of CPU to carry every event over from an outbox whose first page is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outbox.db"
        shutil.copy(atlarge.outbox(events).outbox, path)
        # Other benchmarks may have recorded hooks in it, and forgotten a session with an event that is none.
        with closing(sqlite3.connect(path)) as whole:
            (has,) = whole.execute("SELECT count(*) FROM events WHERE length(body) > 2").fetchone()
        with path.open("r+b") as file:
            file.write(bytes(4096))
        begun = time.process_time()
        done = set_aside(path, "damaged", now_ms(), file=identity(path))
        taken = time.process_time() - begun
        if done is None or done.events != has:
            raise SystemExit(f"of {has} events it was {done}")
        return taken


def wal_mb() -> float:
    """The size of the write-ahead log when somebody read an old state while 30 000 events came, and is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outbox.db"
        with closing(Outbox.open(path)) as outbox:
            _commit(outbox, 0)
            with closing(sqlite3.connect(path, isolation_level=None)) as shell:
                shell.execute("BEGIN")
                shell.execute("SELECT * FROM events").fetchall()
                for number in range(1, 1_000):
                    _commit(outbox, number, 30)
            for number in range(1_000, 1_010):
                _commit(outbox, number)
            return wal_of(path).stat().st_size / 1e6


def _writers() -> None:
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


def _commit(outbox: Outbox, number: int, events: int = 4) -> None:
    with outbox.transaction() as tx:
        session = tx.session("claude-code", atlarge.name(0), now_ms())
        for _ in range(events):
            tx.append(session, "tool.ended", now_ms(), 1, b"x" * 1_000)
        tx.save(session)
        tx.mark_done([f"{number}.job"])


def _forget(outbox: Outbox, number: int) -> None:
    outbox.forget("claude-code", atlarge.name(50 + number), now_ms(), 1, lambda _seq: b"{}")


def _prune(outbox: Outbox, number: int) -> None:
    outbox.prune_oldest([], now_ms())


def _nothing_old(outbox: Outbox, number: int) -> None:
    outbox.prune(0, outbox.last_position(), 20_000 + 500 * number)
