"""OpenCode: what its store says; what happens is told by our plugin.

``~/.local/share/opencode/opencode.db`` has sessions, their messages and the parts of those. A session that was
forked begins with a copy of another's messages, which are older than the session; one that was reverted has
messages that are taken away at the next prompt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.ends import End
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.sqlitefile import Look, look
from sessionpipe.harnesses.titles import first_ask, titled
from sessionpipe.harnesses.transcripts import READING_CHARS, SIDE_CHARS, Exchange, Reading, Side, Want, digest
from sessionpipe.protocol import rfc3339

Draft = dict[str, Any]

_UNTITLED = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z")
_QUOTED = re.compile(r'"([^"]*)"')
#: How many messages one look takes, texts of one of them, and sessions.
_MESSAGES = 6_000
_PARTS = 30
_PAST = 5_000
#: How long one look may take that reads what was said, and one that reads of all sessions.
_READING_S = 5.0
_LISTING_S = 30.0
_TELLING = frozenset({"session.started", "turn.started", "turn.ended"})


# --- messages -------------------------------------------------------------------------------------


class Message(NamedTuple):
    """A message, without what was said in it. ``ms``: when it was made; ``done_ms``: when it was complete.

    ``to``: of an answer, the prompt it answers. ``hidden``: a summary that a compaction made.
    """

    id: str
    ms: int
    role: Any
    to: Any
    done_ms: Any
    hidden: bool


_MESSAGE = (
    "SELECT id, time_created, json_extract(data, '$.role'), json_extract(data, '$.parentID'),"
    " json_extract(data, '$.time.completed'),"
    " json_extract(data, '$.mode') IS 'compaction' OR json_type(data, '$.summary') IS 'true' FROM message"
)


def _messages(found: Look, where: str, parameters: tuple[object, ...]) -> Iterator[Message]:
    for name, ms, role, to, done_ms, hidden in found.rows(f"{_MESSAGE} {where}", parameters):
        if isinstance(name, str) and isinstance(ms, int):
            yield Message(name, ms, role, to, done_ms, bool(hidden))


#: A part that the person put there: not a request to compact, nor what the harness adds for the model.
_OWN = (
    "json_extract(data, '$.type') IS NOT 'compaction'"
    " AND NOT coalesce(json_extract(data, '$.synthetic'), 0) AND NOT coalesce(json_extract(data, '$.ignored'), 0)"
)


def _texts(found: Look, message: str) -> list[str]:
    rows = found.rows(
        "SELECT substr(json_extract(data, '$.text'), 1, ?) FROM part"  # noqa: S608 - all of it ours
        f" WHERE message_id = ? AND json_extract(data, '$.type') = 'text' AND {_OWN} ORDER BY id LIMIT ?",
        (SIDE_CHARS, message, _PARTS),
    )
    return [text for (text,) in rows if isinstance(text, str)]


def _is_own(found: Look, message: str) -> bool:
    """Whether a prompt is the person's, in words or with a file."""
    return any(found.rows(f"SELECT 1 FROM part WHERE message_id = ? AND {_OWN} LIMIT 1", (message,)))  # noqa: S608


class Session(NamedTuple):
    """A session's row: when it was made, and from which message on it is reverted."""

    made_ms: int
    title: Any
    reverted: Any


def _session(found: Look, name: str) -> Session | None:
    rows = found.rows(
        "SELECT time_created, title, json_extract(revert, '$.messageID') FROM session WHERE id = ?", (name,)
    )
    made_ms, title, reverted = next(rows, (None, None, None))
    return Session(made_ms, title, reverted) if isinstance(made_ms, int) else None


# --- transcripts ----------------------------------------------------------------------------------


class _Cursor(msgspec.Struct):
    """Behind which message to go on, by its time and id, and the last answer that was delivered."""

    ms: int
    id: str
    last: str = ""


class _Turn:
    """A prompt of the person's, and what was answered."""

    def __init__(self, user: str, ms: int) -> None:
        self.user = user
        self.assistant = Side("\n\n")
        self.at_ms = ms
        self.answers: list[Message] = []

    def exchange(self) -> Exchange:
        return Exchange(self.user, str(self.assistant), rfc3339(self.at_ms))

    def is_over(self, want: Want) -> bool:
        if want.final:
            return True
        if want.said is None:
            return not self.answers or isinstance(self.answers[-1].done_ms, int)
        return any(digest(answer.id) == want.said and answer.done_ms for answer in self.answers)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange of ``want.session`` behind ``cursor``; ``want.said`` is of a message's id."""
    found = files.resolve(str(path), suffix="", name_ok=bool) if path is not None else None
    reading = (
        look(found, files, lambda store: _read(store, cursor, want), seconds=_READING_S) if found else None
    )
    return reading or Reading([], cursor, complete=want.final)


def _read(found: Look, stored: dict[str, Any], want: Want) -> Reading | None:
    session = _session(found, want.session)
    if session is None:
        return None
    try:
        cursor = msgspec.convert(stored, _Cursor)
    except msgspec.ValidationError:
        cursor = _beginning(found, session, want)
    over: list[_Turn] = []
    turn: _Turn | None = None
    place, chars, taken, whole = cursor, 0, 0, True
    rows = _messages(
        found,
        "WHERE session_id = ? AND (time_created, id) > (?, ?) ORDER BY time_created, id LIMIT ?",
        (want.session, cursor.ms, cursor.id, _MESSAGES),
    )
    for message in rows:
        if isinstance(session.reverted, str) and message.id >= session.reverted:
            break
        taken += 1
        if message.role == "user":
            if _is_own(found, message.id):
                if turn:
                    over.append(turn)
                    chars += len(turn.user) + len(turn.assistant)
                    cursor = place
                    if chars > READING_CHARS:
                        whole = False
                        break
                    turn = None
                if want.is_early(message.ms):
                    break
                turn = _Turn("\n\n".join(_texts(found, message.id))[:SIDE_CHARS], message.ms)
        elif message.role == "assistant" and not message.hidden:
            texts = _texts(found, message.id)
            if turn is None and not texts:
                continue  # A command that the person ran, for one, is answered by its output alone.
            # Nobody of ours saw what it answers, or the harness asked by itself.
            turn = turn or _Turn("", message.ms)
            turn.answers.append(message)
            for text in texts:
                turn.assistant.add(text)
            turn.at_ms = message.done_ms if isinstance(message.done_ms, int) else message.ms
        place = _Cursor(message.ms, message.id, cursor.last)
    whole = whole and taken < _MESSAGES
    if turn and whole and turn.is_over(want):
        over.append(turn)
        cursor = place
    answers = [answer.id for one in over for answer in one.answers]
    complete = whole and (
        want.final
        or want.said is None
        or want.said == digest(stored.get("last", ""))
        or any(want.said == digest(answer) for answer in answers)
    )
    following = _Cursor(cursor.ms, cursor.id, answers[-1] if answers else cursor.last)
    return Reading([one.exchange() for one in over], msgspec.to_builtins(following), complete)


def _beginning(found: Look, session: Session, want: Want) -> _Cursor:
    """Before the prompt that was being answered when we saw the session first, and behind what it copied."""
    first = session.made_ms
    if want.since_ms is not None:
        before = found.rows(
            "SELECT max(time_created) FROM message WHERE session_id = ? AND time_created BETWEEN ? AND ?"
            " AND json_extract(data, '$.role') = 'user'",
            (want.session, first, want.since_ms),
        )
        first = next((ms for (ms,) in before if isinstance(ms, int)), first)
    return _Cursor(first, "")


# --- where it is, and what it says of a session ---------------------------------------------------


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the store is: the same for every session of a person's."""
    data = context.env.get("XDG_DATA_HOME") or ""
    if not os.path.isabs(data):  # noqa: PTH117 - every hook asks
        data = f"{context.home}/.local/share" if context.home else ""
    return f"{data}/opencode/opencode.db" if os.path.isabs(data) else None  # noqa: PTH117


def _place(draft: Draft, context: Context, files: Files) -> Path | None:
    told = draft.get("memo", {}).get("file") or transcript(draft, context, files)
    return files.resolve(told, suffix="", name_ok=bool)


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title``, where the plugin had not heard it: OpenCode's, else the first ask."""
    if draft["type"] not in _TELLING or draft["session"].get("title"):
        return {}
    name = draft["session"]["id"]
    place = _place(draft, context, files)
    known = look(place, files, lambda found: _called(found, name)) if place else None
    prompt = draft.get("memo", {}).get("prompt")
    return known or first_ask(asked(prompt) if isinstance(prompt, str) else "")


def _called(found: Look, name: str) -> dict[str, str]:
    """The title fields the store has for a session; none for one it doesn't know."""
    session = _session(found, name)
    if session is None:
        return {}
    if isinstance(session.title, str) and not _UNTITLED.fullmatch(session.title):
        return titled(session.title, "harness")
    return first_ask(_first(found, name, session.made_ms))


def _first(found: Look, name: str, since_ms: int) -> str:
    """The first thing the person asked in a session."""
    messages = _messages(
        found,
        "WHERE session_id = ? AND time_created >= ? AND json_extract(data, '$.role') = 'user'"
        " ORDER BY time_created, id LIMIT 20",
        (name, since_ms),
    )
    for message in list(messages):
        if text := asked("\n".join(_texts(found, message.id))):
            return text
    return ""


def asked(prompt: str) -> str:
    """A prompt as the person typed it: `opencode run` puts what has a space in it between quotes."""
    match = _QUOTED.fullmatch(prompt.strip())
    return match[1] if match else prompt


# --- what no hook told ----------------------------------------------------------------------------


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts, and before a session goes on, the end of a turn its last process did not live to tell.

    A signal ends OpenCode without a word; its last answer is then never complete.
    """
    first = drafts[0]
    if first["type"] != "session.started" or first["data"].get("source") != "resume":
        return drafts
    place = _place(first, context, files)
    if place is None:
        return drafts
    end = look(place, files, lambda found: _cut_off(found, first["session"]["id"], first["at_ms"]))
    return [end.draft(first), *drafts] if end else drafts


def _cut_off(found: Look, name: str, before_ms: int) -> End | None:
    rows = _messages(
        found,
        "WHERE session_id = ? AND time_created < ? AND json_extract(data, '$.role') = 'assistant'"
        " ORDER BY time_created DESC, id DESC LIMIT 1",
        (name, before_ms),
    )
    last = next(rows, None)
    if last is None or last.done_ms is not None or not isinstance(last.to, str):
        return None
    parts = found.rows("SELECT max(time_updated) FROM part WHERE message_id = ?", (last.id,))
    ms = next((ms for (ms,) in parts if isinstance(ms, int)), last.ms)
    return End(min(ms, before_ms), last.to, "interrupt")


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The person's sessions in the store: no subagent's, none that was put away."""
    place = transcript({}, context, files)
    if place:
        yield from look(place, files, lambda found: list(_past(found, since_ms)), seconds=_LISTING_S) or ()


def _past(found: Look, since_ms: int) -> Iterator[Past]:
    rows = found.rows(
        "SELECT id, directory, title, version, json_extract(model, '$.id'), time_created, time_updated,"  # noqa: S608
        " (SELECT count(*) FROM message WHERE session_id = session.id AND time_created >= session.time_created"
        "  AND json_extract(data, '$.role') = 'user' AND EXISTS"
        f"  (SELECT 1 FROM part WHERE message_id = message.id AND {_OWN}))"
        " FROM session WHERE parent_id IS NULL AND time_archived IS NULL AND time_updated >= ?"
        " ORDER BY time_updated DESC LIMIT ?",
        (since_ms, _PAST),
    )
    for name, folder, title, version, model, made_ms, last_ms, turns in list(rows):
        if not (isinstance(name, str) and isinstance(made_ms, int) and isinstance(last_ms, int)) or not turns:
            continue
        block = {"cwd": folder, "model": model}
        if isinstance(title, str) and not _UNTITLED.fullmatch(title):
            block |= titled(title, "harness")
        else:
            block |= first_ask(_first(found, name, made_ms))
        told = {key: value for key, value in block.items() if isinstance(value, str) and value}
        yield Past(name, made_ms, last_ms, turns, told, version if isinstance(version, str) else None)


__all__ = ["exchanges", "facts", "history", "missed", "transcript"]
