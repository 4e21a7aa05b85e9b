"""Gemini CLI's chats: what their lines do to a conversation.

A chat is ``~/.gemini/tmp/<project>/chats/session-<UTC minute>-<8 hex>.jsonl``. Its lines are messages, and changes
to what was written (``$set``). Seen in recordings and in the program, and built on:

* A message is written again under its id, with the calls it made: the last one counts.
* After an interruption, and where a session is loaded again, the whole history is written anew under other ids,
  from the words about the session's context that it begins with; a ``$set`` of all messages follows. Nothing of
  that was said then.
* Each run begins with a header. What was open before it was never ended.
* An interruption in the terminal is an ``info`` of certain words; what had been said is not kept. A run that a
  signal stopped, or an error of the API's, leaves nothing behind its prompt.
* Nothing says that a turn has ended. Its last message makes no calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.conversation import (
    Absorbed,
    Ended,
    Interrupted,
    Meaning,
    Prompt,
    Said,
    Step,
    Worked,
)
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want

#: What a history that is written anew is written within, from one message to the next.
_AT_ONCE_MS = 500

#: What a chat is called.
NAME = r"session-[0-9A-Za-z._-]{1,120}\.jsonl"
_NAME = re.compile(NAME)

# --- lines ----------------------------------------------------------------------------------------


class Change(msgspec.Struct):
    """A ``$set``: all messages may be hundreds, and are not looked into."""

    messages: msgspec.Raw = msgspec.Raw(b"")
    summary: Any = None

    @property
    def is_of_messages(self) -> bool:
        return bytes(memoryview(self.messages)[:1]) == b"["


class Record(msgspec.Struct, rename={"change": "$set"}):
    """What matters of a line; each field may be anything at all. A header has a session and no id."""

    id: Any = None
    type: Any = None
    timestamp: Any = None
    content: Any = None
    displayContent: Any = None
    toolCalls: Any = None
    model: Any = None
    sessionId: Any = None
    startTime: Any = None
    kind: Any = None
    change: Change | None = None

    @property
    def is_header(self) -> bool:
        return isinstance(self.sessionId, str) and self.id is None and self.change is None


DECODER = msgspec.json.Decoder(Record)
_MESSAGES = msgspec.json.Decoder(list[Record])

CANCELLED = "Request cancelled."
_CONTEXT = "<session_context>"
_SNAPSHOT = "<state_snapshot>"
# What the program writes beside a prompt, or in its place.
_BESIDE = ("<hook_context>",)
_INJECTED = ("I ran the following shell command:\n", "Background execution update:\n", _SNAPSHOT)
# What it tells the model in the middle of a turn.
_GOING_ON = ("Please continue.", "System: ", "[System: ")
# What the person typed into a running turn, with what the program makes of it.
_STEERING = re.compile(r"\s*User (?:steering update|hints):\n<user_input>\n(.*?)\n</user_input>", re.DOTALL)


def texts(content: object) -> list[str]:
    """The texts of a content: a string, a part, or parts; thoughts are none."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else [content]
    return [
        part["text"]
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("thought") is not True
    ]


def asked(record: Record) -> str:
    """The words of a message of the user's, as they were typed where the program keeps that, too."""
    told = texts(record.displayContent) or texts(record.content)
    return "\n".join(text for text in told if text.strip() and not text.lstrip().startswith(_BESIDE))


def is_ask(text: str) -> bool:
    """Whether a prompt's text is the person's words: not a command, nor what the program wrote."""
    told = text.lstrip()
    mine = not told.startswith(("/", "?", _CONTEXT, *_BESIDE, *_INJECTED, *_GOING_ON))
    return bool(told) and mine and not _STEERING.match(text)


def is_context(record: Record) -> bool:
    """Whether a message of the user's is where a history begins that is written anew."""
    return record.type == "user" and any(text.startswith(_CONTEXT) for text in texts(record.content))


def snapshots(change: Change) -> list[Record]:
    """The messages of a change that stand for what was compressed."""
    told = bytes(change.messages)
    messages = jsonl.decode(told, _MESSAGES) if _SNAPSHOT.encode() in told else None
    return [one for one in messages or () if any(text.startswith(_SNAPSHOT) for text in texts(one.content))]


class History:
    """Which lines are of a history that is written anew, one after the other."""

    def __init__(self) -> None:
        #: Where it began, while it goes on.
        self.held: int | None = None
        self._last_ms = 0

    def holds(self, record: Record, start: int) -> bool:
        """Whether the next line is of one."""
        ms = jsonl.epoch_ms(record.timestamp)
        if is_context(record):
            self.held, self._last_ms = start, ms or 0
            return True
        if record.is_header or (record.change is not None and record.change.is_of_messages):
            self.held = None
        if self.held is None or ms is None:
            return self.held is not None
        if ms - self._last_ms > _AT_ONCE_MS:
            self.held = None
            return False
        self._last_ms = ms
        return True


class _Meaning(Meaning):
    def __init__(self) -> None:
        self._history = History()

    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, DECODER)
        if record is None or self._history.holds(record, line.start):
            self.held = self._history.held
            return ()
        self.held = self._history.held
        return _steps(record)


def _steps(record: Record) -> Iterator[Step]:
    ms = jsonl.epoch_ms(record.timestamp)
    match record.type:
        case "user":
            yield _of_user(record, asked(record), ms)
        case "gemini" if isinstance(record.id, str):
            said = [text.strip() for text in texts(record.content) if text.strip()]
            yield Said(record.id, said, bool(record.toolCalls), ms, again=True)
        case "info" if CANCELLED in texts(record.content):
            yield Interrupted(ms)
        case _ if record.is_header:
            yield Ended(True, jsonl.epoch_ms(record.startTime))


def _of_user(record: Record, text: str, ms: int | None) -> Step:
    if steered := _STEERING.match(text):
        return Absorbed(steered[1], ms)
    if not text or text.lstrip().startswith(_GOING_ON) or _answers_a_call(record.content):
        return Worked(ms)
    return Prompt("ask", text, ms) if is_ask(text) else Prompt("injected", "", ms)


def _answers_a_call(content: object) -> bool:
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and "functionResponse" in part for part in parts)


# --- the file -------------------------------------------------------------------------------------


def find(claimed: object, files: Files) -> Path | None:
    """The chat a payload names, if its name is one Gemini CLI would give."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


def _anew(line: bytes) -> int | None:
    record = jsonl.decode(line, DECODER) if line.startswith(b'{"sessionId"') else None
    return jsonl.epoch_ms(record.startTime) if record and record.is_header else None


FORMAT = reading.Format(find=find, meaning=lambda _: _Meaning(), backward=False, parting=True, anew=_anew)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``; an interrupted one without what had been said."""
    return reading.exchanges(FORMAT, path, cursor, want, files)
