"""Upkeep: the outbox stays within its bounds, and what damages it is noticed.

A part of the worker with a connection of its own. All it writes is small transactions with a pause
between them, so that no job waits for it longer than some milliseconds:

- over ``max_mb`` the oldest events go, whoever still needs them; whose they were is counted and logged;
- every hour those go that are older than ``days`` and that every live sink is past, and old marks of
  sessions that hooks tell;
- a file more than half of which is empty gives that back to the disk;
- every day the file is looked through for damage;
- some room is kept free, so that on a full disk there is enough to erase with.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sessionpipe import live
from sessionpipe.outbox import Outbox
from sessionpipe.outboxfile import full, release, reserve
from sessionpipe.parts import Host, Part
from sessionpipe.places import room

if TYPE_CHECKING:
    from sessionpipe.config import Config

_T = TypeVar("_T")

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
#: Between two small transactions: those who record have most of the time.
PAUSE_S = 0.02
#: A file with less than this to give back is left alone: it would only grow again.
_WORTH = 16 << 20
#: With less room than this all that is empty is given back, and none is kept in reserve.
_TIGHT = 64 << 20
#: While the bound is reached all the time it is said this often.
_SAY_EVERY_S = 600.0


class Retention(NamedTuple):
    """How long and how much is kept: ``max_bytes`` None for no bound; ``sinks`` are those that count."""

    days: int
    max_bytes: int | None
    sinks: frozenset[str]

    @classmethod
    def of(cls, config: Config) -> Retention:
        """What ``config`` says. A stdout sink is served by hand and holds nothing back."""
        bound = None if config.max_mb is None else config.max_mb << 20
        return cls(
            config.retention_days, bound, frozenset(s.name for s in config.sinks if s.kind != "stdout")
        )


class Upkeep(Part):
    """``retention`` is asked before each step; None while the settings cannot be read: nothing goes."""

    def __init__(self, worker: Host, retention: Callable[[], Retention | None]) -> None:
        super().__init__("upkeep", worker)
        self._retention = retention
        self._pruning: int | None = None
        self._lost: Counter[str] = Counter()
        self._said_at = -_SAY_EVERY_S

    def step(self, outbox: Outbox, now_ms: int, force: bool) -> tuple[bool, int | None]:
        again = self._do_one(outbox, now_ms)
        if again:
            self.stopping.wait(PAUSE_S)
        return again, now_ms + HOUR_MS

    def _do_one(self, outbox: Outbox, now_ms: int) -> bool:
        """One small thing of what is to be done, the most urgent first; whether there may be more."""
        free = room(outbox.path.parent)
        tight = free is not None and free < _TIGHT
        if self._make_room(outbox, now_ms, tight):
            if tight:
                # Nothing is erased, and nothing given back, before the WAL is through; and it would
                # itself take the room that is left.
                outbox.checkpoint()
            return True
        if not tight and outbox.still_there():
            reserve(outbox.path)
        if _due(outbox, "checked_ms", DAY_MS, now_ms):
            # Which takes seconds when the file is large, and ends with the worker.
            if outbox.check(self.stopping.is_set):
                outbox.remember("checked_ms", now_ms)
            return True
        return False

    def _make_room(self, outbox: Outbox, now_ms: int, tight: bool) -> bool:
        retention = self._retention()
        if retention is not None:
            over = retention.max_bytes is not None and outbox.occupied() > retention.max_bytes
            if over and self._let_go(outbox, retention, now_ms):
                return True
            self._say()
            if self._pruning is not None or _due(outbox, "pruned_ms", HOUR_MS, now_ms):
                self._prune(outbox, retention, now_ms)
                return True
        return self._much_is_empty(outbox, tight) and _in_need(outbox, outbox.shrink)

    def _let_go(self, outbox: Outbox, retention: Retention, now_ms: int) -> bool:
        gone, lost = _in_need(outbox, lambda: outbox.prune_oldest(retention.sinks, now_ms))
        self._lost.update(lost)
        return gone > 0

    def _say(self) -> None:
        if not self._lost or time.monotonic() - self._said_at < _SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        for name, count in sorted(self._lost.items()):
            self._worker.log(
                "warning",
                f"sink {name}: {count} events it did not have yet were let go, the oldest first:"
                " the outbox had reached max_mb",
            )
        self._lost.clear()

    def _prune(self, outbox: Outbox, retention: Retention, now_ms: int) -> None:
        rows = {sink.name: sink.position for sink in outbox.sinks()}
        # A sink whose row is not made yet is to get everything.
        past = [rows.get(name, 0) for name in retention.sinks]
        up_to = min(past, default=outbox.last_position())
        before = now_ms - retention.days * DAY_MS
        after = self._pruning or 0
        _, position = _in_need(outbox, lambda: outbox.prune(before, up_to, after))
        if position < up_to:
            self._pruning = position
            return
        self._pruning = None
        live.prune(self._worker.state)  # What only a reader of a stream looks at, and not for long.
        outbox.remember("pruned_ms", now_ms)

    @staticmethod
    def _much_is_empty(outbox: Outbox, tight: bool) -> bool:
        empty = outbox.returnable()
        return empty > 0 if tight else empty > max(_WORTH, outbox.occupied())


def _in_need(outbox: Outbox, erase: Callable[[], _T]) -> _T:
    """``erase``, which makes room; on a full disk with the room that was kept free for it."""
    try:
        return erase()
    except sqlite3.OperationalError as error:
        if not (full(error, outbox.path) and release(outbox.path)):
            raise
    return erase()


def _due(outbox: Outbox, key: str, every_ms: int, now_ms: int) -> bool:
    """Whether what was last done at the time remembered under ``key`` is to be done again.

    A time that lies ahead is of a clock that was set back since.
    """
    last = outbox.note(key) or 0
    return not 0 <= now_ms - last < every_ms
