"""Pi's session file as a transcript: the exchanges behind a cursor.

Pi appends an entry when its message has ended, so what a run said is in the file before the run settles;
only a slow disk can be behind. The file is a tree, and read in the order in which it was written: an
abandoned branch was said, too, and each entry is there once. Where a line does not go on from the one
before it, a run has ended there. What a fork copied from its parent, with the same ids, is older than the
fork's header.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.pi_exchanges import STOPPED, Conversation, Talk
from sessionpipe.harnesses.pi_session import Record, read_content, read_record
from sessionpipe.harnesses.reading import BACKWARDS, follow
from sessionpipe.harnesses.transcripts import Cursor, Reading, Want, digest

#: Where our extension cuts the words it tells, in UTF-16 units.
_TOLD_UNITS = 20_000

# --- entries --------------------------------------------------------------------------------------


def _message(record: Record) -> dict[str, Any] | None:
    """The message of an entry as :class:`Conversation` takes it; None when it has none."""
    if record.type == "custom_message":
        return {"role": "custom"}
    message = record.read_message()
    if message is None:
        return None
    content = read_content(message) if message.role in ("user", "assistant") else None
    return {"role": message.role, "content": content, "stopReason": message.stopReason}


class _Reader:
    """Lines of a session file, put into a conversation."""

    def __init__(self, start: int, born_ms: int | None, copied: Container[str]) -> None:
        self.talk = Conversation()
        # The latest time of any entry.
        self._latest_ms = 0
        self._read = start
        self._born_ms = born_ms
        self._copied = copied
        self._last: object = None

    @property
    def resume(self) -> int:
        """Where reading starts again with nothing lost, once every exchange that is over is delivered."""
        return self.talk.open.start if self.talk.open else self._read

    @property
    def over(self) -> list[Talk]:
        return self.talk.over

    @property
    def open(self) -> Talk | None:
        return self.talk.open

    @property
    def chars(self) -> int:
        return self.talk.chars

    @property
    def ended_ms(self) -> int:
        return 0  # Words end a run, or nothing does.

    def finish(self) -> None:
        self.talk.close()

    def is_over(self, talk: Talk, want: Want) -> bool:
        """Whether the awaited end is the end of this exchange, and all of it is in the file."""
        if want.final:
            return True
        if talk.asked_ms is not None and talk.asked_ms > want.ended_ms:
            return False
        return want.said is None or want.said in self.marks(talk)

    def has_passed(self, want: Want) -> bool:
        return self._latest_ms > want.ended_ms

    def marks(self, talk: Talk) -> set[str]:
        """Digests of everything that the last message of an exchange may be known by.

        Its words only when it ends a run: the same words may have been said beside a call before.
        """
        told = talk.last_words.encode("utf-16-le", "surrogatepass")[: 2 * _TOLD_UNITS].decode(
            "utf-16-le", "ignore"
        )
        known_by = [talk.last_id or "", *([talk.last_words, told] if talk.is_over else [])]
        return {found for text in known_by if (found := digest(text))}

    def feed(self, line: jsonl.Line) -> None:
        entry = read_record(line.data)
        self._read = line.end
        if entry is None or entry.type == "session":
            # Behind a line that can't be read any line may go on.
            self._last = None
            return
        if self._last is not None and entry.parentId != self._last:
            self.talk.close()
        name = entry.id if isinstance(entry.id, str) else None
        self._last, ms = name, entry.ms
        if name in self._copied or (self._born_ms is not None and ms is not None and ms < self._born_ms):
            return
        self._latest_ms = max(self._latest_ms, ms or 0)
        self.talk.take(_message(entry), ms=ms, start=line.start, message_id=name)


# --- the file -------------------------------------------------------------------------------------


def find(claimed: object, files: Files) -> Path | None:
    """The session file a payload names."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: len(name) <= 255)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`.

    ``want.said`` is the digest of the words, or of the entry's id, of the model's last message. A file
    that doesn't exist holds nothing: Pi makes it when the first message has ended.
    """
    found = find(str(path), files) if path is not None else None
    opened = files.open(found) if found else None
    if opened is None:
        return Reading([], cursor, complete=want.final)
    with opened:
        header = _header(opened)
        born = header.ms if header and isinstance(header.parentSession, str) else None

        def listen(start: int, known: Cursor) -> _Reader:
            copied = _copied(opened, header, files) if header and known.at < 0 else frozenset()
            return _Reader(start, born, copied)

        return follow(opened, cursor, want, lambda since_ms: _starting_point(opened, since_ms), listen)


def _header(opened: Opened) -> Record | None:
    """The header of a session file; None when it doesn't begin with one."""
    first = next((record for line in jsonl.forward(opened) if (record := read_record(line.data))), None)
    return first if first and first.type == "session" else None


def _copied(opened: Opened, header: Record, files: Files) -> frozenset[str]:
    """The ids of what a fork copied where times don't tell: a clock that went back made the header the older.

    Copies come first, so the first entry shows it. Empty for most, whose copies are older than the header.
    """
    entries = (record for line in jsonl.forward(opened) if (record := read_record(line.data)))
    first = next((entry.ms for entry in entries if entry.type != "session" and entry.ms is not None), None)
    if first is None or header.ms is None or first < header.ms:
        return frozenset()
    parent = find(header.parentSession, files)
    source = files.open(parent) if parent else None
    if source is None or source.identity == opened.identity:
        return frozenset()
    with source:
        if source.size > BACKWARDS:
            return frozenset()
        return frozenset(
            record.id
            for line in jsonl.forward(source)
            if (record := read_record(line.data)) and isinstance(record.id, str)
        )


def _starting_point(opened: Opened, since_ms: int | None) -> int:
    """Where a session begins for us: at the prompt that was being answered at ``since_ms``.

    Behind that prompt's run when it was over by then: a resumed session's past is not what we were asked
    to watch.
    """
    if since_ms is None:
        return 0
    lowest = opened.size
    taken_back: set[str] = set()
    for line in jsonl.backward(opened, BACKWARDS):
        entry = read_record(line.data)
        ms = entry.ms if entry else None
        if entry is None or ms is None or ms > since_ms:
            lowest = line.start
            continue
        if entry.type == "context_edit" and entry.replacement is None and isinstance(entry.targetId, str):
            # An attempt that is tried again does not end its run.
            taken_back.add(entry.targetId)
        message = _message(entry) or {}
        match message.get("role"):
            case "user":
                return line.start
            case "assistant" if message["stopReason"] in STOPPED and entry.id not in taken_back:
                return line.end
        lowest = line.start
    return lowest
