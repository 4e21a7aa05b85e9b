"""Pi: what its session file says where the extension's context doesn't.

The extension's payloads carry the session's name and model; the file has the first thing that was
asked, and it tells a session that is new from one that goes on, which Pi calls a startup all the same.
A forked session begins with a copy of its parent's entries, older than its header.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.pi_exchanges import asked, typed
from sessionpipe.harnesses.pi_session import Record, read_content, read_record
from sessionpipe.harnesses.pi_store import session_files
from sessionpipe.harnesses.pi_transcript import exchanges, find
from sessionpipe.harnesses.titles import first_ask, titled

Draft = dict[str, Any]

_HEADER = 8 << 10
_HEAD = 512 << 10
_TAIL = 128 << 10
# A fork's header is written moments before the session starts.
_FRESH_MS = 60_000
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended"})


class _Header(msgspec.Struct):
    cwd: Any = None


_HEADERS = msgspec.json.Decoder(_Header)


class Head(NamedTuple):
    """The beginning of a session file. Times are epoch milliseconds.

    ``created_ms``: of the header. ``is_fork``: it names a parent. ``first_ms``: of the first message.
    ``own_ms``: of the first message that is no copy. ``asked``: the first own text of the user's.
    """

    created_ms: int
    is_fork: bool
    first_ms: int | None
    own_ms: int | None
    asked: str | None
    is_whole: bool


class Last(NamedTuple):
    """What the end of a session file said last."""

    name: str | None
    model: str | None


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as its file knows it: ``title`` (custom, else first-ask) and ``model``, where the hook had none."""
    session, memo = draft["session"], draft.get("memo", {})
    named, modelled = session.get("title"), session.get("model")
    if draft["type"] not in _TELLING or (named and modelled):
        return {}
    found: dict[str, Any] = {}
    place = _file(draft, files)
    last = files.learn(place, "pi.last", read_last) if place else None
    if last and last.model and not modelled:
        found["model"] = last.model
    if named:
        return found
    if last and (title := titled(last.name, "custom")):
        return found | title
    head = files.learn(place, "pi.head", read_head) if place else None
    first = head.asked if head else None
    prompt = memo.get("prompt")
    if first is None and (head is None or head.is_whole) and isinstance(prompt, str):
        # The file is made only when the first message has ended.
        first = typed(prompt)
    return found | first_ask(first or "")


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts, a ``session.started`` at startup with the source its file proves: ``resume`` or ``fork``."""
    return [_amended(draft, files) for draft in drafts]


def _amended(draft: Draft, files: Files) -> Draft:
    if draft["type"] != "session.started" or draft["data"].get("source") != "startup":
        return draft
    place = _file(draft, files)
    head = files.learn(place, "pi.head", read_head) if place else None
    # By the time this is read the session's own first message may be there too.
    if head is None or head.first_ms is None or head.first_ms >= draft["at_ms"]:
        return draft
    goes_on = head.own_ms is not None and head.own_ms < draft["at_ms"]
    fresh = abs(draft["at_ms"] - head.created_ms) <= _FRESH_MS
    source = "fork" if head.is_fork and fresh and not goes_on else "resume"
    return {**draft, "data": {**draft["data"], "source": source}}


def _file(draft: Draft, files: Files) -> Path | None:
    memo = draft.get("memo", {})
    claimed = memo.get("file") or (memo.get("transcript") or {}).get("path")
    return find(claimed, files)


def read_head(opened: Opened) -> Head | None:
    """The first 512 KiB of a session file; None when it isn't one."""
    head: Head | None = None
    for line in jsonl.forward(opened, within=_HEAD):
        if line.end > _HEAD:
            return head._replace(is_whole=False) if head else None
        entry = read_record(line.data)
        if entry is None:
            continue
        if head is None:
            if entry.type != "session":
                return None
            head = Head(entry.ms or 0, isinstance(entry.parentSession, str), None, None, None, True)
            continue
        when = entry.ms
        if entry.type != "message" or when is None:
            continue
        if head.first_ms is None:
            head = head._replace(first_ms=when)
        if when < head.created_ms:
            continue
        if head.own_ms is None:
            head = head._replace(own_ms=when)
        message = entry.read_message() if head.asked is None else None
        if message and message.role == "user" and (text := asked(read_content(message)).strip()):
            head = head._replace(asked=text)
    return head


def read_last(opened: Opened) -> Last:
    """The name and the model the last 128 KiB of a session file end with."""
    name: str | None = None
    model: str | None = None
    for line in jsonl.backward(opened, _TAIL):
        if name is not None and model is not None:
            break
        if not any(kind in line.data for kind in (b"session_info", b"model_change", b'"assistant"')):
            continue
        entry = read_record(line.data)
        if entry is None:
            continue
        if entry.type == "session_info" and name is None and isinstance(entry.name, str):
            name = entry.name
        told = entry.modelId if entry.type == "model_change" else None
        message = entry.read_message()
        if message and message.role == "assistant":
            told = message.model
        if model is None and isinstance(told, str) and told:
            model = told
    return Last(name, model)


# --- what was there before us ---------------------------------------------------------------------

#: A file up to this size is read whole, so that its prompts can be counted.
_COUNTED = 4 << 20


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The sessions in Pi's folders: see :mod:`sessionpipe.harnesses.history`."""
    for path in session_files(context.env, files):
        if (files.changed_ms(path) or 0) < since_ms:
            return  # They come latest first.
        if opened := files.open(path):
            with opened:
                past = read_past(opened)
            if past:
                yield past


def read_past(opened: Opened) -> Past | None:
    """What a session file's beginning and end say of it; None when it is no session, or nothing was asked in it.

    What a fork copied is its parent's: only entries from its header's time on count.
    """
    header: Record | None = None
    born = first = last = None
    turns, asked_first = 0, None
    whole = opened.size <= _COUNTED
    for line in jsonl.forward(opened, within=None if whole else _HEAD):
        entry = read_record(line.data)
        if entry is None:
            continue
        if header is None:
            if entry.type != "session" or not isinstance(entry.id, str):
                return None
            header, born = entry, entry.ms or 0
            continue
        if entry.type == "message" and entry.ms is not None and entry.ms >= (born or 0):
            first, last = first or entry.ms, entry.ms
            message = entry.read_message()
            if message and message.role == "user":
                turns += 1
                asked_first = asked_first or asked(read_content(message)).strip()
        if not whole and line.end > _HEAD:
            break
    if header is None or not turns or first is None:
        return None
    if not whole:
        times = (entry.ms for line in jsonl.backward(opened, _TAIL) if (entry := read_record(line.data)))
        last = next((ms for ms in times if ms is not None), last)
    said = read_last(opened)
    cwd = read_cwd(opened)
    block = {"cwd": cwd, "model": said.model, **(titled(said.name, "custom") or first_ask(asked_first or ""))}
    return Past(
        str(header.id),
        born or first,
        last or first,
        turns if whole else None,
        {name: value for name, value in block.items() if value},
    )


def read_cwd(opened: Opened) -> str | None:
    """The folder that a session file's header names."""
    line, end, _ = opened.head(_HEADER).partition(b"\n")
    header = jsonl.decode(line, _HEADERS) if end else None
    return header.cwd if header and isinstance(header.cwd, str) else None


__all__ = ["amend", "exchanges", "facts", "history"]
