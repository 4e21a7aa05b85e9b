"""Cursor: what its transcripts say, and where they are when no hook says it.

A transcript has what was said and how each turn ended, but neither times nor what tools returned, so
whatever has to have a time gets its hook's, or the file's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Ended, Failed, Meaning, Prompt, Said, Step
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past, first_asked, glimpse, listed
from sessionpipe.harnesses.titles import first_ask
from sessionpipe.harnesses.transcripts import Reading, Want

Draft = dict[str, Any]

_ID = r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}"
_NAME = re.compile(rf"{_ID}\.jsonl")
_TAIL = 64 << 10
_ENDING = frozenset({"turn.ended", "session.ended"})
_TELLING = _ENDING | {"session.started", "turn.started"}


# --- transcripts ----------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a record that mean anything here; each may be anything at all."""

    role: Any = None
    type: Any = None
    message: Any = None
    status: Any = None
    error: Any = None


_RECORDS = msgspec.json.Decoder(Record)
# What the person typed, where the editor adds what it knows of their files beside it.
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, _RECORDS)
        return steps(record) if record else ()


def steps(record: Record) -> Iterator[Step]:
    """What a record does to the conversation; nothing for those that are no message and no end."""
    if record.type == "turn_ended":
        if record.status == "error":
            yield Failed(record.error if isinstance(record.error, str) else "", None)
        yield Ended(True, None)
        return
    content = record.message.get("content") if isinstance(record.message, dict) else None
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    if isinstance(content, str):
        texts = [content]
    kinds = {b.get("type") for b in blocks if isinstance(b.get("type"), str)}
    if record.role == "user" and texts and "tool_result" not in kinds:
        yield Prompt("ask", typed("\n".join(texts)), None)
    elif record.role == "assistant":
        said = [text.strip() for text in texts if text.strip()]
        yield Said(None, said, "tool_use" in kinds, None)


def typed(text: str) -> str:
    """A prompt's text without what the editor put around it."""
    queries = _QUERY.findall(text)
    return "\n".join(queries) if queries else text.strip()


def find(claimed: object, files: Files) -> Path | None:
    """The transcript a payload names, if its name is one Cursor would give."""
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


_FORMAT = reading.Format(find, lambda opened: _Meaning(), timed=False)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``; each has the time of the hook that led to it."""
    return reading.exchanges(_FORMAT, path, cursor, want, files)


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the conversation's transcript is: in the folder of its workspace, else in any other's.

    Payloads name none at a conversation's start, and a workspace is not always called after its folder.
    """
    name = draft["session"]["id"]
    if not context.home or not re.fullmatch(_ID, name):
        return None
    projects = f"{context.home}/.cursor/projects"
    likely = slugs(draft["session"].get("cwd") or "")
    for slug in chain(likely, _folders(projects)):
        for place in (f"{name}/{name}.jsonl", f"{name}.jsonl"):
            path = f"{projects}/{slug}/agent-transcripts/{place}"
            if opened := files.open(path):
                with opened:
                    return path
    return None


def _folders(projects: str) -> Iterator[str]:
    # Their conversations are not listed: there may be thousands, and this is asked at every turn's end.
    try:
        yield from sorted(os.listdir(projects))  # noqa: PTH208
    except OSError:
        return


def slugs(cwd: str) -> list[str]:
    """What Cursor may call a workspace's folder: everything but ASCII letters and digits becomes a dash."""
    drive = re.match(r"([A-Za-z]):", cwd)
    path = cwd[0].lower() + cwd[1:] if drive else cwd
    plain = re.sub(r"[^A-Za-z0-9]", "-", path.encode("ascii", "ignore").decode())
    narrow = re.sub(r"-+", "-", plain)
    return list(dict.fromkeys(slug for slug in (plain.strip("-"), narrow.strip("-"), plain) if slug))


# --- facts ----------------------------------------------------------------------------------------


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (first-ask): of the transcript, else of the first prompt. Everything else is in the payloads."""
    memo = draft.get("memo", {})
    if draft["type"] not in _TELLING:
        return {}
    asked = first_asked(_place(draft, context, files), _FORMAT, files)
    prompt = memo.get("prompt")
    if asked is None and isinstance(prompt, str):
        asked = typed(prompt)
    return first_ask(asked or "")


def _place(draft: Draft, context: Context, files: Files) -> Path | None:
    """The conversation's transcript. It is looked for only at an end: before, there may be none to find."""
    named = draft.get("memo", {}).get("file")
    if named is None and draft["type"] in _ENDING:
        named = transcript(draft, context, files)
    return find(named, files)


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts with what went wrong: of a command its exit code, of a turn what its transcript ends with."""
    return [_amended(draft, context, files) for draft in drafts]


def _amended(draft: Draft, context: Context, files: Files) -> Draft:
    error = None
    if "error" not in draft["data"]:
        if draft["type"] == "tool.ended" and not draft["data"]["ok"]:
            error = _exit_code(draft["data"].get("output"))
        elif draft["type"] == "turn.ended" and draft["data"]["reason"] == "error":
            error = _last_error(_place(draft, context, files), files)
    return {**draft, "data": {**draft["data"], "error": error}} if error else draft


def _exit_code(output: object) -> str | None:
    code = output.get("exitCode") if isinstance(output, dict) else None
    return f"Exit code {code}" if isinstance(code, int) and not isinstance(code, bool) else None


def _last_error(place: Path | None, files: Files) -> str | None:
    """What the last line says went wrong, where that is a turn's end."""
    opened = files.open(place) if place else None
    if opened is None:
        return None
    with opened:
        last = next(jsonl.backward(opened, _TAIL), None)
    record = jsonl.decode(last.data, _RECORDS) if last else None
    failed = record is not None and record.type == "turn_ended" and record.status == "error"
    return record.error if record and failed and isinstance(record.error, str) and record.error else None


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The conversations whose transcripts are kept, with their files' times; which folder was open is lost."""
    if not context.home:
        return
    seen: set[str] = set()
    levels = (f"{context.home}/.cursor/projects", ".+", "agent-transcripts")
    for path, changed_ms in chain(
        listed(*levels, _ID, rf"{_ID}\.jsonl", since_ms=since_ms),
        listed(*levels, rf"{_ID}\.jsonl", since_ms=since_ms),
    ):
        name = path.stem
        # A folder of that name may hold its subagents', too.
        if name in seen or path.parent.name not in ("agent-transcripts", name):
            continue
        if (opened := files.open(path)) is None:
            continue
        with opened:
            glimpsed = glimpse(opened, _FORMAT)
        if glimpsed and glimpsed.asked:
            seen.add(name)
            yield Past(name, changed_ms, changed_ms, glimpsed.turns, dict(first_ask(glimpsed.asked)))


__all__ = ["amend", "exchanges", "facts", "history", "transcript"]
