"""Flushing: everything recorded and delivered now, and what could not be, said.

"Everything" is what was there when it was asked for: the jobs that waited then, and the events that were
recorded once those were. What hooks leave meanwhile is not waited for and nothing is said of it, or a
busy agent would never let a flush end well; whoever flushes gets a worker to see to it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sessionpipe.clock import now_ms
from sessionpipe.liveness import Fifo, Lock, send
from sessionpipe.paths import State, make_private
from sessionpipe.wake import FORCE, wake
from sessionpipe.worker import Damage, Worker, waiting

if TYPE_CHECKING:
    from sessionpipe.config import SinkConfig
    from sessionpipe.outbox import Outbox, SinkState

#: How often a live worker is looked at.
_EVERY_S = 0.05


class Flushed(NamedTuple):
    """A sentence for each thing that is left; ``more``: something came meanwhile that is not delivered."""

    left: list[str]
    more: bool


def flush(state: State, config: Path, timeout_s: float = 30.0) -> Flushed:
    """Record and deliver everything now, one attempt per sink whatever its backoff.

    Wakes a live worker and waits for it, or does the work itself; stdout sinks are served here. Returns
    within ``timeout_s``. Raises OSError and :class:`~sessionpipe.outbox.OutboxError` where nothing can
    be done at all.
    """
    deadline = time.monotonic() + timeout_s
    make_private(state.root)
    goal = Goal(state, config)
    lock, fifo = Lock(state), Fifo(state.fifo)
    asked = False
    damage: Damage | None = None
    while True:
        if lock.acquire():
            worker = Worker(state, config, fifo=fifo, lock=lock, with_stdout=True, damage=damage)
            try:
                fifo.open()
                ended = worker.serve(force=True, once=goal.reached, until=deadline)
                damage = worker.damage
            finally:
                fifo.close()
                lock.release()
            if time.monotonic() >= deadline:
                break
            # As every worker leaves: a hook may have taken us for one that stays.
            if ended != "damaged" and not waiting(state, but=worker.stuck):
                break
            continue
        with _looking(state) as outbox:
            if outbox is not None:
                goal.note_attempts(outbox)
                done = asked and goal.reached(outbox, stdout=False)
            else:
                done = False
        if not asked and not (asked := wake(state, FORCE)):
            # It is just starting or leaving, or it makes way: then this asks for the lock.
            send(state.yielding, b"y")
        if done or time.monotonic() >= deadline:
            _serve_stdout(state, config, deadline)
            break
        time.sleep(_EVERY_S)
    with _looking(state) as outbox:
        return Flushed(goal.left(outbox), goal.more(outbox))


class Goal:
    """What a flush is asked for: the jobs that wait now, and the events that are there once they are taken."""

    def __init__(self, state: State, config: Path) -> None:
        from sessionpipe.spool import Spool

        self._config = config
        self._outbox = state.outbox
        self._spool = Spool(state.spool)
        # In the order they are taken: as long as the first is there, the others need not be looked for.
        self._names = deque(self._spool.names())
        self._position: int | None = None
        self._taken_ms = 0
        self._attempts: dict[str, tuple[int, int]] | None = None

    def note_attempts(self, outbox: Outbox) -> None:
        """Remember how each sink did before it was tried for this; once."""
        if self._attempts is None:
            self._attempts = {sink.name: _attempt(sink) for sink in outbox.sinks()}

    def reached(self, outbox: Outbox, *, stdout: bool = True) -> bool:
        """Whether all of it is recorded and each sink has it, or was tried in vain."""
        from sessionpipe.config import ConfigError

        self.note_attempts(outbox)
        if not self._recorded(outbox):
            return False
        try:
            return all(self._tried(row) or not owed for _, row, owed in self._owed(outbox, stdout=stdout))
        except ConfigError:
            return True  # Nothing is delivered until it is mended.

    def left(self, outbox: Outbox | None) -> list[str]:
        """What is not recorded or not delivered yet, as sentences."""
        from sessionpipe.config import ConfigError

        left: list[str] = []
        recorded = outbox is not None and self._recorded(outbox)
        if self._names:
            left.append(f"{len(self._names)} job{'s' * (len(self._names) != 1)} not recorded yet")
        if outbox is None:
            if os.path.lexists(self._outbox):
                left.append("the outbox cannot be read just now; `sessionpipe status` says more")
            return left
        if not self._names and not recorded:
            left.append("a transcript is still being waited for")
        try:
            for sink, row, owed in self._owed(outbox):
                if owed:
                    behind = outbox.behind(row.position) - outbox.behind(self._upto(outbox))
                    why = row.paused or row.last_error
                    left.append(f"sink {sink.name}: {behind} not delivered" + (f" ({why})" if why else ""))
        except ConfigError as error:
            left.append(f"{error}; nothing is delivered until it is mended")
        return left

    def more(self, outbox: Outbox | None) -> bool:
        """Whether there is something that came after this was asked for, and somebody should see to."""
        from sessionpipe.config import ConfigError

        if not self._spool.empty():
            return True
        try:
            return outbox is not None and any(
                row.position < outbox.last_position()
                for _, row, owed in self._owed(outbox, stdout=False)
                if not owed and not row.paused
            )
        except ConfigError:
            return False

    def _recorded(self, outbox: Outbox) -> bool:
        """Whether the jobs are taken and the transcripts they owe are read: then it is known how far to go."""
        while self._names and not self._spool.there(self._names[0]):
            self._names.popleft()
        if self._names:
            return False
        self._taken_ms = self._taken_ms or now_ms()
        if self._position is None and not outbox.owes_reads(self._taken_ms):
            self._position = outbox.last_position()
        return self._position is not None

    def _upto(self, outbox: Outbox) -> int:
        return outbox.last_position() if self._position is None else self._position

    def _owed(self, outbox: Outbox, *, stdout: bool = True) -> Iterator[tuple[SinkConfig, SinkState, bool]]:
        """Each sink that is to get it, and whether it still lacks some of it. Raises ConfigError."""
        from sessionpipe.config import load
        from sessionpipe.outbox import SinkState

        rows = {row.name: row for row in outbox.sinks()}
        upto = self._upto(outbox)
        for sink in load(self._config).sinks:
            if not sink.paused and (stdout or sink.kind != "stdout"):
                row = rows.get(sink.name) or SinkState(name=sink.name)
                yield sink, row, row.position < upto

    def _tried(self, row: SinkState) -> bool:
        """Whether a sink has failed since, or is paused by its receiver and gets no attempt."""
        failed = row.failures or row.next_attempt_ms
        return row.paused is not None or bool(
            failed and self._attempts and _attempt(row) != self._attempts.get(row.name)
        )


def _attempt(sink: SinkState) -> tuple[int, int]:
    return sink.failures, sink.next_attempt_ms


@contextmanager
def _looking(state: State) -> Iterator[Outbox | None]:
    """The outbox as a worker has it; None while there is none that can be read."""
    from sessionpipe.outbox import Outbox, OutboxError

    try:
        outbox = Outbox.look(state.outbox, follow=True)
    except (OutboxError, sqlite3.Error):
        outbox = None
    try:
        yield outbox
    finally:
        if outbox is not None:
            outbox.close()


def _serve_stdout(state: State, config: Path, deadline: float) -> None:
    from sessionpipe.config import ConfigError, load
    from sessionpipe.delivery.courier import Courier
    from sessionpipe.outbox import Outbox

    try:
        sinks = [sink for sink in load(config).sinks if sink.kind == "stdout" and not sink.paused]
    except ConfigError:
        return
    if not sinks:
        return
    outbox = Outbox.open(state.outbox)
    try:
        for sink in sinks:
            outbox.add_sink(sink.name, 0)
            courier = Courier(sink, outbox, stop=threading.Event(), log=lambda _level, _message: None)
            while time.monotonic() < deadline and courier.step(now_ms(), force=True).progress:
                continue
            courier.close()
    finally:
        outbox.close()
