"""Goose: what its store says. Made from documentation and from what its source is remembered to say.

``~/.local/share/goose/sessions/sessions.db`` has sessions and their messages, whose numbers only grow. When a
session is compacted all of its messages are written anew, with numbers of their own: what was delivered is
known by when it was asked, too, and that is said in whole seconds. A column that isn't there says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Conversation, Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.reading import settle
from sessionpipe.harnesses.sqlitefile import Look, look
from sessionpipe.harnesses.titles import first_ask, titled
from sessionpipe.harnesses.transcripts import READING_CHARS, Cursor, Reading, Want, digest

Draft = dict[str, Any]

_STORE = "sessions.db"
_DEFAULT = re.compile(r"\s*(?:(?:CLI|ACP|Goose ACP|New) (?:session|chat)(?: \d+)?)?\s*", re.IGNORECASE)
#: How many messages one look takes, and how long one of them may be.
_MESSAGES = 5_000
_LENGTH = 4 << 20
_PAST = 5_000
_LISTING_S = 30.0
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended"})
#: Sessions nobody sees in a list of theirs.
_UNSEEN = ("hidden", "sub_agent")


# --- messages -------------------------------------------------------------------------------------


class Message(msgspec.Struct):
    """A row of messages, as a line of JSON; each field may be anything at all."""

    role: Any = None
    content: Any = None
    created: Any = None
    visible: Any = None


_MESSAGES_OF = msgspec.json.Decoder(Message)


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        message = jsonl.decode(line.data, _MESSAGES_OF)
        return steps(message) if message else ()


def steps(message: Message) -> Iterator[Step]:
    """What a message does to the conversation. A tool's answer comes in the person's name."""
    # What a compaction wrote for the model alone.
    if message.visible is False:
        return
    blocks = [b for b in message.content if isinstance(b, dict)] if isinstance(message.content, list) else []
    kinds = {b.get("type") for b in blocks if isinstance(b.get("type"), str)}
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    ms = jsonl.of_seconds(message.created)
    if message.role == "assistant":
        yield Said(None, [text for text in texts if text], "toolRequest" in kinds, ms)
    elif message.role == "user" and "toolResponse" in kinds:
        yield Worked(ms)
    elif message.role == "user" and blocks:
        yield Prompt("ask", "\n\n".join(texts), ms)


def _lines(found: Look, session: str, start: int) -> Iterator[jsonl.Line]:
    """The messages from a number on as lines that stand where their numbers say; one too large is empty."""
    visible = "NULL"
    if "metadata_json" in found.columns("messages"):
        visible = "json_type(iif(json_valid(metadata_json), metadata_json, '{}'), '$.userVisible')"
    rows = found.rows(
        "SELECT id, role, iif(length(content_json) <= ?, content_json, NULL), created_timestamp, "  # noqa: S608
        f"{visible} FROM messages WHERE session_id = ? AND id >= ? ORDER BY id LIMIT ?",
        (_LENGTH, session, start, _MESSAGES),
    )
    for number, role, content, created, seen in rows:
        if not isinstance(number, int):
            continue
        text = content if isinstance(content, str) else "null"
        data = msgspec.json.encode({"role": role, "created": created, "visible": seen != "false"})
        # The content is JSON already, or it makes the line none.
        yield jsonl.Line(number, number + 1, data[:-1] + b',"content":' + text.encode() + b"}")


# --- transcripts ----------------------------------------------------------------------------------


def find(claimed: object, files: Files) -> Path | None:
    """The store, if a path names one."""
    return files.resolve(claimed, suffix=_STORE, name_ok=lambda name: name == _STORE)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``, whose place is a message's number."""
    found = find(str(path), files) if path is not None else None
    known, name = Cursor.of(cursor), digest(want.session) or ""

    def read(store: Look) -> Reading:
        fits = known.mark == name and known.at >= 0
        told = known.sent_ms
        start = known.at if fits else _starting_point(store, want.session, told or want.since_ms)
        talk = Conversation(_Meaning(), start, known.said if fits else ())
        taken, whole = 0, True
        for line in _lines(store, want.session, start):
            talk.feed(line)
            taken += 1
            if talk.chars > READING_CHARS:
                whole = False
                break
        return settle(talk, known, told, want, lambda at: name, whole=whole and taken < _MESSAGES)

    reading = look(found, files, read) if found else None
    return reading or Reading([], cursor, complete=want.final)


def _starting_point(found: Look, session: str, since_ms: int | None) -> int:
    """The number of the prompt that was being answered when we saw the session first."""
    start = 0
    if since_ms is None:
        return start
    meaning = _Meaning()
    for line in _lines(found, session, 0):
        for step in meaning.steps(line):
            if isinstance(step, Prompt) and (step.ms or 0) <= since_ms:
                start = line.start
    return start


# --- where it is, and what it says of a session ---------------------------------------------------


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the store is: the same for every session of a person's."""
    data = context.env.get("XDG_DATA_HOME") or ""
    if not os.path.isabs(data):  # noqa: PTH117 - every hook asks
        data = f"{context.home}/.local/share" if context.home else ""
    return f"{data}/goose/sessions/{_STORE}" if os.path.isabs(data) else None  # noqa: PTH117


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (custom, Goose's, else the first ask) and ``model``."""
    if draft["type"] not in _TELLING:
        return {}
    store, name = find(transcript(draft, context, files), files), draft["session"]["id"]
    known = (look(store, files, lambda found: _known(found, name)) if store else None) or {}
    prompt = draft.get("memo", {}).get("prompt")
    if "title" not in known and isinstance(prompt, str):
        return known | first_ask(prompt)
    return known


def _row(found: Look) -> dict[str, str]:
    """What to ask of a session's row, by what it is called here; what a store has no column for is null."""
    there = found.columns("sessions")
    asked = {
        "title": ["name", "description"],
        "custom": ["user_set_name"],
        "kind": ["session_type"],
        "model": ["model_config_json"],
    }
    return {word: next((c for c in columns if c in there), "NULL") for word, columns in asked.items()}


def _known(found: Look, session: str) -> dict[str, Any]:
    row = _row(found)
    rows = found.rows(
        f"SELECT {row['title']}, {row['custom']}, {row['model']} FROM sessions WHERE id = ?",  # noqa: S608
        (session,),
    )
    for title, custom, model in rows:
        return _named(found, session, title, custom) | _model(model)
    return {}


def _named(found: Look, session: str, title: object, custom: object) -> dict[str, Any]:
    if isinstance(title, str) and not _DEFAULT.fullmatch(title):
        return titled(title, "custom" if custom else "harness")
    meaning = _Meaning()
    for line in _lines(found, session, 0):
        for step in meaning.steps(line):
            if isinstance(step, Prompt) and step.text.strip():
                return first_ask(step.text)
    return {}


class _Config(msgspec.Struct):
    model_name: Any = None


_CONFIGS = msgspec.json.Decoder(_Config)


def _model(config: object) -> dict[str, Any]:
    read = jsonl.decode(config.encode("utf-8", "replace"), _CONFIGS) if isinstance(config, str) else None
    name = read.model_name if read else None
    return {"model": name} if isinstance(name, str) and name else {}


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The sessions in the store that the person sees in Goose."""
    store = find(transcript({}, context, files), files)
    if store:
        yield from look(store, files, lambda found: list(_past(found, since_ms)), seconds=_LISTING_S) or ()


def _past(found: Look, since_ms: int) -> Iterator[Past]:
    row = _row(found)
    rows = found.rows(
        f"SELECT id, {row['title']}, {row['custom']}, {row['kind']}, {row['model']}, working_dir,"  # noqa: S608
        " created_at, updated_at, (SELECT count(*) FROM messages WHERE session_id = sessions.id"
        "  AND role = 'user' AND content_json NOT LIKE '%\"toolResponse\"%')"
        " FROM sessions ORDER BY updated_at DESC LIMIT ?",
        (_PAST,),
    )
    for name, title, custom, kind, model, folder, made, changed, turns in list(rows):
        made_ms, last_ms = _utc(made), _utc(changed)
        if not isinstance(name, str) or made_ms is None or last_ms is None or last_ms < since_ms:
            continue
        if not turns or kind in _UNSEEN:
            continue
        block = _named(found, name, title, custom) | _model(model)
        if isinstance(folder, str) and folder:
            block["cwd"] = folder
        yield Past(name, made_ms, last_ms, turns, block)


def _utc(text: object) -> int | None:
    """A time as SQLite writes it, which is in UTC and does not say so."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


__all__ = ["exchanges", "facts", "history", "transcript"]
