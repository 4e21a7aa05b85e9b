"""Claude Code's transcripts: what its records do to a conversation (:mod:`sessionpipe.harnesses.conversation`).

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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.conversation import (
    Absorbed,
    Answered,
    Ended,
    Failed,
    Interrupted,
    Meaning,
    Prompt,
    Queued,
    Said,
    Step,
    Worked,
)
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want

# --- records --------------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a transcript record that mean anything here; each may be anything at all."""

    type: Any = None
    subtype: Any = None
    timestamp: Any = None
    promptId: Any = None
    message: Any = None
    attachment: Any = None
    origin: Any = None
    promptSource: Any = None
    isMeta: Any = None
    isSidechain: Any = None
    isCompactSummary: Any = None
    isVisibleInTranscriptOnly: Any = None
    isApiErrorMessage: Any = None
    error: Any = None
    operation: Any = None
    reason: Any = None
    content: Any = None
    customTitle: Any = None
    aiTitle: Any = None
    version: Any = None
    cwd: Any = None
    gitBranch: Any = None
    requestSessionId: Any = None


DECODER = msgspec.json.Decoder(Record)
SYNTHETIC = "<synthetic>"

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


# --- the file -------------------------------------------------------------------------------------

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}\.jsonl")


def find(claimed: object, files: Files) -> Path | None:
    """The transcript a payload names, if its name is one Claude Code would give."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, DECODER)
        return steps(record) if record else ()


FORMAT = reading.Format(find=find, meaning=lambda _: _Meaning())


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``; there is no file with ``--no-session-persistence``."""
    return reading.exchanges(FORMAT, path, cursor, want, files)
