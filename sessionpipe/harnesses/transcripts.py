"""What every transcript reader takes and gives (protocol §4, ``turn.transcript``).

A reader is called with the path a hook named, the cursor it returned the last time (``{}`` at first)
and a :class:`Want`; it returns a :class:`Reading`. It returns every exchange that is completed behind
the cursor, in order; none twice, none in parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from sessionpipe.harnesses.files import Opened

#: How many characters of a side a reader keeps; ten times what an event carries.
SIDE_CHARS = 200_000
#: How much text one reading returns; the next one goes on behind it.
READING_CHARS = 16 << 20
#: How long before an end its last words may have been said to be taken for them unseen.
JUST_BEFORE_MS = 2_000


class Want(NamedTuple):
    """The end that is awaited.

    ``said``: the :func:`digest` of the last assistant message, or of its id in the file, when the harness
    told us. ``final``: the
    file will not grow any more. ``since_ms``: when the session's first hook ran; a session seen from its
    middle on begins at the prompt that was being answered then (None: at the file's beginning).
    ``ended_ms``: when the turn or the session ended. ``session``: its id, for a store that holds many.
    ``stopped``: the turn was interrupted or failed, so that it may have no last words. ``now_ms``: when the
    file is read; it may hold more by then than our hooks have told. None: all of it is wanted.
    """

    said: str | None
    final: bool
    since_ms: int | None
    ended_ms: int
    session: str = ""
    stopped: bool = False
    now_ms: int | None = None

    def is_early(self, asked_ms: int | None) -> bool:
        """Whether an exchange asked for then is of a turn that this read must not tell: its own end will.

        A worker that lags has not recorded the hooks of that turn yet, and its exchange would come before
        its start. Never one from the future: the clock went back, and the file's times say nothing.
        """
        if asked_ms is None or self.now_ms is None:
            return False
        return self.ended_ms < asked_ms <= self.now_ms


def digest(text: str) -> str | None:
    """What is remembered of a last message while its transcript is waited for.

    The message itself may hold anything a person or a model said, and has not been redacted; to tell
    whether the transcript holds it, a digest will do: without its white space, because a harness joins
    and trims a message's blocks in its own way. None of nothing.
    """
    squashed = "".join(text.split())
    return hashlib.sha256(squashed.encode("utf-8", "surrogatepass")).hexdigest() if squashed else None


class Exchange(NamedTuple):
    """What one side asked and the other said, raw and uncut below :data:`SIDE_CHARS`.

    ``user`` is empty when the harness wrote the prompt, ``assistant`` when nothing had been said.
    ``at`` is the RFC 3339 time of the last message.
    """

    user: str
    assistant: str
    at: str


class Reading(NamedTuple):
    """What a reader found. ``cursor`` is JSON-able; ``complete`` when the awaited end is in the file."""

    exchanges: list[Exchange]
    cursor: dict[str, Any]
    complete: bool


class Side:
    """One side of an exchange: pieces joined, bounded."""

    def __init__(self, separator: str, text: str = "") -> None:
        self._separator = separator
        self._pieces: dict[str | int, str] = {}
        self._length = self._added = 0
        self.add(text)

    def add(self, text: str) -> None:
        self._added += 1
        self.put(self._added, text)

    def put(self, key: str | int, text: str) -> None:
        """A piece that may be put again under its key, and then takes the place of what it was."""
        if old := self._pieces.get(key):
            self._length -= len(old) + len(self._separator)
        if text and self._length < SIDE_CHARS:
            self._pieces[key] = text[: SIDE_CHARS - self._length]
            self._length += len(self._pieces[key]) + len(self._separator)
        else:
            self._pieces.pop(key, None)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return self._separator.join(self._pieces.values())


class Cursor(NamedTuple):
    """How far a transcript that grows was delivered.

    ``at``: where to go on. ``mark``: what the bytes before it hash to, or it is another file.
    ``sent_ms``: the time of the latest prompt delivered. ``done_ms``: every end up to then was delivered.
    ``said``: digests of the last words delivered, ``said_ms`` when they were said. ``ended_ms``: the latest
    time of a turn's end that the file tells itself.
    """

    at: int
    mark: str
    sent_ms: int | None
    done_ms: int
    said: list[str]
    said_ms: int
    ended_ms: int = 0

    @classmethod
    def of(cls, cursor: Mapping[str, Any]) -> Self:
        """The cursor that was stored; one that fits no file at first, or when it isn't one of ours."""
        at, mark, sent_ms, done_ms, said, said_ms, ended_ms = (cursor.get(field) for field in cls._fields)
        if isinstance(at, int) and isinstance(mark, str) and isinstance(done_ms, int):
            return cls(
                at,
                mark,
                sent_ms if isinstance(sent_ms, int) else None,
                done_ms,
                [word for word in said if isinstance(word, str)] if isinstance(said, list) else [],
                said_ms if isinstance(said_ms, int) else 0,
                ended_ms if isinstance(ended_ms, int) else 0,
            )
        return cls(-1, "", None, 0, [], 0)

    def told_until(self, asked_ms: int) -> Self:
        """Where to go on when another source has told every exchange asked for up to then."""
        # No file is behind a cursor without a mark, so that its place in one is found by that time.
        return self._replace(at=-1, mark="", sent_ms=max(self.sent_ms or 0, asked_ms))

    def fits(self, opened: Opened) -> bool:
        """Whether the file is still the one the cursor was made for, at most grown."""
        return 0 <= self.at <= opened.size and mark(opened, self.at) == self.mark

    def delivered(self, want: Want) -> bool:
        """Whether the awaited end was delivered before it was awaited.

        Two ends that come within moments are recorded one while the transcript is read for the other: the
        reading finds both, and the later one's words would be waited for in vain. Only words said just
        before count, because another turn may end in the same ones.
        """
        return want.said in self.said and want.ended_ms - self.said_ms < JUST_BEFORE_MS


def mark(opened: Opened, at: int) -> str:
    """What the 256 bytes before ``at`` hash to: whether a file still goes on from there."""
    begin = max(0, at - 256)
    return hashlib.sha256(opened.read_at(begin, at - begin)).hexdigest()[:16]
