"""Devin: what its store and its settings say; its hooks name no folder, no transcript and no model.

``~/.local/share/devin/cli/sessions.db`` has every session as a tree of messages, of which one chain counts:
what else hangs on it was abandoned. A message is what it was when its own metadata says; its row is written
again whenever the session is saved. Of the messages in the person's name only those count that are marked as
their input.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Conversation, Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.reading import settle
from sessionpipe.harnesses.sqlitefile import Look, look
from sessionpipe.harnesses.titles import first_ask
from sessionpipe.harnesses.transcripts import READING_CHARS, Cursor, Reading, Want, digest

Draft = dict[str, Any]

_STORE = "sessions.db"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_CONFIG = 1 << 20
#: How much of a session one look takes, the newest of it: messages, and the bytes of one and of all.
_NODES = 5_000
_MESSAGE = 4 << 20
_MESSAGES = 32 << 20
_PAST = 5_000
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended"})


# --- messages -------------------------------------------------------------------------------------


class Message(msgspec.Struct):
    """The fields of a message that mean anything here; each may be anything at all."""

    role: Any = None
    content: Any = None
    tool_calls: Any = None
    metadata: Any = None


_MESSAGES_OF = msgspec.json.Decoder(Message)


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        message = jsonl.decode(line.data, _MESSAGES_OF)
        return steps(message) if message else ()


def steps(message: Message) -> Iterator[Step]:
    """What a message does to the conversation; nothing for the vendor's own words to the model."""
    metadata = message.metadata if isinstance(message.metadata, dict) else {}
    ms = _moment(metadata.get("created_at"))
    text = _text(message.content).strip()
    match message.role:
        case "user" if metadata.get("is_user_input") is True:
            yield Prompt("ask", text, ms)
        case "user" | "tool":
            yield Worked(ms)
        case "assistant":
            yield Said(None, [text] if text else [], bool(message.tool_calls), ms)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    return "\n\n".join(
        b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)
    )


def _moment(at: object) -> int | None:
    """A time in seconds, or an RFC 3339 one, as epoch milliseconds."""
    ms = jsonl.of_seconds(at)
    return jsonl.epoch_ms(at) if ms is None else ms


# --- the store ------------------------------------------------------------------------------------


class Node(NamedTuple):
    """A place in a session's tree. Its id grows with time."""

    id: int
    parent: int | None
    size: int


def chain(look: Look, session: str) -> list[Node]:
    """The nodes of a session's main chain, oldest first: the newest :data:`_NODES` of them at most.

    None of a session that is hidden, or not there. A tree that goes round in a circle ends where it began.
    """
    found = next(look.rows("SELECT main_chain_id, hidden FROM sessions WHERE id = ?", (session,)), None)
    if found is None or found[1] or not _is_id(found[0]):
        return []
    nodes = {
        name: Node(name, parent if _is_id(parent) else None, size or 0)
        for name, parent, size in look.rows(
            "SELECT node_id, parent_node_id, length(CAST(chat_message AS BLOB)) FROM message_nodes"
            " WHERE session_id = ? AND node_id <= ? ORDER BY node_id DESC LIMIT ?",
            (session, found[0], _NODES),
        )
        if _is_id(name)
    }
    at: int | None = found[0]
    walked: list[Node] = []
    # Each is taken out as it is met, so that the walk ends.
    while at is not None and (node := nodes.pop(at, None)):
        walked.append(node)
        at = node.parent
    return walked[::-1]


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _lines(look: Look, session: str, nodes: Sequence[Node]) -> Iterator[jsonl.Line]:
    """The messages of nodes as lines that stand where the nodes' ids say; one too large is empty."""
    for first in range(0, len(nodes), 500):
        part = nodes[first : first + 500]
        wanted = [node.id for node in part if node.size <= _MESSAGE]
        sql = (
            "SELECT node_id, chat_message FROM message_nodes WHERE session_id = ? AND node_id IN"
            " (SELECT value FROM json_each(?))"
        )
        said: dict[Any, Any] = dict(look.rows(sql, (session, msgspec.json.encode(wanted).decode())))
        for node in part:
            text = said.get(node.id)
            data = text.encode("utf-8", "replace") if isinstance(text, str) else text
            yield jsonl.Line(node.id, node.id + 1, data if isinstance(data, bytes) else b"")


def _newest(nodes: Sequence[Node]) -> list[Node]:
    """As many of the nodes, from the last one back, as one look may take."""
    kept: list[Node] = []
    size = 0
    for node in reversed(nodes):
        size += min(node.size, _MESSAGE)
        if size > _MESSAGES:
            break
        kept.append(node)
    return kept[::-1]


def find(claimed: object, files: Files) -> Path | None:
    """The store, if a path names one."""
    return files.resolve(claimed, suffix=_STORE, name_ok=lambda name: name == _STORE)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``, whose place is a node's id."""
    found = find(str(path), files) if path is not None else None
    if found is None or not _ID.fullmatch(want.session):
        return Reading([], cursor, complete=want.final)
    known, name = Cursor.of(cursor), digest(want.session) or ""

    def read(look: Look) -> Reading | None:
        nodes = chain(look, want.session)
        if not nodes:
            return None
        fits = known.mark == name and 0 <= known.at <= nodes[-1].id + 1
        told = None if fits else known.sent_ms
        start = known.at if fits else _starting_point(look, nodes, told or want.since_ms, want.session)
        behind = [node for node in nodes if node.id >= start]
        taken = _newest(behind)
        talk = Conversation(_Meaning(), start, known.said if fits else ())
        whole = True
        for line in _lines(look, want.session, taken):
            talk.feed(line)
            if talk.chars > READING_CHARS:
                whole = False
                break
        return settle(talk, known, told, want, lambda at: name, whole=whole)

    return look(found, files, read) or Reading([], cursor, complete=want.final)


def _starting_point(look: Look, nodes: Sequence[Node], since_ms: int | None, session: str) -> int:
    """Where a session first seen at ``since_ms`` begins for us: at the prompt that was being answered."""
    start = nodes[0].id
    if since_ms is None:
        return start
    meaning = _Meaning()
    for line in _lines(look, session, _newest(nodes)):
        for step in meaning.steps(line):
            ms = step.ms or 0  # type: ignore[union-attr]  # nothing queued here
            # A time in whole seconds may be any within its second.
            if ms == 0 or ms + (999 if ms % 1000 == 0 else 0) > since_ms:
                continue
            match step:
                case Prompt():
                    start = line.start
                case Said(working=False, texts=[_, *_]):
                    start = line.end
    return start


# --- where it is ----------------------------------------------------------------------------------


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the store is: the same for every session of a person's."""
    data = _data(context)
    return f"{data}/{_STORE}" if data else None


def _data(context: Context) -> str | None:
    """The folder of Devin's data."""
    return _below(context, "XDG_DATA_HOME", ".local/share", "devin/cli")


def _below(context: Context, variable: str, default: str, rest: str) -> str | None:
    base = context.env.get(variable) or ""
    if not os.path.isabs(base):  # noqa: PTH117 - every hook asks
        base = context.env.get("APPDATA") or (f"{context.home}/{default}" if context.home else "")
    return f"{base.rstrip('/')}/{rest}" if os.path.isabs(base) else None  # noqa: PTH117


# --- facts ----------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What the store says of a session."""

    model: str | None
    asked: str | None


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (first-ask), ``model``, ``account_id`` (the organization's) and ``version``."""
    if draft["type"] not in _TELLING:
        return {}
    found: dict[str, Any] = {}
    data, session = _data(context), draft["session"]["id"]
    if version := _version(data) if data else None:
        found["version"] = version
    settings = _below(context, "XDG_CONFIG_HOME", ".config", "devin")
    if settings and (org := files.learn(f"{settings}/config.json", "devin.org", _org, follow=True)):
        found["account_id"] = org
    store = find(f"{data}/{_STORE}", files) if data else None
    known = look(store, files, lambda look: _known(look, session)) if store else None
    if known and known.model:
        found["model"] = known.model
    prompt = draft.get("memo", {}).get("prompt")
    asked = known.asked if known else None
    return found | first_ask(asked or (prompt if isinstance(prompt, str) else ""))


def _known(look: Look, session: str) -> Known:
    model = next((m for (m,) in look.rows("SELECT model FROM sessions WHERE id = ?", (session,))), None)
    return Known(_string(model), _asked(look, session))


def _asked(look: Look, session: str) -> str | None:
    """The first thing that was asked: a title of Devin's own can't be relied on, and a command is no name."""
    rows = look.rows(
        "SELECT substr(content, 1, 8000) FROM prompt_history WHERE session_id = ? AND NOT coalesce(is_shell, 0)"
        " ORDER BY timestamp, rowid LIMIT 20",
        (session,),
    )
    return next((text for (text,) in rows if isinstance(text, str) and text.strip()), None)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _version(data: str) -> str | None:
    """The version that is current: a link's name, beside the store or above it."""
    for folder in (data, os.path.dirname(data)):  # noqa: PTH120
        try:
            name = os.path.basename(os.readlink(f"{folder}/_versions/current"))  # noqa: PTH115, PTH119
        except (OSError, ValueError):
            continue
        if re.fullmatch(r"v?\d[0-9A-Za-z.+-]{0,63}", name):
            return name
    return None


class _Devin(msgspec.Struct):
    org_id: Any = None


class _Config(msgspec.Struct):
    devin: _Devin | None = None


_CONFIGS = msgspec.json.Decoder(_Config)


# Comments, and commas before a closing bracket, are allowed there. A string is met first, so that nothing
# in it is taken for either; one that does not end runs to the end.
_TOLERATED = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def _org(opened: Opened) -> str | None:
    if opened.size > _CONFIG:
        return None
    text = opened.head(_CONFIG)
    plain = _TOLERATED.sub(lambda found: found[1] or b"", text)
    read = jsonl.decode(text, _CONFIGS) or jsonl.decode(plain, _CONFIGS)
    value = read.devin.org_id if read and read.devin else None
    # Never an address: that has a sign no id has.
    return value if isinstance(value, str) and _ACCOUNT.fullmatch(value) else None


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The sessions in the store, without those that Devin hides."""
    data = _data(context)
    store = find(f"{data}/{_STORE}", files) if data else None
    if store:
        yield from look(store, files, lambda look: list(_past(look, since_ms))) or ()


def _past(look: Look, since_ms: int) -> Iterator[Past]:
    rows = list(
        look.rows(
            "SELECT id, working_directory, model, created_at, last_activity_at FROM sessions"
            " WHERE NOT coalesce(hidden, 0) AND last_activity_at * 1000 >= ?"
            " ORDER BY last_activity_at DESC LIMIT ?",
            (since_ms, _PAST),
        )
    )
    for name, cwd, model, created, active in rows:
        started_ms, last_ms = _moment(created), _moment(active)
        if not isinstance(name, str) or not _ID.fullmatch(name) or last_ms is None:
            continue
        asked = _asked(look, name)
        if asked is None:
            continue
        (turns,) = next(
            look.rows(
                "SELECT count(*) FROM prompt_history WHERE session_id = ? AND NOT coalesce(is_shell, 0)",
                (name,),
            )
        )
        block: dict[str, Any] = dict(first_ask(asked))
        if _string(model):
            block["model"] = model
        if isinstance(cwd, str) and os.path.isabs(cwd):  # noqa: PTH117
            block["cwd"] = cwd
        yield Past(name, min(started_ms or last_ms, last_ms), last_ms, turns, block)


__all__ = ["exchanges", "facts", "history", "transcript"]
