"""GitHub Copilot CLI: what the events of a session's own file say of it.

``~/.copilot/session-state/<session id>/events.jsonl`` has everything the hooks leave out: the version, the
model, the title, who wrote a prompt, that the person stopped a turn, and whether a session is really over.
Its folder is called as the session is.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Ended, Interrupted, Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.ends import End
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.history import Past, first_asked, glimpse, listed
from sessionpipe.harnesses.tail import Tail
from sessionpipe.harnesses.titles import first_ask, titled
from sessionpipe.harnesses.transcripts import Reading, Want

Draft = dict[str, Any]

_ID = r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}"
_NAME = "events.jsonl"
#: How many of the last turns that were stopped are remembered: more than can be between two hooks.
_ENDS = 16
#: Up to this version every prompt had a sessionEnd of its own.
_LAST_PER_PROMPT = (1, 0, 25)
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended", "context.compacted"})


# --- the file -------------------------------------------------------------------------------------


class Record(msgspec.Struct):
    """The fields of a record that mean anything here; each may be anything at all."""

    type: Any = None
    data: Any = None
    timestamp: Any = None
    agentId: Any = None

    def get(self, name: str) -> str | None:
        """A member of ``data`` that is a string with something in it."""
        value = self.data.get(name) if isinstance(self.data, dict) else None
        return value if isinstance(value, str) and value else None


_RECORDS = msgspec.json.Decoder(Record)
# The records that are looked into; a tool's are the largest, and say nothing else here.
_TALKING = re.compile(
    rb'"type"\s*:\s*"(?:user\.message|assistant\.message|assistant\.turn_(?:start|end)|abort'
    rb'|tool\.execution_(?:start|complete)|session\.(?:idle|shutdown))"'
)


def _own(line: bytes) -> Record | None:
    """A line's record, if it is the session's own: a subagent's name their agent."""
    record = jsonl.decode(line, _RECORDS)
    return record if record and record.agentId is None else None


class _Meaning(Meaning):
    """The model is called again and again; the turn is over when it called for no tool.

    What the harness writes in the person's place (a skill, an agent's answer, an autopilot's "go on") is
    part of whatever turn is under way.
    """

    def __init__(self) -> None:
        self._calls = False

    def steps(self, line: jsonl.Line) -> Iterator[Step]:
        record = _own(line.data) if _TALKING.search(line.data) else None
        if record is None:
            return
        ms = jsonl.epoch_ms(record.timestamp)
        data = record.data if isinstance(record.data, dict) else {}
        match record.type:
            case "user.message":
                self._calls = False
                if data.get("source") or data.get("isAutopilotContinuation") is True:
                    yield Worked(ms)
                elif text := record.get("content"):
                    yield Prompt("ask", text, ms)
            case "assistant.turn_start":
                self._calls = False
            case "assistant.message":
                calls = bool(data.get("toolRequests"))
                self._calls = self._calls or calls
                text = record.get("content") or ""
                yield Said(record.get("messageId"), [text.strip()] if text.strip() else [], calls, ms)
            case "assistant.turn_end" if not self._calls:
                yield Ended(True, ms)
            case "tool.execution_start":
                self._calls = True
                yield Worked(ms)
            case "tool.execution_complete":
                yield Worked(ms)
            case "abort":
                yield Interrupted(ms)
            case "session.idle" | "session.shutdown":
                yield Ended(True, ms)


def find(claimed: object, files: Files) -> Path | None:
    """The session's file, if a path names one that Copilot would write."""
    return files.resolve(claimed, suffix=_NAME, name_ok=lambda name: name == _NAME)


_FORMAT = reading.Format(find, lambda opened: _Meaning(), backward=False)


def exchanges(path: str | Path | None, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    """Every completed exchange behind ``cursor``: see :mod:`sessionpipe.harnesses.transcripts`."""
    return reading.exchanges(_FORMAT, path, cursor, want, files)


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where the session's file is; most payloads don't say it."""
    home, name = _home(context), draft["session"]["id"]
    return f"{home}/session-state/{name}/{_NAME}" if home and re.fullmatch(_ID, name) else None


def _home(context: Context) -> str | None:
    home = context.env.get("COPILOT_HOME") or (f"{context.home}/.copilot" if context.home else "")
    return home.rstrip("/") if os.path.isabs(home) else None  # noqa: PTH117 - every hook asks


# --- what it says ---------------------------------------------------------------------------------


class Head(NamedTuple):
    """What a session began with."""

    version: str | None
    model: str | None
    cwd: str | None


def _read_head(opened: Opened) -> Head | None:
    """Of the first record, which alone has all of it; None until that is written."""
    first = jsonl.first(opened)
    record = jsonl.decode(first.data, _RECORDS) if first else None
    if record is None or record.type != "session.start":
        return None
    context = record.data.get("context") if isinstance(record.data, dict) else None
    cwd = context.get("cwd") if isinstance(context, dict) else None
    folder = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else None  # noqa: PTH117
    return Head(record.get("copilotVersion"), record.get("selectedModel"), folder)


class Latest(Tail):
    """What a session's file said last of what changes."""

    SAYING = (b'"assistant.message"', b'"abort"', b'"session.')

    def __init__(self) -> None:
        super().__init__()
        self.version: str | None = None
        self.model: str | None = None
        self.title: str | None = None
        #: Turns that the person stopped.
        self.ends: deque[End] = deque(maxlen=_ENDS)
        #: Whether the program has left the session, and did not come back.
        self.left = False

    def see(self, line: bytes) -> None:
        record = _own(line)
        if record is None:
            return
        match record.type:
            case "session.start" | "session.resume":
                self.version = record.get("copilotVersion") or self.version
                self.model = record.get("selectedModel") or self.model
                self.left = False
            case "session.title_changed":
                self.title = record.get("title") or self.title
            case "session.model_change":
                self.model = record.get("newModel") or record.get("model") or self.model
            case "assistant.message":
                self.model = record.get("model") or self.model
                self.left = False
            case "abort" if ms := jsonl.epoch_ms(record.timestamp):
                self.ends.append(End(ms, None, "interrupt"))
            case "session.shutdown":
                self.left = True


class Known(NamedTuple):
    """What a session's file says; ``place`` is where it is."""

    place: Path
    head: Head
    latest: Latest

    @property
    def version(self) -> str | None:
        return self.latest.version or self.head.version

    @property
    def model(self) -> str | None:
        return self.latest.model or self.head.model

    @property
    def tells_once(self) -> bool | None:
        """Whether a session starts and ends once, and not with every prompt; None where nobody knows."""
        version = _numbers(self.version)
        return None if version is None else version > _LAST_PER_PROMPT


def _known(draft: Draft, context: Context, files: Files) -> Known | None:
    place = find(draft.get("memo", {}).get("file") or transcript(draft, context, files), files)
    latest = files.learn(place, "copilot-cli.latest", lambda _: Latest(), per="file") if place else None
    if place is None or latest is None:
        return None
    latest.catch_up(files.open(place))
    head = files.learn(place, "copilot-cli.head", _read_head, per="file")
    return Known(place, head or Head(None, None, None), latest)


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title`` (harness, else first-ask), ``model`` and ``version``, as the session's file knows them."""
    if draft["type"] not in _TELLING:
        return {}
    known = _known(draft, context, files)
    found = {
        name: value
        for name, value in (("version", known and known.version), ("model", known and known.model))
        if value
    }
    if known and (title := titled(known.latest.title, "harness")):
        return found | title
    asked = first_asked(known.place, _FORMAT, files) if known else None
    prompt = draft.get("memo", {}).get("prompt")
    if asked is None and isinstance(prompt, str):
        asked = prompt
    return found | first_ask(asked or "")


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts without the starts and the ends of a session that are only a prompt's.

    An end is the session's when the person left it, when its file says that the program did, or when that
    is the work of a version that no longer says it with every prompt. Of a version that does, the first
    start is the session's.
    """
    amended: list[Draft] = []
    for draft in drafts:
        if draft["type"] == "session.started":
            known = _known(draft, context, files)
            if known and known.tells_once is False:
                draft = {**draft, "memo": {**draft["memo"], "only_new": True}}
        elif draft["type"] == "session.ended" and draft["data"]["reason"] != "exit":
            known = _known(draft, context, files)
            if known is None or not (known.latest.left or known.tells_once):
                continue
        amended.append(draft)
    return amended


def _numbers(version: str | None) -> tuple[int, ...] | None:
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", version or "")
    return tuple(map(int, found.groups())) if found else None


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts behind the ends of turns that the person stopped, which no hook tells."""
    first = drafts[0]
    known = _known(first, context, files) if first["type"] in _TELLING else None
    # A job may be read long after its hook ran: what has happened since is not this hook's to tell.
    ends = [end for end in known.latest.ends if end.ms <= first["at_ms"]] if known else []
    return [*(end.draft(first) for end in ends), *drafts]


# --- history --------------------------------------------------------------------------------------


def history(context: Context, since_ms: int, files: Files) -> Iterator[Past]:
    """The sessions whose files are kept."""
    home = _home(context)
    found = listed(f"{home}/session-state", _ID, re.escape(_NAME), since_ms=since_ms) if home else ()
    for path, changed_ms in found:
        if (opened := files.open(path)) is None:
            continue
        with opened:
            glimpsed, head = glimpse(opened, _FORMAT), _read_head(opened) or Head(None, None, None)
        if glimpsed is None or glimpsed.asked is None:
            continue
        latest = Latest()
        latest.catch_up(files.open(path))
        known = Known(path, head, latest)
        block: dict[str, Any] = {
            **(titled(latest.title, "harness") or first_ask(glimpsed.asked)),
            **({"model": known.model} if known.model else {}),
            **({"cwd": head.cwd} if head.cwd else {}),
        }
        last_ms = glimpsed.last_ms or changed_ms
        yield Past(
            path.parent.name, glimpsed.first_ms or last_ms, last_ms, glimpsed.turns, block, known.version
        )


__all__ = ["amend", "exchanges", "facts", "history", "missed", "transcript"]
