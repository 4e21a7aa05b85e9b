"""Antigravity: what its transcripts say.

``<data>/brain/<conversation id>/.system_generated/logs/transcript.jsonl``, where the editor, the command line
and the IDE have a data folder each. No hook has a prompt's text, nothing in the file says that a turn has
ended, and of what the person typed only that stands in it which is marked as theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past, first_asked, glimpse, listed
from sessionpipe.harnesses.titles import first_ask
from sessionpipe.harnesses.transcripts import Reading, Want

Draft = dict[str, Any]

_ID = r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}"
_NAME = "transcript.jsonl"
_DATA = ("antigravity-cli", "antigravity", "antigravity-ide")
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended"})


# --- transcripts ----------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a record that mean anything here; each may be anything at all."""

    type: Any = None
    content: Any = None
    text: Any = None
    tool_calls: Any = None
    created_at: Any = None
    timestamp: Any = None


_RECORDS = msgspec.json.Decoder(Record)
_REQUEST = re.compile(r"<USER_REQUEST>\s*(.*?)\s*</USER_REQUEST>", re.DOTALL)


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, _RECORDS)
        return steps(record) if record else ()


def steps(record: Record) -> Iterator[Step]:
    """What a record does to the conversation: a prompt, what was said, or a tool's step."""
    ms = next((ms for at in (record.created_at, record.timestamp) if (ms := jsonl.epoch_ms(at))), None)
    text = next((t for t in (record.content, record.text) if isinstance(t, str)), "")
    match record.type:
        case "USER_INPUT":
            requests = _REQUEST.findall(text)
            # Without the tags it is what Antigravity wrote in the person's place.
            yield Prompt("ask", "\n".join(requests), ms) if requests else Prompt("injected", "", ms)
        case "PLANNER_RESPONSE":
            yield Said(None, [text.strip()] if text.strip() else [], bool(record.tool_calls), ms)
        case str():
            yield Worked(ms)


def find(claimed: object, files: Files) -> Path | None:
    """The conversation's transcript, if a path names one that Antigravity would write."""
    return files.resolve(claimed, suffix=_NAME, name_ok=lambda name: name == _NAME)


_FORMAT = reading.Format(find, lambda opened: _Meaning(), backward=False, parting=True, quiet=True)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`."""
    return reading.exchanges(_FORMAT, path, cursor, want, files)


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the conversation's transcript is, in whichever data folder has it."""
    name = draft["session"]["id"]
    if not context.home or not re.fullmatch(_ID, name):
        return None
    places = [f"{context.home}/.gemini/{data}/brain/{name}/.system_generated/logs/{_NAME}" for data in _DATA]
    for place in places:
        if opened := files.open(place):
            with opened:
                return place
    return None


# --- facts ----------------------------------------------------------------------------------------


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (first-ask): no hook has it."""
    if draft["type"] not in _TELLING:
        return {}
    place = find(draft.get("memo", {}).get("file") or transcript(draft, context, files), files)
    return first_ask(first_asked(place, _FORMAT, files) or "")


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The conversations whose transcripts are kept."""
    if not context.home:
        return
    seen: set[str] = set()
    levels = (_ID, re.escape(".system_generated"), "logs", re.escape(_NAME))
    for data in _DATA:
        for path, changed_ms in listed(f"{context.home}/.gemini/{data}/brain", *levels, since_ms=since_ms):
            name = path.parents[2].name
            if name in seen or (opened := files.open(path)) is None:
                continue
            with opened:
                glimpsed = glimpse(opened, _FORMAT)
            if glimpsed is None or glimpsed.asked is None:
                continue
            seen.add(name)
            last_ms = glimpsed.last_ms or changed_ms
            block = dict(first_ask(glimpsed.asked))
            yield Past(name, glimpsed.first_ms or last_ms, last_ms, glimpsed.turns, block)


__all__ = ["exchanges", "facts", "history", "transcript"]
