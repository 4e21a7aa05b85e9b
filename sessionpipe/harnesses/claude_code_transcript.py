"""Claude Code's transcripts: what its records mean, and the exchanges they hold.

Three parts: :func:`steps` says what one record does to a conversation; :class:`Conversation` puts
steps together into turns, purely; :func:`exchanges` reads the file, from the cursor to its end, and
decides which turns are over.

Seen in recordings, and built on:

* An assistant message is one record per content block; a block of a message that also calls a tool has
  ``stop_reason: "tool_use"``, so a turn's last words are known by not having it.
* In the terminal the last words may reach the file 100 ms after the Stop hook ran: the turn is over when
  the text Stop told is at its end, and nothing is behind it. An end that told no text is proved by a
  ``stop_hook_summary`` written after the hook ran, or by a ``turn_duration``, which is only written when
  a turn is really over (another program's Stop hook may have continued it).
* An interruption fires no hook at all; a record says it.
* A prompt typed while a turn runs is an ``attachment`` when it was taken into that turn (its own exchange
  if something had been said before it, else part of the ask), a prompt like any other when it waited.
* Records of other kinds (the system prompt and tool schemas among them) are never looked into.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.transcripts import (
    READING_CHARS,
    Cursor,
    Exchange,
    Reading,
    Side,
    Want,
    digest,
    mark,
)
from sessionpipe.protocol import rfc3339

#: How far back a first reading looks for the prompt to begin at.
_BACKWARDS = 64 << 20

# --- records --------------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a transcript record that mean anything here; each may be anything at all."""

    type: Any = None
    subtype: Any = None
    timestamp: Any = None
    message: Any = None
    attachment: Any = None
    origin: Any = None
    promptSource: Any = None
    isMeta: Any = None
    isSidechain: Any = None
    isCompactSummary: Any = None
    isVisibleInTranscriptOnly: Any = None
    isApiErrorMessage: Any = None
    operation: Any = None
    reason: Any = None
    content: Any = None
    customTitle: Any = None
    aiTitle: Any = None
    version: Any = None
    requestSessionId: Any = None


DECODER = msgspec.json.Decoder(Record)
SYNTHETIC = "<synthetic>"


class Prompt(NamedTuple):
    """A prompt. ``ask``: the person's words; else a ``command`` of the harness's own, or its words (``injected``)."""

    kind: str
    text: str
    ms: int | None


class Absorbed(NamedTuple):
    """Words the person typed while a turn ran, taken into it; ``text`` is None where only the queue has them."""

    text: str | None
    ms: int | None


class Queued(NamedTuple):
    """Words that leave the queue to be absorbed."""

    text: str


class Said(NamedTuple):
    """An assistant record: its text, whether it is of a message that goes on with a tool."""

    message: str
    texts: list[str]
    working: bool
    ms: int | None


class Failed(NamedTuple):
    """The harness's words for an API error: they end a turn, and nobody said them."""

    text: str
    ms: int | None


class Worked(NamedTuple):
    """A tool's result: the turn goes on."""

    ms: int | None


class Interrupted(NamedTuple):
    ms: int | None


class Ended(NamedTuple):
    """A turn's end. ``surely``: not only that Stop hooks ran, one of which may have continued it."""

    surely: bool
    ms: int | None


class Answered(NamedTuple):
    """The harness answered its own command."""

    ms: int | None


Step = Prompt | Absorbed | Queued | Said | Failed | Worked | Interrupted | Ended | Answered

_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_COMMAND = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL = re.compile(r"\s*<bash-input>(.*?)</bash-input>", re.DOTALL)
_OUTPUT = re.compile(r"\s*<local-command-(?:stdout|stderr|caveat)>")
_SHELL_OUTPUT = re.compile(r"\s*<bash-std(?:out|err)>")
# Blocks the harness writes around a prompt, or in its place. An editor's extension puts what is open
# there beside the words the person typed.
_WRAPPED = re.compile(r"\s*<(system-reminder|ide_[a-z_]+)>.*</\1>\s*", re.DOTALL)
_INJECTED = re.compile(
    r"\s*<(?:task-notification|system-reminder|teammate-message|agent-message|cross-session-message|channel)[\s>]"
)
_PERSONS = frozenset({"human", "unclassified"})


_SLASH = re.compile(r"\s*/[A-Za-z0-9_:.-]+(?:\s|$)")


def is_ask(text: str) -> bool:
    """Whether a prompt's text is the person's words: not a command, nor a block the harness wrote."""
    return not (
        _SLASH.match(text)
        or _INJECTED.match(text)
        or _OUTPUT.match(text)
        or _SHELL_OUTPUT.match(text)
        or _SHELL.match(text)
        or _COMMAND.search(text)
        or _INTERRUPTED.fullmatch(text.strip())
    )


def steps(record: Record) -> Iterator[Step]:
    """What a record does to the conversation; nothing for most of them."""
    if record.isSidechain is True:
        return
    ms = jsonl.epoch_ms(record.timestamp)
    match record.type:
        case "user":
            yield from _user(record, ms)
        case "assistant":
            yield from _assistant(record, ms)
        case "system" if record.subtype == "turn_duration":
            yield Ended(True, ms)
        case "system" if record.subtype == "stop_hook_summary":
            yield Ended(False, ms)
        case "attachment":
            yield from _attachment(record, ms)
        case "queue-operation" if record.operation == "remove" and record.reason == "absorbed_mid_turn":
            if isinstance(record.content, str) and not _INJECTED.match(record.content):
                yield Queued(record.content)


def _user(record: Record, ms: int | None) -> Iterator[Step]:
    if record.isMeta is True or record.isCompactSummary is True or record.isVisibleInTranscriptOnly is True:
        return
    texts, kinds = _texts(record.message, "content")
    if "tool_result" in kinds:
        yield Worked(ms)
    if any(_INTERRUPTED.fullmatch(text.strip()) for text in texts):
        yield Interrupted(ms)
        return
    if "tool_result" in kinds or not kinds:
        return  # A text beside a tool's result is the harness's.
    own = [text for text in texts if not _WRAPPED.fullmatch(text)]
    if texts and not own:
        return
    text = "\n".join(own)
    if _OUTPUT.match(text):
        yield Answered(ms)
    elif _SHELL_OUTPUT.match(text):
        return
    elif shell := _SHELL.match(text):
        yield Prompt("command", "! " + shell[1], ms)
    elif command := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        yield Prompt("command", f"{command[1]} {arguments[1].strip() if arguments else ''}".rstrip(), ms)
    elif _by_a_person(record.origin) and record.promptSource != "system" and not _INJECTED.match(text):
        yield Prompt("ask", text, ms)
    else:
        yield Prompt("injected", "", ms)


def _assistant(record: Record, ms: int | None) -> Iterator[Step]:
    message = record.message if isinstance(record.message, dict) else {}
    texts, kinds = _texts(message, "content")
    if record.isApiErrorMessage is True:
        yield Failed("\n".join(texts), ms)
    elif message.get("model") != SYNTHETIC:
        said = [text.strip() for text in texts if text.strip()]
        working = "tool_use" in kinds or message.get("stop_reason") == "tool_use"
        yield Said(str(message.get("id")), said, working, ms)


def _attachment(record: Record, ms: int | None) -> Iterator[Step]:
    attachment = record.attachment
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return
    if attachment.get("commandMode", "prompt") != "prompt" or attachment.get("isMeta") is True:
        return
    if not _by_a_person(attachment.get("origin", record.origin)):
        return
    if "prompt" not in attachment:
        yield Absorbed(None, ms)
        return
    texts, _ = _texts(attachment, "prompt")
    text = "\n".join(texts)
    if text.strip() and not _INJECTED.match(text):
        yield Absorbed(text, ms)


def _by_a_person(origin: object) -> bool:
    kind = origin.get("kind") if isinstance(origin, dict) else None
    return kind is None or kind in _PERSONS


def _texts(holder: object, field: str) -> tuple[list[str], set[str]]:
    """The texts of a content (a string, or blocks), and the types of its blocks."""
    content = holder.get(field) if isinstance(holder, dict) else None
    if isinstance(content, str):
        return [content], {"text"}
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    return texts, {kind for b in blocks if isinstance(kind := b.get("type"), str)}


# --- the conversation -----------------------------------------------------------------------------


class Turn:
    """A prompt and what was said to it, so far."""

    def __init__(self, start: int, prompt: Prompt) -> None:
        self.start = start  # Where its first record starts.
        self.kind = prompt.kind
        self.asked_ms = prompt.ms
        self.at_ms = prompt.ms
        self.user = Side("\n\n", prompt.text)
        self.assistant = Side("\n\n")
        self.answered = False
        self.stopped = False  # By the person, or by an error.
        # What the turn's end could be recognised by, as long as nothing comes behind it:
        self.last_words: tuple[str, ...] = ()
        self.error: str | None = None
        self.hooks_ran_ms: int | None = None
        self._message = ""
        self._tail: list[str] = []

    def say(self, step: Said) -> None:
        self.answered = True
        self.goes_on()
        if not step.texts:
            return
        self._tail = [*self._tail, *step.texts] if step.message == self._message else step.texts
        self._message = step.message
        for text in step.texts:
            self.assistant.add(text)
        self.at_ms = step.ms if step.ms is not None else self.at_ms
        if not step.working:
            self.last_words = (self._tail[-1], "".join(self._tail))

    def goes_on(self) -> None:
        self.last_words, self.error, self.hooks_ran_ms = (), None, None

    @property
    def counts(self) -> bool:
        """Whether anything was exchanged: the harness answers its own commands, and wakes itself for nothing."""
        if self.assistant:
            return True
        return self.kind == "ask" or (self.kind == "command" and (self.answered or self.stopped))


class Conversation:
    """Turns put together from records, in file order. Pure; what it keeps is bounded by the turns."""

    def __init__(self, start: int = 0) -> None:
        self.over: list[Turn] = []
        self.open: Turn | None = None
        #: The latest time of a prompt, or of a turn's end, in the records so far.
        self.latest_ms = 0
        #: How much text the turns in ``over`` hold.
        self.chars = 0
        self._read = start
        self._absorbed: deque[tuple[str, int]] = deque(maxlen=64)

    @property
    def resume(self) -> int:
        """Where reading starts again with nothing lost, once every turn in ``over`` is delivered."""
        return self.open.start if self.open else self._read

    def feed(self, record: Record | None, start: int, end: int) -> None:
        """The next line of the file, from ``start`` to ``end``; None for one that is no record."""
        for step in steps(record) if record else ():
            self._take(step, start)
        self._read = end

    def finish(self) -> None:
        """Nothing more belongs to the open turn."""
        if self.open and self.open.counts:
            self.over.append(self.open)
            self.chars += len(self.open.user) + len(self.open.assistant)
        self.open = None

    def _take(self, step: Step, start: int) -> None:
        turn = self.open
        match step:
            case Prompt():
                self.finish()
                self._seen(step.ms)
                self.open = Turn(start, step)
            case Queued():
                self._absorbed.append((step.text, start))
            case Absorbed():
                text = step.text
                if text is None:
                    text, start = self._absorbed.popleft() if self._absorbed else ("", start)
                else:
                    self._absorbed.clear()
                if text and turn and not turn.assistant:
                    turn.user.add(text)
                    turn.kind = "ask"
                elif text:
                    self.finish()
                    self.open = Turn(start, Prompt("ask", text, step.ms))
            case Said():
                if turn is None and step.texts:
                    # Somebody's Stop hook sent the assistant on after its end had been delivered.
                    turn = self.open = Turn(start, Prompt("injected", "", step.ms))
                if turn:
                    turn.say(step)
            case Worked() if turn:
                turn.goes_on()
            case Failed() if turn:
                turn.goes_on()
                turn.stopped, turn.error = True, step.text
            case Interrupted():
                self._seen(step.ms)
                if turn:
                    turn.stopped = True
                    self.finish()
            case Ended():
                self._seen(step.ms)
                # An end that is older than the prompt is the end of the turn before.
                if turn and (step.ms is None or turn.asked_ms is None or step.ms >= turn.asked_ms):
                    if step.surely:
                        self.finish()
                    else:
                        turn.hooks_ran_ms = step.ms
            case Answered() if turn and turn.kind == "command" and not turn.answered:
                self.open = None

    def _seen(self, ms: int | None) -> None:
        self.latest_ms = max(self.latest_ms, ms or 0)


# --- the file -------------------------------------------------------------------------------------

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}\.jsonl")


def find(claimed: object, files: Files) -> Path | None:
    """The transcript a payload names, if its name is one Claude Code would give."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`.

    A transcript that doesn't exist, yet or at all (``--no-session-persistence``), holds nothing.
    """
    found = find(str(path), files) if path is not None else None
    opened = files.open(found) if found else None
    if opened is None:
        return Reading([], cursor, complete=want.final)
    with opened:
        known = Cursor.of(cursor)
        told = None
        if known.fits(opened):
            start = known.at
        else:
            # New to us, or not the file it was: what has been delivered is known by its time.
            told = known.sent_ms
            start = _starting_point(opened, told or want.since_ms)
        talk, whole = Conversation(start), True
        for line in jsonl.forward(opened, start):
            talk.feed(jsonl.decode(line.data, DECODER), line.start, line.end)
            if talk.chars > READING_CHARS:
                whole = False
                break
        complete = whole and (
            known.done_ms >= want.ended_ms
            or _has_ended(talk, want)
            or (talk.open is None and not talk.over and known.delivered(want))
        )
        if whole and talk.open and _is_over(talk.open, want):
            complete = True
            talk.finish()
        turns = [turn for turn in talk.over if told is None or (turn.asked_ms or 0) > told]
        following = Cursor(
            at=talk.resume,
            mark=mark(opened, talk.resume),
            sent_ms=max([known.sent_ms or 0, *(turn.asked_ms or 0 for turn in turns)]) or None,
            done_ms=max(known.done_ms, want.ended_ms if complete else 0),
            said=[word for word in map(digest, turns[-1].last_words) if word] if turns else known.said,
            said_ms=(turns[-1].at_ms or 0) if turns else known.said_ms,
        )
    return Reading([_exchange(turn, want) for turn in turns], following._asdict(), complete)


def _starting_point(opened: Opened, since_ms: int | None) -> int:
    """Where a session begins for us: at the prompt that was being answered at ``since_ms``.

    Behind that prompt's turn when it was over by then: a resumed session's past, or what a forked
    session copied from its parent, is not what we were asked to watch.
    """
    if since_ms is None:
        return 0
    over_at, busy, lowest = None, False, opened.size
    for line in jsonl.backward(opened, _BACKWARDS):
        lowest = line.start
        record = jsonl.decode(line.data, DECODER)
        for step in steps(record) if record else ():
            if isinstance(step, Queued | Absorbed) or step.ms is None or step.ms > since_ms:
                continue
            match step:
                case Prompt():
                    return line.start if over_at is None else over_at
                case Said() | Worked():
                    busy = True
                case Ended() | Interrupted() | Answered() if not busy and over_at is None:
                    over_at = line.end
    return lowest if over_at is None else over_at


def _is_over(turn: Turn, want: Want) -> bool:
    """Whether the awaited end is the end of this turn, and all of it is in the file."""
    if want.final:
        return True
    if turn.asked_ms is not None and turn.asked_ms > want.ended_ms:
        return False
    if turn.hooks_ran_ms is not None and turn.hooks_ran_ms >= want.ended_ms:
        return True
    if turn.error is not None and want.said in (None, digest(turn.error)):
        return True
    return want.said is not None and want.said in map(digest, turn.last_words)


def _has_ended(talk: Conversation, want: Want) -> bool:
    """Whether the file has got past the awaited end."""
    if want.final or talk.latest_ms >= want.ended_ms:
        return True
    return talk.open is None and bool(talk.over) and _is_over(talk.over[-1], want)


def _exchange(turn: Turn, want: Want) -> Exchange:
    at_ms = want.ended_ms if turn.at_ms is None else turn.at_ms
    return Exchange(str(turn.user), str(turn.assistant), rfc3339(at_ms))
