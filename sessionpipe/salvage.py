"""A damaged outbox is set aside, and what can be read of it is carried over into a new one.

What is at stake is not only events nobody has yet. A receiver knows an event by (harness, session,
``seq``): were a session's numbers to begin again, what happens next would be taken for what it has
already, and dropped. And a cursor that began again would send everything once more. So, from every page
that can be read (:mod:`sessionpipe.pages`):

- sessions go on with their next ``seq``, behind every event of theirs that was found; tombstones stay;
- events keep their positions, ``seq`` and bodies, byte for byte;
- sinks go on behind their cursors, done-marks still answer for job files that were not unlinked yet,
  and transcripts are read on from where they were.

Where a session's counter cannot be read, it begins at a number it cannot have reached (:func:`_floor`):
each event takes one position of the outbox and one ``seq`` of its session, so no ``seq`` is higher than
where sessions began plus the last position. Where that cannot be read either, it begins at the time in
milliseconds, which is further than any machine can have counted.

What cannot be helped: an event that stood in an unreadable page, and was not delivered yet, is lost;
a sink whose cursor was lost, or stood in a lost end of the WAL, is sent again what it has, with the same
identities and the same content (a file is not: it is resumed behind its last line); a job whose done-mark
was lost while its file was not yet unlinked is recorded twice; a session whose facts were lost learns
them again from its next hook.

The damaged one is kept whole under a name with the time. Nothing here deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe import faults
from sessionpipe.outbox import Restoration
from sessionpipe.outboxfile import (
    Guard,
    OutboxError,
    aside_name,
    companions,
    give_name,
    ready,
    sync,
    those_set_aside,
    wal_of,
)
from sessionpipe.outboxrows import Row, Session, SinkState, object_of
from sessionpipe.pages import Pages, Record
from sessionpipe.places import identity

#: So many damaged outboxes within a day are a disk that is dying: copies of them would only fill it.
MOST, WITHIN_MS = 5, 24 * 3_600_000
#: No event takes fewer bytes in the WAL: its body alone names a protocol, two ids and two times.
_SMALLEST_EVENT = 128


class Salvage(msgspec.Struct, kw_only=True):
    """What became of a damaged outbox, as the new one remembers it (``note("salvaged")``).

    ``missing`` says by sink how many events behind its cursor could not be read, at most: those of
    sessions that were forgotten count too.
    """

    when_ms: int
    why: str
    aside: str
    events: int
    sessions: int
    sinks: int
    missing: dict[str, int]


class _Harness(msgspec.Struct):
    name: str


class _SessionBlock(msgspec.Struct):
    id: str
    seq: int


class _Event(msgspec.Struct):
    """What must be readable of an event: who it is."""

    type: str
    harness: _Harness
    session: _SessionBlock


def set_aside(path: Path, why: str, now_ms: int, *, file: tuple[int, int] | None) -> Salvage | None:
    """Put a new outbox in the place of the damaged one at ``path``, with what can be read of it.

    ``file`` is which file was found damaged (:func:`~sessionpipe.outboxfile.identity`): when another
    process was faster, nothing is done and None returned. Raises :class:`OutboxError` when too many were
    set aside lately, and OSError or sqlite3.Error when the new one cannot be written, after which
    everything is as it was.
    """
    guard = Guard(path.parent)
    try:
        # Alone, so that nobody commits to the old one what the new one would not have.
        with guard.alone():
            if file is None or identity(path) != file:
                return None
            _refuse_endlessness(path, now_ms)
            aside = aside_name(path, now_ms)
            building = path.with_name(f"{path.name}.salvaging")
            try:
                report = _rebuild(path, building, why, aside, now_ms)
            except BaseException:
                for name in companions(building):
                    name.unlink(missing_ok=True)
                raise
            faults.point("salvage.built")
            building.rename(ready(path))
            # Its name is on the disk before the old one loses its own: after a power cut there is one of
            # the two, never neither.
            sync(path.parent)
            faults.point("salvage.ready")
            give_name(path, ready(path), aside)
            faults.point("salvage.placed")
            return report
    finally:
        guard.close()


def _refuse_endlessness(path: Path, now_ms: int) -> None:
    lately = [name for name in those_set_aside(path) if abs(now_ms - _changed_ms(name)) < WITHIN_MS]
    if len(lately) >= MOST:
        raise OutboxError(
            f"the outbox {path} is damaged again, and {len(lately)} were set aside within a day: is the disk"
            " failing? Nothing is recorded until some of them are moved elsewhere; jobs wait in the spool"
        )


def _changed_ms(path: Path) -> int:
    try:
        return int(path.lstat().st_ctime * 1000)
    except OSError:
        return 0


def _rebuild(path: Path, building: Path, why: str, aside: Path, now_ms: int) -> Salvage:
    found = _Found()
    with Pages(path, wal_of(path)) as pages:
        # Twice over the file, so that memory holds no bodies: first who everybody is.
        for record in pages.records():
            found.take(record)
        # The lost end of a WAL may have held events more than anything that was read knows of.
        unread = pages.wal_bytes // _SMALLEST_EVENT if pages.lost else 0
        floor = _floor(found, unread, now_ms)
        found.settle(floor, pages.lost, now_ms)
        faults.point("salvage.read")
        new = Restoration(building, floor)
        try:
            for session in found.sessions.values():
                new.session(session)
            events = 0
            behind = dict.fromkeys(found.sinks, 0)
            for record in pages.records():
                if (row := _event(record)) is None:
                    continue
                session = found.sessions[row.harness, row.session]
                if session.forgotten_ms is not None and row.time_ms < session.forgotten_ms:
                    continue  # It was erased: were it still to be read somewhere, it may not come back.
                if new.event(session.sid, row):
                    events += 1
                    for name, (position, _) in found.sinks.items():
                        behind[name] += row.position > position
            for name in found.jobs:
                new.job(name)
            for sid, (want, queued_ms) in found.reads.items():
                if sid in found.by_sid:
                    new.read(found.sessions[found.by_sid[sid]].sid, want, queued_ms)
            for name, (position, state) in found.sinks.items():
                new.sink(name, position, state)
            report = Salvage(
                when_ms=now_ms,
                why=why,
                aside=aside.name,
                events=events,
                sessions=len(found.sessions),
                sinks=len(found.sinks),
                missing={
                    name: missing
                    for name, (position, _) in found.sinks.items()
                    if (missing := found.last_position - position - behind[name]) > 0
                },
            )
            new.note("salvaged", msgspec.json.encode(report).decode())
            new.finish(found.last_position + unread)
            return report
        finally:
            new.close()


def _floor(found: _Found, unread: int, now_ms: int) -> int:
    """A number that no session has reached whose counter could not be read.

    ``unread`` is how many events there may have been behind the last one that anything knows of.
    """
    if found.sequence is None or found.seq_floor is None:
        return max(now_ms, *found.counters())
    return max(found.seq_floor + found.last_position + unread + 1, *found.counters())


class _Found:
    """Who and what stands in the pages that could be read."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], Session] = {}
        self.by_sid: dict[int, tuple[str, str]] = {}
        self.sinks: dict[str, tuple[int, bytes]] = {}
        self.jobs: set[str] = set()
        self.reads: dict[int, tuple[dict[str, Any], int]] = {}
        self.sequence: int | None = None
        self.seq_floor: int | None = None
        self._last = 0
        self._met: dict[tuple[str, str], _Met] = {}

    @property
    def last_position(self) -> int:
        """The last position that anything knows of."""
        cursors = (position for position, _ in self.sinks.values())
        return max(self._last, self.sequence or 0, *cursors, 0)

    def counters(self) -> Iterator[int]:
        """How far each session is known to have come."""
        yield 0
        yield from (session.next_seq for session in self.sessions.values())
        yield from (met.next_seq for met in self._met.values())

    def take(self, record: Record) -> None:
        """Look at a record: a table's rows are told by what stands in their columns."""
        if (row := _event(record)) is not None:
            self._last = max(self._last, row.position)
            key = (row.harness, row.session)
            if (met := self._met.get(key)) is None:
                met = self._met[key] = _Met()
            met.see(row)
            return
        match record.rowid, record.values:
            case int(sid), (
                None,
                str(harness),
                str(id_),
                int(seq),
                int(first),
                int(last),
                str(kind),
                block,
                state,
                transcript,
                (int() | None) as forgotten,
            ):
                key = (harness, id_)
                # Twice where a page that was moved is also there as it was before: the later one counts.
                if key not in self.sessions or seq >= self.sessions[key].next_seq:
                    self.by_sid[sid] = key
                    facts = (object_of(block), object_of(state), object_of(transcript))
                    self.sessions[key] = Session(sid, harness, id_, seq, first, last, kind, *facts, forgotten)
            case int(sid), (None, want, int(queued), (int() | None)) if object_of(want):
                self.reads[sid] = (object_of(want), queued)
            case None, (str(name), int(position), bytes(state)) if position >= 0 and _named(state) == name:
                # Of two the one that is less far: rather once more than never.
                if name not in self.sinks or position < self.sinks[name][0]:
                    self.sinks[name] = (position, state)
            case None, (str(name),):
                self.jobs.add(name)
            case int(), ("events", int(sequence)):
                self.sequence = max(self.sequence or 0, sequence)
            case None, ("seq_floor", int(floor)):
                self.seq_floor = max(self.seq_floor or 0, floor)
            case _:
                pass

    def settle(self, floor: int, uncertain: bool, now_ms: int) -> None:
        """Let every session that was met have a row, with a ``seq`` it has not used.

        ``uncertain``: what was read of a counter may not be the last that was written.
        """
        for key, met in self._met.items():
            if key not in self.sessions:
                # first_ms is from when on its transcript is read: what was said before it was told.
                lost = Session(0, *key, floor, now_ms, met.last_ms, met.last_type, {}, {}, {}, None)
                lost.forgotten_ms = met.forgotten_ms
                if met.turn:
                    lost.transcript = {"turn": met.turn}
                self.sessions[key] = lost
        for sid, (key, session) in enumerate(self.sessions.items(), 1):
            known = self._met[key].next_seq if key in self._met else 0
            session.sid = sid
            session.next_seq = max(session.next_seq, known, floor if uncertain else 0)


class _Met:
    """What a session's events say of it."""

    def __init__(self) -> None:
        self.next_seq = 0
        self.last_ms = 0
        self.last_type = ""
        self.turn = 0
        self.forgotten_ms: int | None = None

    def see(self, row: Row) -> None:
        if row.seq >= self.next_seq:
            self.next_seq, self.last_type = row.seq + 1, row.type
        self.last_ms = max(self.last_ms, row.time_ms)
        if row.type == "session.forgotten":
            self.forgotten_ms = max(self.forgotten_ms or 0, row.time_ms)
        if row.type == "turn.transcript":
            turn = object_of(row.body).get("data", {}).get("turn")
            self.turn = max(self.turn, turn if isinstance(turn, int) else 0)


def _event(record: Record) -> Row | None:
    """The event that a record is: a row whose body is the event that its columns say."""
    rowid, values = record
    # Every record there is comes here twice: as a pattern this would be a quarter of everything.
    if rowid is None or rowid <= 0 or tuple(map(type, values)) != _COLUMNS:
        return None
    columns: tuple[Any, ...] = values
    _, _, seq, kind, time_ms, ruleset, body = columns
    try:
        event = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if event.type != kind or event.session.seq != seq:
        return None
    return Row(rowid, event.harness.name, event.session.id, seq, kind, time_ms, ruleset, body)


_COLUMNS = (type(None), int, int, str, int, int, bytes)
_decode = msgspec.json.Decoder(_Event).decode


def _named(state: bytes) -> str | None:
    try:
        return msgspec.json.decode(state, type=SinkState).name
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
