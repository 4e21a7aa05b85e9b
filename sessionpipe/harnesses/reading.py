"""Reading a transcript that grows, from a cursor: the same for every harness that writes one record a line.

:func:`follow` reads an open file from where the last reading ended to its end, and decides which exchanges
are over and whether the awaited end is among them. What lines mean is the business of what it tells them to
(:class:`Listener`). :func:`exchanges` is all of a reader for a harness whose records come to the steps of
:mod:`sessionpipe.harnesses.conversation`; its :class:`Format` says how.

A file costs what is new in it: the cursor knows where to go on, and a file first seen in its middle is
searched from its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.conversation import (
    Absorbed,
    Answered,
    Begun,
    Conversation,
    Ended,
    Interrupted,
    Meaning,
    Prompt,
    Queued,
    Said,
    Worked,
)
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.transcripts import (
    JUST_BEFORE_MS,
    READING_CHARS,
    Cursor,
    Exchange,
    Reading,
    Want,
    mark,
)
from sessionpipe.protocol import rfc3339

#: How far back a first reading looks for the prompt to begin at.
BACKWARDS = 64 << 20
#: How long a file must not have changed for its writer to be done with a turn whose hook has run.
QUIET_MS = 1_000


class Spoken(Protocol):
    """One exchange. ``user`` and ``assistant`` as strings are its sides; times are epoch milliseconds.

    ``start``: where reading it starts.
    """

    start: int
    asked_ms: int | None
    at_ms: int | None

    @property
    def user(self) -> object: ...

    @property
    def assistant(self) -> object: ...


T = TypeVar("T", bound=Spoken)


class Listener(Protocol[T]):
    """Lines become exchanges: those that are over, in order, and the one that may go on."""

    @property
    def over(self) -> Sequence[T]: ...

    @property
    def open(self) -> T | None: ...

    @property
    def chars(self) -> int:
        """About how much text the exchanges in ``over`` hold."""

    @property
    def ended_ms(self) -> int:
        """The latest time of an exchange's end that was told of for itself; 0 where none was."""

    @property
    def resume(self) -> int:
        """Where reading starts again with nothing lost, once every exchange in ``over`` is delivered."""

    def feed(self, line: jsonl.Line) -> None: ...

    def finish(self) -> None:
        """Nothing more belongs to the open exchange."""

    def is_over(self, spoken: T, want: Want) -> bool:
        """Whether the awaited end is this exchange's, and all of it is in the file."""

    def has_passed(self, want: Want) -> bool:
        """Whether the file has got past the awaited end."""

    def marks(self, spoken: T) -> Collection[str]:
        """Digests of all that the exchange's last message may be known by."""


def follow(
    opened: Opened,
    cursor: dict[str, Any],
    want: Want,
    begin: Callable[[int | None], int | None],
    listen: Callable[[int, Cursor], Listener[T]],
) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`.

    ``begin``: where a first reading starts for a session first seen then (None: at its beginning), or None
    while the file does not hold its own beginning. ``listen``: what lines from there on are told to; the
    cursor is an empty one when what came before has nothing to do with it.
    """
    known, told = Cursor.of(cursor), None
    lost: Collection[str] = ()
    if known.fits(opened):
        start, talk = known.at, listen(known.at, known)
    else:
        # New to us, or not the file it was: what has been delivered is known by its time.
        told = known.sent_ms
        lost = known.said if told is None else ()
        first = begin(told or _since(want))
        if first is None:
            return Reading([], cursor, complete=want.final)
        start, talk = first, listen(first, Cursor.of({}))
    whole = True
    for line in jsonl.forward(opened, start):
        talk.feed(line)
        if talk.chars > READING_CHARS:
            whole = False
            break
    return settle(talk, known, told, want, lambda at: mark(opened, at), whole=whole, lost=lost)


def _since(want: Want) -> int | None:
    """When the session was first seen; where that was by an end alone, what ended just before was seen, too."""
    if want.since_ms is not None and want.since_ms >= want.ended_ms:
        return want.ended_ms - JUST_BEFORE_MS
    return want.since_ms


def settle(
    talk: Listener[T],
    known: Cursor,
    told: int | None,
    want: Want,
    mark_of: Callable[[int], str],
    *,
    whole: bool = True,
    lost: Collection[str] = (),
) -> Reading:
    """What a listener comes to that was told everything behind ``known``; ``whole`` when it was all there is.

    ``told``: exchanges asked for up to then (epoch ms) were delivered, where the cursor's place is lost; ``lost``:
    the last of them by the marks of its words, in a file that says no times.
    ``mark_of``: what the place of a cursor is recognised by.
    """
    ended = whole and talk.open is not None and talk.is_over(talk.open, want)
    if ended:
        talk.finish()
    complete = whole and (
        ended
        or want.final
        or known.done_ms >= want.ended_ms
        or talk.has_passed(want)
        or (talk.open is None and any(talk.is_over(one, want) for one in talk.over[-1:]))
        or (talk.open is None and not talk.over and known.delivered(want))
    )
    over = [one for one in talk.over if told is None or (one.asked_ms or 0) > told]
    delivered = [at for at, one in enumerate(over) if {*talk.marks(one)} & {*lost}] if lost else []
    over = over[delivered[-1] + 1 :] if delivered else over
    early = next((at for at, one in enumerate(over) if want.is_early(one.asked_ms)), len(over))
    resume = min([talk.resume, *(one.start for one in over[early:])])
    over = over[:early]
    following = Cursor(
        at=resume,
        mark=mark_of(resume),
        sent_ms=max([known.sent_ms or 0, *(one.asked_ms or 0 for one in over)]) or None,
        done_ms=max(known.done_ms, want.ended_ms if complete else 0),
        said=sorted(talk.marks(over[-1])) if over else known.said,
        said_ms=(over[-1].at_ms or 0) if over else known.said_ms,
        ended_ms=max(known.ended_ms, talk.ended_ms),
    )
    return Reading([_exchange(one, want) for one in over], following._asdict(), complete)


def _exchange(spoken: Spoken, want: Want) -> Exchange:
    at_ms = want.ended_ms if spoken.at_ms is None else spoken.at_ms
    return Exchange(str(spoken.user), str(spoken.assistant), rfc3339(at_ms))


# --- a conversation of steps ----------------------------------------------------------------------


def _at_once(opened: Opened) -> int | None:
    return 0


def _as_it_is(path: Path, files: Files) -> Opened | None:
    return files.open(path)


@dataclass(frozen=True)
class Format:
    """How one harness's transcripts are read.

    ``find(claimed, files)``: the file a payload's path names, if the harness would name one so.
    ``meaning(opened)``: what the lines of an open file mean, to be told from any line on.
    ``own(opened)``: where the session's own lines begin, behind what it copied of another one; None when
    that is not written yet.
    ``open(path, files)``: the file, open.
    ``backward``: a line means the same whatever stands before it, so that a prompt may be looked for from
    the end. ``parting``: nothing says that a turn has ended but that its last message makes no call.
    ``anew(line)``: when (epoch ms) a program began to write from that line on, if it says so: what stands before
    is over, so that reading forwards need not begin at the file's beginning.
    ``timed``: records say when they were written; if not, a first reading begins at the last prompt.
    ``quiet``: nothing that is written tells a turn's end; once its hook has run, last words are at the
    end of a file that was left alone for :data:`QUIET_MS`.
    """

    find: Callable[[object, Files], Path | None]
    meaning: Callable[[Opened], Meaning]
    own: Callable[[Opened], int | None] = _at_once
    open: Callable[[Path, Files], Opened | None] = _as_it_is
    backward: bool = True
    parting: bool = False
    anew: Callable[[bytes], int | None] | None = None
    timed: bool = True
    quiet: bool = False


def exchanges(
    format: Format, path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files
) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`.

    A transcript that doesn't exist, yet or at all, holds nothing.
    """
    found = format.find(str(path), files) if path is not None else None
    opened = format.open(found, files) if found else None
    if opened is None:
        return Reading([], cursor, complete=want.final)
    with opened:
        return follow(
            opened,
            cursor,
            want,
            lambda since_ms: starting_point(format, opened, since_ms),
            lambda start, known: Conversation(
                format.meaning(opened),
                start,
                known.said,
                ended_ms=known.ended_ms,
                settled=format.quiet and _is_quiet(opened),
            ),
        )


def _is_quiet(opened: Opened) -> bool:
    return time.time_ns() // 1_000_000 - opened.version[1] // 1_000_000 >= QUIET_MS


def starting_point(format: Format, opened: Opened, since_ms: int | None) -> int | None:
    """Where a session begins for us: at the prompt that was being answered at ``since_ms``.

    Behind that prompt's turn when it was over by then: a resumed session's past, or what a forked
    session copied from its parent, is not what we were asked to watch.
    """
    own = format.own(opened)
    if own is None or since_ms is None:
        return own
    if not format.backward:
        return _by_going_forward(format, opened, own, since_ms)
    over_at, busy, lowest = None, False, opened.size
    meaning = format.meaning(opened)
    for line in jsonl.backward(opened, BACKWARDS):
        if line.start < own:
            break
        lowest = line.start
        for step in meaning.steps(line):
            if isinstance(step, Queued | Absorbed):
                continue
            if format.timed and (step.ms is None or step.ms > since_ms):
                continue
            match step:
                case Prompt() | Begun():
                    return line.start if over_at is None or not format.timed else over_at
                case Said() | Worked():
                    busy = True
                case Ended() | Interrupted() | Answered() if not busy and over_at is None:
                    over_at = line.end
    return lowest if over_at is None else over_at


def _by_going_forward(format: Format, opened: Opened, own: int, since_ms: int) -> int:
    own = max(own, _last_anew(format, opened, since_ms))
    start, over_at, meaning = own, None, format.meaning(opened)
    for line in jsonl.forward(opened, own):
        for step in meaning.steps(line):
            if isinstance(step, Queued | Absorbed) or step.ms is None or step.ms > since_ms:
                continue
            match step:
                case Prompt() | Begun():
                    start, over_at = line.start, None
                case Ended(surely=True) | Interrupted():
                    over_at = line.end
                case Said(working=False) if format.parting:
                    # A time in whole seconds may be any within its second.
                    over_at = line.end if step.ms % 1000 or step.ms + 999 <= since_ms else None
                case Said() | Worked() if format.parting:
                    over_at = None
    return start if over_at is None else over_at


def _last_anew(format: Format, opened: Opened, since_ms: int) -> int:
    """Where the program began to write that was writing at ``since_ms``, as far as it is known."""
    if format.anew is None:
        return 0
    for line in jsonl.backward(opened, BACKWARDS):
        began_ms = format.anew(line.data)
        if began_ms is not None and began_ms <= since_ms:
            return line.start
    return 0
