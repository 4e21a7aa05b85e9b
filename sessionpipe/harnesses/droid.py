"""Droid: what its session files say.

``~/.factory/sessions/<folder>/<session id>.jsonl`` begins with a ``session_start`` record; its messages are
written again while they stream, under the same inner id, and nothing says that a turn has ended. The model
is in ``<session id>.settings.json`` beside it. ``agent-<id>.jsonl`` are subagents'.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.history import Past, first_asked, glimpse, listed
from sessionpipe.harnesses.titles import first_ask
from sessionpipe.harnesses.transcripts import Reading, Want

Draft = dict[str, Any]

_ID = r"(?!agent-)[0-9A-Za-z][0-9A-Za-z_-]{0,127}"
_NAME = re.compile(rf"{_ID}\.jsonl")
_SETTINGS = 1 << 20
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended"})


# --- transcripts ----------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a record that mean anything here; each may be anything at all."""

    type: Any = None
    id: Any = None
    message: Any = None
    timestamp: Any = None
    cwd: Any = None


_RECORDS = msgspec.json.Decoder(Record)
# What Droid tells the model between a person's words.
_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)


class _Meaning(Meaning):
    """Of a message that is written several times the last one counts, and a prompt is asked once."""

    def __init__(self) -> None:
        self._asked: str | None = None

    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, _RECORDS)
        message = record.message if record and record.type == "message" else None
        if record is None or not isinstance(message, dict):
            return ()
        name = next((i for i in (message.get("id"), record.id) if isinstance(i, str) and i), None)
        if message.get("role") == "assistant":
            return self._assistant(message, name, jsonl.epoch_ms(record.timestamp))
        if message.get("role") == "user":
            return self._user(message, name, jsonl.epoch_ms(record.timestamp))
        return ()

    def _assistant(self, message: dict[str, Any], name: str | None, ms: int | None) -> Iterator[Step]:
        texts, kinds = _content(message)
        said = [text.strip() for text in texts if text.strip()]
        yield Said(name, said, "tool_use" in kinds, ms, again=name is not None)

    def _user(self, message: dict[str, Any], name: str | None, ms: int | None) -> Iterator[Step]:
        texts, kinds = _content(message)
        own = [text for text in texts if text.strip() and not _REMINDER.fullmatch(text)]
        if "tool_result" in kinds:
            yield Worked(ms)
        elif own and (name is None or name != self._asked):
            self._asked = name
            yield Prompt("ask", "\n".join(own), ms)


def _content(message: dict[str, Any]) -> tuple[list[str], set[str]]:
    """The texts of a message, and the types of its blocks."""
    content = message.get("content")
    if isinstance(content, str):
        return [content], {"text"}
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    return texts, {kind for b in blocks if isinstance(kind := b.get("type"), str)}


def find(claimed: object, files: Files) -> Path | None:
    """The session's own file, if a payload names one that Droid would write."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


_FORMAT = reading.Format(find, lambda opened: _Meaning(), backward=False, parting=True, quiet=True)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`."""
    return reading.exchanges(_FORMAT, path, cursor, want, files)


# --- facts ----------------------------------------------------------------------------------------


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (first-ask) and ``model``, as the session's files know them."""
    memo = draft.get("memo", {})
    if draft["type"] not in _TELLING or memo.get("thread") is not None:
        return {}
    found: dict[str, Any] = {}
    place = find(memo.get("file"), files)
    if place and not draft["session"].get("model"):
        found |= _model(place, files)
    asked = first_asked(place, _FORMAT, files)
    prompt = memo.get("prompt")
    if asked is None and isinstance(prompt, str):
        asked = prompt
    return found | first_ask(asked or "")


def _model(place: Path, files: Files) -> dict[str, str]:
    settings = place.with_name(f"{place.stem}.settings.json")
    model = files.learn(settings, "droid.model", _chosen)
    return {"model": model} if model else {}


class _Chosen(msgspec.Struct):
    model: Any = None


_CHOSEN = msgspec.json.Decoder(_Chosen)


def _chosen(opened: Opened) -> str | None:
    """The model a session runs with; one that a person added is marked as custom."""
    read = jsonl.decode(opened.head(_SETTINGS), _CHOSEN) if opened.size <= _SETTINGS else None
    model = read.model if read else None
    return model.removeprefix("custom:") or None if isinstance(model, str) else None


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The sessions whose files are kept."""
    home = context.env.get("FACTORY_HOME_OVERRIDE") or context.home
    if not home or not os.path.isabs(home):  # noqa: PTH117
        return
    seen: set[str] = set()
    for folder in ("sessions", "projects"):
        for path, changed_ms in listed(
            f"{home}/.factory/{folder}", ".+", rf"{_ID}\.jsonl", since_ms=since_ms
        ):
            if path.stem in seen or (opened := files.open(path)) is None:
                continue
            with opened:
                glimpsed, cwd = glimpse(opened, _FORMAT), _folder(opened)
            if glimpsed is None or glimpsed.asked is None:
                continue
            seen.add(path.stem)
            last_ms = glimpsed.last_ms or changed_ms
            block = {**first_ask(glimpsed.asked), **_model(path, files), **({"cwd": cwd} if cwd else {})}
            yield Past(path.stem, glimpsed.first_ms or last_ms, last_ms, glimpsed.turns, block)


def _folder(opened: Opened) -> str | None:
    """The folder a session started in, as its first record says."""
    first = jsonl.first(opened)
    record = jsonl.decode(first.data, _RECORDS) if first else None
    cwd = record.cwd if record and record.type == "session_start" else None
    return cwd if isinstance(cwd, str) and os.path.isabs(cwd) else None  # noqa: PTH117


__all__ = ["exchanges", "facts", "history"]
