"""Gemini CLI: what its chats say about sessions and turns.

Its hooks tell neither model nor name of a session, and its AfterAgent comes for a turn that the person
stopped as for any other: the chat says so. One whose call was declined fires nothing at all. Its files know
an account by its address alone, which never leaves the machine: so there is none.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.ends import End, learnt
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.gemini_cli_chat import (
    CANCELLED,
    DECODER,
    FORMAT,
    NAME,
    Change,
    History,
    asked,
    exchanges,
    find,
    is_ask,
    snapshots,
    texts,
)
from sessionpipe.harnesses.history import Past, glimpse, listed
from sessionpipe.harnesses.tail import Tail
from sessionpipe.harnesses.titles import first_ask, titled

Draft = dict[str, Any]

_HEAD = 1 << 20
_ROOT = 4 << 10

# When the chat may say something new: what happens between these changes no name, no model and no turn.
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended", "context.compacted"})
_BOUNDS = frozenset({"turn.started", "turn.ended", "session.ended"})


# --- facts ----------------------------------------------------------------------------------------


class Head(NamedTuple):
    """A chat's beginning: whose session, of which kind, since when, what was first asked, and where."""

    session_id: str | None
    kind: str | None
    started_ms: int | None
    asked: str | None
    folder: str | None
    is_whole: bool


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as its chat knows it: ``model``, ``title`` (its summary by Gemini, else the first ask)."""
    memo = draft.get("memo", {})
    chat = find(memo.get("file"), files)
    latest = _latest(chat, files) if chat else None
    found: dict[str, Any] = {}
    if chat and latest and draft["type"] in _TELLING:
        latest.catch_up(files.open(chat))
        if latest.model:
            found["model"] = latest.model
        if title := titled(latest.summary, "harness"):
            return found | title
    head = _head(chat, files) if chat else None
    first, prompt = head.asked if head else None, memo.get("prompt")
    if first is None and (head is None or head.is_whole) and isinstance(prompt, str) and is_ask(prompt):
        # The chat holds a prompt only after its hook ran.
        first = prompt
    return found | first_ask(first or "")


def _head(chat: Path, files: Files) -> Head | None:
    settled = files.learn(chat, "gemini-cli.head", _settled_head, per="file")
    return settled or files.learn(chat, "gemini-cli.beginning", read_head)


def _settled_head(opened: Opened) -> Head | None:
    head = read_head(opened)
    return head if head.asked or not head.is_whole else None


_WORKSPACE = re.compile(r"Workspace Directories:\*{0,2}\n\s*- ([^\n]{1,4096})\n")


def read_head(opened: Opened) -> Head:
    """A chat's beginning, in its first MiB."""
    session_id, kind, started, first, folder = None, None, None, None, None
    history, whole = History(), True
    for line in jsonl.forward(opened, within=_HEAD):
        if line.end > _HEAD:
            whole = False
            break
        if folder is None and (told := _WORKSPACE.search(_unquoted(line.data))):
            folder = told[1]
        record = jsonl.decode(line.data, DECODER)
        if record is None:
            continue
        if record.is_header and session_id is None:
            session_id, started = record.sessionId, jsonl.epoch_ms(record.startTime)
            kind = record.kind if isinstance(record.kind, str) else None
        if not history.holds(record, line.start) and record.type == "user" and is_ask(text := asked(record)):
            first = first or text
    return Head(session_id, kind, started, first, folder, whole)


def _unquoted(line: bytes) -> str:
    """A line's beginning with its line breaks, enough of it to find a folder in the session's context."""
    if b"Workspace Directories" not in line:
        return ""
    return line[: 64 << 10].decode("utf-8", "replace").replace("\\n", "\n")


# --- what the chat said last ----------------------------------------------------------------------


class Latest(Tail):
    """What a chat said last of what changes."""

    SAYING = (b'"type":"user"', b'"type":"info"', b'"model"', b'"summary"')

    def __init__(self) -> None:
        super().__init__()
        self.model: str | None = None
        self.summary: str | None = None
        #: Prompts and interruptions, as (epoch ms, whether it is an interruption).
        self.turns: deque[tuple[int, bool]] = deque(maxlen=32)
        #: When the history was compressed (epoch ms).
        self.compressed: deque[int] = deque(maxlen=16)
        self._history = History()

    def see(self, line: bytes) -> None:
        record = jsonl.decode(line, DECODER)
        if record is None:
            return
        if record.change is not None and isinstance(record.change.summary, str):
            self.summary = record.change.summary
        anew = self._history.held is not None
        if self._history.holds(record, 0):
            return
        if record.change is not None and not anew:
            # Where the history was written anew before, what is in it was compressed at another time.
            self._see_compression(record.change)
        ms = jsonl.epoch_ms(record.timestamp)
        if record.type == "gemini" and isinstance(record.model, str) and record.model:
            self.model = record.model
        elif record.type == "user" and ms and asked(record):
            self.turns.append((ms, False))
        elif record.type == "info" and ms and CANCELLED in texts(record.content):
            self.turns.append((ms, True))

    def _see_compression(self, change: Change) -> None:
        for message in snapshots(change):
            ms = jsonl.epoch_ms(message.timestamp)
            if ms and ms > max(self.compressed, default=0):
                self.compressed.append(ms)

    def was_interrupted(self, at_ms: int) -> bool:
        """Whether the turn that was over at that time was interrupted."""
        last = next((interrupted for ms, interrupted in reversed(self.turns) if ms <= at_ms), False)
        return last


def _latest(chat: Path, files: Files) -> Latest | None:
    return files.learn(chat, "gemini-cli.latest", lambda _: Latest(), per="file")


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts, a turn's end with what its chat says of it: that the person stopped it."""
    return [_amended(draft, files) if draft["type"] == "turn.ended" else draft for draft in drafts]


def _amended(draft: Draft, files: Files) -> Draft:
    chat = find(draft["memo"].get("file"), files)
    latest = _latest(chat, files) if chat else None
    if chat is None or latest is None:
        return draft
    latest.catch_up(files.open(chat))
    if not latest.was_interrupted(draft["at_ms"]):
        return draft
    # What the model had said is not in the chat, and is waited for in vain.
    want = {**draft["memo"]["transcript"], "said": None}
    return {
        **draft,
        "data": {**draft["data"], "reason": "interrupt"},
        "memo": {**draft["memo"], "transcript": want},
    }


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts behind what no hook told: the ends of turns in which the person declined a call, and compressions.

    A hook says beforehand that the history may be compressed; whether it was is in the chat. Each is told
    again at every hook: what is known of the session says whether it is news.
    """
    first = drafts[0]
    chat = find(first["memo"].get("file"), files)
    latest = _latest(chat, files) if chat and first["type"] in _BOUNDS else None
    if chat is None or latest is None:
        return drafts
    latest.catch_up(files.open(chat))
    told = [learnt("context.compacted", ms, {"trigger": "auto"}, first) for ms in latest.compressed]
    if first["type"] != "turn.ended":
        told += [End(ms, None, "interrupt").draft(first) for ms, interrupted in latest.turns if interrupted]
    before = [draft for draft in told if draft["at_ms"] <= first["at_ms"]]
    return [*sorted(before, key=lambda draft: int(draft["at_ms"])), *drafts]


# --- what was there before us ---------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterable[Past]:
    """The visible sessions of Gemini CLI's folder: see :mod:`sessionpipe.harnesses.history`."""
    home = (context.env.get("GEMINI_CLI_HOME") or context.home or "").rstrip("/")
    if os.path.isabs(home):  # noqa: PTH117
        for chat in listed(f"{home}/.gemini/tmp", ".+", "chats", NAME, since_ms=since_ms):
            if past := _past(chat.path, files):
                yield past


def _past(chat: Path, files: Files) -> Past | None:
    opened = files.open(chat)
    if opened is None:
        return None
    with opened:
        head, seen = read_head(opened), glimpse(opened, FORMAT)
    if not head.session_id or head.kind not in (None, "main") or not head.started_ms or not head.asked:
        return None
    latest = Latest()
    latest.catch_up(files.open(chat))
    folder = files.learn(chat.parent.parent / ".project_root", "gemini-cli.root", _root) or head.folder
    block = {
        "cwd": folder if folder and os.path.isabs(folder) else None,  # noqa: PTH117
        "model": latest.model,
        **(titled(latest.summary, "harness") or first_ask(head.asked)),
    }
    last_ms, turns = (seen.last_ms or 0, seen.turns) if seen else (0, None)
    return Past(
        head.session_id,
        head.started_ms,
        max(head.started_ms, last_ms),
        turns,
        {name: value for name, value in block.items() if value is not None},
    )


def _root(opened: Opened) -> str | None:
    return opened.head(_ROOT).decode("utf-8", "replace").strip() if opened.size <= _ROOT else None


__all__ = ["amend", "exchanges", "facts", "history", "missed"]
