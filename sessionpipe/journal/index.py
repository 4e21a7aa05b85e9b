"""A session's journals as they stand and as they grow, and any position in them in milliseconds.

Reading once from front to back keeps, every so many events, a checkpoint: where the next line starts, how
late it was, and a snapshot of the fold. To seek is to restore the checkpoint before and to fold the short
stretch behind it. All of this is the viewer's; nothing is written anywhere.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from sessionpipe.journal.bundle import (
    UNAVAILABLE,
    Bundle,
    Capture,
    Parts,
    Tally,
    Verdict,
    read_capture,
)
from sessionpipe.journal.files import (
    File,
    Line,
    Malformed,
    Unusable,
    Why,
    lines,
    open_beneath,
    parse,
    read_object,
)
from sessionpipe.journal.format import BINDING, COMPLETE, ENTRIES, EVENTS, FAILED, parse_time
from sessionpipe.journal.reducer import Change, Reducer, Snapshot, entry_id, seq_of

#: Events between two checkpoints: what a seek folds at most, in a few milliseconds.
STRETCH = 256
#: A stretch of usual events has about so many bytes.
_SHORT = 64 << 10
#: So many events leave so many objects that a collection of garbage takes longer than a seek may.
_MANY = 50_000

Event = dict[str, Any]


class Replaced(Exception):
    """A journal is not the file any more that was read so far, or has become shorter."""


class Tail:
    """The lines of a file that may grow, or not be there yet, each of them once."""

    def __init__(self, bundle: Bundle, parts: Parts) -> None:
        self._place = (bundle.root, parts)
        self.name = parts[-1]
        self._file: tuple[int, int] | None = None
        #: Where the next line starts, and its number.
        self.offset = 0
        self.number = 1
        #: Whether something without a line feed stands there.
        self.torn = False
        #: Why there is nothing to read, in a word and in words.
        self.why: Why | None = None
        self.problem: str | None = None

    def new(self) -> Iterator[Line]:
        """The complete lines that were not read before; raises :class:`Replaced`."""
        if (file := self.open()) is None:
            return
        with file:
            self.torn = False
            for line in lines(file, self.offset, self.number):
                if not line.complete:
                    self.torn = True
                    return
                self.offset, self.number = line.end, line.number + 1
                yield line

    def open(self) -> File | None:
        """The file, for whoever knows an offset in it; None when it isn't there. Raises :class:`Replaced`."""
        try:
            file = open_beneath(*self._place)
        except Unusable as error:
            if self._file is not None:
                raise Replaced from None
            self.why, self.problem = error.why, str(error)
            return None
        if self._file not in (None, file.identity) or file.size < self.offset:
            with file:
                raise Replaced
        self._file, self.why, self.problem = file.identity, None, None
        return file


def judged(capture: Capture, tally: Tally, tails: Collection[Tail], *, terminal: bool) -> Verdict:
    """A capture's status, as far as what was read from the journals bears it out."""
    tally.torn = any(tail.torn for tail in tails)
    for tail in tails:
        # One that nobody has written yet is nothing to speak of, as long as somebody may.
        if tail.problem and (tail.why != "missing" or capture.status in (COMPLETE, FAILED)):
            tally.damaged(f"{tail.name}: {tail.problem}")
    return capture.judge(tally, terminal=terminal)


class Checkpoint(NamedTuple):
    """A position: how far it is folded, where the next line starts, and the latest time until there."""

    seq: int
    offset: int
    number: int
    time: float
    snapshot: Snapshot


class Journal:
    """One session folder of a bundle. :meth:`read` is called first, and again for what came since.

    Whatever goes back to the files raises :class:`Replaced` when they are not those that were read.
    """

    def __init__(self, bundle: Bundle, parts: Parts) -> None:
        self.bundle = bundle
        self.parts = parts
        self.capture = Capture(None)
        self._reset()

    def _reset(self) -> None:
        self._entries: dict[str, Line] = {}
        self._events_tail = Tail(self.bundle, (*self.parts, EVENTS))
        self._entries_tail = Tail(self.bundle, (*self.parts, ENTRIES))
        self._tally = Tally()
        #: The fold at the end of what was read.
        self.reducer = Reducer(self._entries)
        #: The times of the first event and, where clocks were set back, of the latest one.
        self.began: float | None = None
        self._latest = float("-inf")
        self._checkpoints = [Checkpoint(0, 0, 1, self._latest, self.reducer.snapshot())]

    # -- Reading --

    def read(self) -> Iterator[tuple[Event, Change | None]]:
        """What came since the last reading: each event the fold took, and what it changed there.

        Raises :class:`Replaced` when a file was cut or replaced; what was read is forgotten then, and
        the next reading begins anew.
        """
        try:
            # The manifest, then the capture, then the journals: each is the later for what it says.
            self.bundle.refresh()
            self.capture = read_capture(self.bundle.root, self.parts)
            self._read_entries()
            if self.available:
                yield from self._read_events()
        except Replaced:
            self._reset()
            raise

    def read_all(self) -> Journal:
        """Read what is there and hand nothing over; itself."""
        before = self.reducer.through_seq
        for _ in self.read():
            pass
        if self.reducer.through_seq - before > _MANY:
            # What was read stays. Looked through now, it is not looked through in the midst of a seek.
            gc.collect()
        return self

    def _read_events(self) -> Iterator[tuple[Event, Change | None]]:
        reducer = self.reducer
        for line in self._events_tail.new():
            if (event := self._parsed(line, EVENTS)) is None:
                continue
            change = reducer.apply(event)
            if not self._tally.event(seq_of(event), line.number):
                continue
            seq = reducer.through_seq
            if (time := parse_time(event.get("at"))) is not None:
                self.began = time if self.began is None else self.began
                self._latest = max(self._latest, time)
            # What a snapshot costs goes by what is open: of a journal that ends nothing it takes fewer.
            if seq >= self._checkpoints[-1].seq + max(STRETCH, 4 * reducer.open):
                point = Checkpoint(seq, line.end, line.number + 1, self._latest, reducer.snapshot())
                self._checkpoints.append(point)
            yield event, change

    def _read_entries(self) -> None:
        for line in self._entries_tail.new():
            if (record := self._parsed(line, ENTRIES)) is not None:
                self._tally.entries += 1
                if (id_ := entry_id(record)) is not None:
                    self._entries.setdefault(id_, line._replace(data=b""))

    def _parsed(self, line: Line, name: str) -> dict[str, Any] | None:
        try:
            return parse(line.data)
        except Malformed:
            self._tally.damaged(f"{name}, line {line.number}: it can't be read")
            return None

    # -- What it is --

    @property
    def available(self) -> bool:
        """Whether its events are of a schema that can be read."""
        problem = self.capture.problem
        return problem is None or problem.status != UNAVAILABLE

    @property
    def verdict(self) -> Verdict:
        """Its capture's status, as far as what was read bears it out."""
        tails = (self._entries_tail, self._events_tail)
        return judged(self.capture, self._tally, tails, terminal=self.bundle.terminal)

    @property
    def counts(self) -> tuple[int, int]:
        """How many events and entries were read."""
        return self._tally.events, self._tally.entries

    @property
    def ended(self) -> float | None:
        """The time of its latest event, by the clock of whoever recorded it."""
        return None if self.began is None else self._latest

    def binding(self) -> dict[str, Any] | None:
        """``binding.json`` as it is."""
        try:
            return read_object(self.bundle.root, (*self.parts, BINDING))
        except (Unusable, Malformed):
            return None

    def entry(self, id_: str) -> dict[str, Any] | None:
        """The Pi entry with this id, verbatim; None when there is none."""
        if id_ not in self._entries:
            # Entries have a writer of their own, which may have been slower.
            self._read_entries()
        place = self._entries.get(id_)
        if place is None or (file := self._entries_tail.open()) is None:
            return None
        with file:
            try:
                found = parse(file.read_at(place.start, place.size)).get("entry")
            except Malformed:
                return None
        return found if isinstance(found, dict) else None

    # -- Positions --

    def seek(self, seq: int) -> Reducer:
        """The fold through ``seq``, or through the last event before it."""
        start = self._before(seq)
        reducer = Reducer.restore(start.snapshot)
        for event in self._from(start):
            if (seq_of(event) or 0) > seq:
                break
            reducer.apply(event)
        return reducer

    def seq_at(self, time: float) -> int:
        """The ``seq`` of the last event at or before ``time`` (epoch seconds); 0 before the first.

        Order is ``seq``'s: an event whose clock was set back is as late as the latest one before it, so
        that no time shows an event without all that came before it.
        """
        # Checkpoints are as late as the latest event until there, so they are in order.
        start = self._checkpoints[max(bisect_right(self._checkpoints, time, key=lambda at: at.time) - 1, 0)]
        last, latest = start.seq, start.time
        for event in self.events(start.seq):
            latest = max(latest, parse_time(event.get("at")) or latest)
            if latest > time:
                break
            last = event["seq"]
        return last

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events behind ``after`` that the fold takes, as far as they were read, in order."""
        last = after
        for event in self._from(self._before(after)):
            if (seq := seq_of(event) or 0) > last:
                last = seq
                yield event

    def _before(self, seq: int) -> Checkpoint:
        return self._checkpoints[max(bisect_right(self._checkpoints, seq, key=lambda at: at.seq) - 1, 0)]

    def _from(self, start: Checkpoint) -> Iterator[Event]:
        """Everything behind a checkpoint that can be read, as far as it was read."""
        if (file := self._events_tail.open()) is None:
            return
        with file:
            for line in lines(file, start.offset, start.number, block=_SHORT):
                if line.start >= self._events_tail.offset:
                    return
                with suppress(Malformed):
                    yield parse(line.data)
