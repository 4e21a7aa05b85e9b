"""Codex's rollouts: where they are, what their lines do to a conversation, and whose lines they are.

A thread is one file, ``sessions/YYYY/MM/DD/rollout-<local time>-<thread id>.jsonl``, which Codex may compress
(``.zst``) when it is old. Three generations of writers tell a message differently, and some of them twice:

* ``item_completed`` with a ``UserMessage`` or an ``AgentMessage``: what the person and the model said, and
  nothing else. Only this generation numbers its lines (``ordinal``).
* ``user_message`` and ``agent_message`` events before it.
* ``response_item`` messages alone at first. They hold whatever was sent to the model as a message of the
  user's: the harness's own blocks and instruction files are told apart by their shape.

A forked thread's file may begin with a copy of its parent's, whose events name the parent's thread: nothing in
it counts. A subagent's thread has a file of its own, and so has one that Codex keeps to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.conversation import (
    Absorbed,
    Begun,
    Ended,
    Failed,
    Interrupted,
    Meaning,
    Prompt,
    Said,
    Step,
    Worked,
)
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.packed import unpacked
from sessionpipe.harnesses.transcripts import Reading, Want

#: How far into a thread's own lines its beginning is looked at.
HEAD = 1 << 20

_NAME = re.compile(r"rollout-[0-9A-Za-z._-]{1,200}\.jsonl")
_PACKED = ".zst"

# --- lines ----------------------------------------------------------------------------------------


class Line(msgspec.Struct):
    """What matters of a line; each field may be anything at all."""

    type: Any = None
    payload: Any = None
    timestamp: Any = None
    ordinal: Any = None

    @property
    def event(self) -> dict[str, Any]:
        """The payload of an ``event_msg``; empty for other lines."""
        return self.payload if self.type == "event_msg" and isinstance(self.payload, dict) else {}

    def is_of(self, thread: object) -> bool:
        """Whether the line is one of the thread's own, as far as it says."""
        return self.event.get("thread_id") in (None, thread)

    @property
    def message(self) -> dict[str, Any]:
        """The message of a ``response_item``; empty for other lines."""
        is_one = self.type == "response_item" and isinstance(self.payload, dict)
        return self.payload if is_one and self.payload.get("type") == "message" else {}

    @property
    def item(self) -> dict[str, Any]:
        """The item that an event tells is complete; empty for other lines."""
        item = self.event.get("item") if self.event.get("type") == "item_completed" else None
        return item if isinstance(item, dict) else {}


DECODER = msgspec.json.Decoder(Line)


def texts(content: object) -> list[str]:
    """The texts of a message's or an item's content, whatever its blocks are called."""
    blocks = content if isinstance(content, list) else []
    found = [block.get("text") for block in blocks if isinstance(block, dict)]
    return [text for text in found if isinstance(text, str)]


def string(value: object) -> str | None:
    """A string that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


_BLOCK = re.compile(r"\s*<([A-Za-z_][A-Za-z0-9_ -]*)>.*</\1>\s*", re.DOTALL)
_INSTRUCTIONS = re.compile(r"\s*# AGENTS\.md instructions\b.*<INSTRUCTIONS>", re.DOTALL)


def is_ask(text: str) -> bool:
    """Whether a user message is the person's: not a block the harness wrote, nor an instruction file.

    A sentence that merely mentions such a file is the person's.
    """
    return bool(text.strip()) and not _BLOCK.fullmatch(text) and not _INSTRUCTIONS.match(text)


ITEMS, EVENTS, MESSAGES = "items", "events", "messages"


def generation(line: Line) -> str | None:
    """Which generation of writers tells a person's or a model's message so; None for any other line."""
    if line.item.get("type") in ("UserMessage", "AgentMessage"):
        return ITEMS
    if line.event.get("type") in ("user_message", "agent_message"):
        return EVENTS
    return MESSAGES if line.message.get("role") in ("user", "assistant") else None


def asked(line: Line) -> str | None:
    """The words of a message of the user's, one way or the other; None where they are not the person's."""
    text: object = None
    if line.item.get("type") == "UserMessage":
        text = "\n".join(texts(line.item.get("content")))
    elif line.event.get("type") == "user_message" and line.event.get("kind", "plain") == "plain":
        text = line.event.get("message")
    elif line.message.get("role") == "user":
        text = "\n".join(texts(line.message.get("content")))
    return text if isinstance(text, str) and is_ask(text) else None


def said(line: Line) -> list[str]:
    """What the model said in a message, one way or the other."""
    if line.event.get("type") == "agent_message":
        told = [line.event.get("message")]
    else:
        told = list(texts((line.item or line.message).get("content")))
    return [text.strip() for text in told if isinstance(text, str) and text.strip()]


class _Meaning(Meaning):
    """``thread``: whose lines count. ``generation``: of the lines that don't say it themselves."""

    def __init__(self, thread: object, generation: str) -> None:
        self._thread = thread
        self._generation = generation

    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        read = jsonl.decode(line.data, DECODER)
        return self._steps(read, jsonl.epoch_ms(read.timestamp)) if read and read.is_of(self._thread) else ()

    def _steps(self, line: Line, ms: int | None) -> Iterator[Step]:
        if told := generation(line):
            # A later version goes on with a file of an earlier one.
            if told == (ITEMS if line.ordinal is not None else self._generation):
                yield from _message(line, told, ms)
            return
        if line.type == "response_item":
            yield Worked(ms)
            return
        match line.event.get("type"):
            case "item_completed":
                yield Worked(ms)
            case "task_started":
                yield Begun(ms)
            case "task_complete":
                failure = line.event.get("error")
                if failure is not None:
                    yield Failed(str(failure.get("message")) if isinstance(failure, dict) else "", ms)
                yield Ended(True, ms)
            case "turn_aborted":
                yield Interrupted(ms)


def _message(line: Line, told: str, ms: int | None) -> Iterator[Step]:
    role = line.item.get("type") or line.event.get("type") or line.message.get("role")
    if role in ("AgentMessage", "agent_message", "assistant"):
        message = line.item.get("id") or line.message.get("id")
        yield Said(message if isinstance(message, str) else None, said(line), False, ms)
    elif (text := asked(line)) is not None:
        # Only where turns say when they begin can a prompt be told from one typed into the running turn.
        yield Prompt("ask", text, ms) if told == MESSAGES else Absorbed(text, ms)


def _meaning(opened: Opened) -> Meaning:
    """The lines' meaning by the generation that began the file, or began to tell of messages in it."""
    found = MESSAGES
    for line in jsonl.forward(opened, within=HEAD):
        read = jsonl.decode(line.data, DECODER)
        if line.end > HEAD or (read and read.ordinal is not None):
            break
        told = generation(read) if read else None
        if told in (ITEMS, EVENTS):
            found = told
            break
    return _Meaning(header(opened).get("id"), found)


# --- whose lines ----------------------------------------------------------------------------------

#: The names under which events have said whose thread they are of.
_THREADS = ("thread_id", "conversation_id", "session_id")


def header(opened: Opened) -> dict[str, Any]:
    """The ``session_meta`` that a rollout begins with; empty when it doesn't."""
    first = jsonl.first(opened)
    read = jsonl.decode(first.data, DECODER) if first else None
    meta = read.payload if read and read.type == "session_meta" else None
    return meta if isinstance(meta, dict) else {}


def own(opened: Opened) -> int | None:
    """Where a thread's own lines begin, behind what it copied of its parent; None while that is not written."""
    if jsonl.first(opened) is None:
        return None
    meta = header(opened)
    thread = meta.get("id")
    if meta.get("forked_from_id") is None or not isinstance(thread, str):
        return 0
    needle = thread.encode("utf-8", "surrogatepass")
    for line in jsonl.forward(opened):
        read = jsonl.decode(line.data, DECODER) if needle in line.data else None
        payload = read.payload if read and read.type != "session_meta" else None
        if isinstance(payload, dict) and thread in map(payload.get, _THREADS):
            return line.start
    return None


def is_visible(meta: dict[str, Any]) -> bool:
    """Whether a thread is one that a person has before them: not a subagent's, nor Codex's own.

    Those name their parent, and what they are for in their source.
    """
    told = meta.get("thread_source", "user")
    mine = meta.get("session_id") in (None, meta.get("id"))
    source = meta.get("source")
    return mine and told == "user" and meta.get("parent_thread_id") is None and not isinstance(source, dict)


# --- the file -------------------------------------------------------------------------------------


def find(claimed: object, files: Files) -> Path | None:
    """The rollout a payload names, if its name is one Codex would give, or what it was compressed to."""
    if not isinstance(claimed, str):
        return None
    plain = claimed.removesuffix(_PACKED)
    places = [
        found
        for suffix in ("", _PACKED)
        if (found := files.resolve(plain + suffix, suffix=suffix, name_ok=_is_named_so))
    ]
    return next(filter(files.is_there, places), places[0] if places else None)


def _is_named_so(name: str) -> bool:
    return bool(_NAME.fullmatch(name.removesuffix(_PACKED)))


def open_rollout(path: Path, files: Files) -> Opened | None:
    """A rollout to be read, unpacked on the way where it is compressed; None when it can't be."""
    opened = files.open(path)
    if opened is None or not path.name.endswith(_PACKED):
        return opened
    plain = unpacked(opened)
    if plain is None:
        with opened:
            return None
    return plain


def told(opened: Opened, path: Path) -> Opened:
    """What an open rollout holds, packed or not."""
    return (unpacked(opened) or opened) if path.name.endswith(_PACKED) else opened


FORMAT = reading.Format(find=find, meaning=_meaning, own=own, open=open_rollout)
# What is unpacked on the way can't be read from its end.
_FORMAT_OF_PACKED = replace(FORMAT, backward=False)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``; there is no file in an ephemeral run."""
    found = find(str(path), files) if path is not None else None
    is_packed = found is not None and found.name.endswith(_PACKED)
    return reading.exchanges(_FORMAT_OF_PACKED if is_packed else FORMAT, path, cursor, want, files)
