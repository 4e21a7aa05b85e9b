"""The engine: an adapter's table and one payload in, event drafts out. It knows no vendor.

:func:`compile_adapter` turns a table (``adapters/<name>.toml``, described in ``adapters/README.md``)
into an :class:`Adapter` once; :meth:`Adapter.map` is pure and is called per hook. What holds for every
harness (protocol v1 §3, §4, and the conventions of the adapters) is here; what a harness calls its
things is in its table.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sessionpipe.adapters import payload as payloads
from sessionpipe.adapters.fits import Fit, boolean, fits_of, matching, opaque, text
from sessionpipe.adapters.refused import Draft, Refused
from sessionpipe.adapters.values import Getter, Mistake, Scope, Test, condition, conditions, local, value
from sessionpipe.protocol import attention_id, is_lineage, is_session_id
from sessionpipe.protocol.vocabulary import VOCABULARY

#: Variables the protocol itself reads (§3), and the home that paths are shortened by.
PROTOCOL_ENVIRONMENT = ("HOME", "USERPROFILE", "SESSIONPIPE_ASKED_BY", "SESSIONPIPE_LAUNCHED_BY")

#: Of a permission request: which member of the tool's input a person is shown, and how much of it.
SHOWN = ("command", "file_path", "path", "url", "pattern")
SHOWN_CHARS = 120

#: A string of the session block that is longer is not what it says it is.
_BLOCK_LIMIT = 4096
_LAST_MOMENT = 253_402_300_800_000  # the year 10000, which RFC 3339 can't say
_ABSOLUTE = re.compile(r"/|\\\\|[A-Za-z]:[/\\]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_WORDS = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_ASKING = frozenset({"tool.started", "tool.ended", "attention.needed"})
_OF_A_TURN = frozenset({"turn.started", "turn.ended"})
_ENDING = frozenset({"turn.ended", "session.ended"})


@dataclass(frozen=True)
class Field:
    """One field of a draft: where it is looked for, in order, and what may stand in it."""

    name: str
    getters: tuple[Getter, ...]
    fit: Fit
    required: bool

    def find(self, scope: Scope) -> Any:
        for getter in self.getters:
            if (found := getter(scope)) is not None and (fitting := self.fit(found)) is not None:
                return fitting
        return None


@dataclass(frozen=True)
class Emission:
    """A draft that an event makes when its test holds and nothing the type requires is absent."""

    type: str
    test: Test | None
    fields: tuple[Field, ...]
    memo: tuple[Field, ...]
    made_message: bool


@dataclass(frozen=True)
class Event:
    """One of the harness's events: where its payload is, and what it becomes."""

    standing: str
    in_argument: bool
    emissions: tuple[Emission, ...]


@dataclass(frozen=True)
class Foreign:
    """How a payload looks that certainly is another harness's."""

    harness: str
    test: Test


@dataclass(frozen=True)
class Claim:
    """What a payload must have to be this harness's own."""

    foreign: tuple[Foreign, ...]
    has: tuple[tuple[str, Getter], ...]
    id: str

    def check(self, scope: Scope) -> None:
        for foreign in self.foreign:
            if foreign.test(scope):
                raise Refused(f"this is a payload of {foreign.harness}", foreign.harness)
        for name, getter in self.has:
            if text(getter(scope)) in (None, ""):
                raise Refused(f"it has no {name}")

    def check_id(self, session_id: Any) -> None:
        if session_id is None or session_id == "":
            raise Refused("it has no session id")
        if not is_session_id(session_id):
            raise Refused("its session id is not one")
        if self.id == "uuid" and not _UUID.fullmatch(session_id):
            raise Refused("its session id is no UUID")
        if self.id == "words" and (_UUID.fullmatch(session_id) or not _WORDS.fullmatch(session_id)):
            raise Refused("its session id is not made of words")


@dataclass(frozen=True)
class Adapter:
    """One harness's table, compiled."""

    name: str
    claim: Claim
    session_id: Getter
    session: tuple[Field, ...]
    version: Field
    at: Getter
    thread: Field
    turn_id: Field
    tool: Field
    input: Getter
    unasked: frozenset[str]
    file: Field
    events: Mapping[str, Event]
    ignored: frozenset[str]

    def knows(self, event: str) -> bool:
        """Whether the harness has an event of this name, be it one that means nothing here."""
        return event in self.events or event in self.ignored

    def map(
        self,
        event: str,
        data: bytes,
        *,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        at_ms: int,
        partial: bool,
    ) -> list[Draft]:
        """The drafts of one hook, see :func:`sessionpipe.adapters.map_hook`."""
        found = self.events.get(event)
        if found is None:
            if event in self.ignored:
                return []
            raise Refused(f"{self.name} has no event of this name")
        if found.in_argument:
            data = args[-1].encode("utf-8", "replace") if args else b""
        try:
            payload = payloads.read(data, cut=partial)
        except payloads.Unreadable as problem:
            raise Refused(str(problem)) from None
        scope = Scope(payload.value, env, args, cwd, self._ask)
        self.claim.check(scope)
        session_id = self.session_id(scope)
        self.claim.check_id(session_id)
        drafts = list(self._drafts(event, found, scope, session_id, at_ms, partial))
        return [payloads.smooth(draft) for draft in drafts] if payload.rough else drafts

    def _drafts(
        self, event: str, found: Event, scope: Scope, session_id: str, at_ms: int, partial: bool
    ) -> Iterator[Draft]:
        harness = {"name": self.name, "event": event}
        if version := self.version.find(scope):
            harness["version"] = version
        session = self._session(scope, session_id)
        moment = self._moment(scope, at_ms)
        memo: dict[str, Any] = {}
        if thread := self.thread.find(scope):
            memo["thread"] = thread
        if file := self.file.find(scope):
            memo["file"] = file
        if partial:
            memo["partial"] = True
        for emission in found.emissions:
            # The vocabulary can't say whose turn it is, so a subagent's would pass for the session's.
            if thread and emission.type in _OF_A_TURN:
                continue
            if emission.test is not None and not emission.test(scope):
                continue
            data = self._data(emission, scope, session, moment)
            if data is not None:
                yield {
                    "type": emission.type,
                    "at_ms": moment,
                    "harness": dict(harness),
                    "session": dict(session),
                    "data": data,
                    "memo": {**memo, **self._memo(emission, scope, data, file)},
                }

    def _moment(self, scope: Scope, at_ms: int) -> int:
        moment = self.at(scope)
        if type(moment) in (int, float) and 0 < moment < _LAST_MOMENT:
            return int(moment)
        return at_ms

    def _session(self, scope: Scope, session_id: str) -> dict[str, Any]:
        """The session block as this payload and the hook's surroundings tell it (§3), ``cwd`` raw."""
        block: dict[str, Any] = {"id": session_id}
        for field in self.session:
            if (found := field.find(scope)) is not None:
                block[field.name] = found
        if "title" not in block:
            block.pop("title_source", None)
        if block.get("parent_id") == session_id:
            del block["parent_id"]
        # A subagent's session was launched by its parent, whatever its environment inherited.
        if "parent_id" not in block:
            for name, variable in (
                ("launched_by", "SESSIONPIPE_LAUNCHED_BY"),
                ("delegated_by", "SESSIONPIPE_ASKED_BY"),
            ):
                said = scope.env.get(variable)
                if is_lineage(said) and said != f"{self.name}:{session_id}":
                    block[name] = said
        return block

    def _data(
        self, emission: Emission, scope: Scope, session: Mapping[str, Any], moment: int
    ) -> dict[str, Any] | None:
        data: dict[str, Any] = {}
        for field in emission.fields:
            if (found := field.find(scope)) is not None:
                data[field.name] = found
            elif field.required:
                return None
        if emission.type == "attention.needed":
            data.setdefault("attention_id", f"notif-{moment}")
        if emission.type == "files.changed":
            data["paths"] = [_under(path, session.get("cwd", "")) for path in data["paths"]]
        return data

    def _memo(
        self, emission: Emission, scope: Scope, data: Mapping[str, Any], file: str | None
    ) -> dict[str, Any]:
        memo: dict[str, Any] = {}
        for field in emission.memo:
            if (found := field.find(scope)) is not None:
                memo[field.name] = found
        if data.get("injected"):
            memo.pop("prompt", None)
        if emission.type in _ENDING:
            final = emission.type == "session.ended"
            memo["transcript"] = {"path": file, "said": memo.pop("said", None), "final": final}
        if emission.type in _ASKING and (tool := data.get("tool")):
            memo["ask"] = attention_id(
                data.get("turn_id") or self.turn_id.find(scope), tool, self._asked(scope)
            )
        if emission.made_message and (tool := data.get("tool")):
            memo["caps"] = {"message": len(tool) + 1 + SHOWN_CHARS}
        return memo

    def _asked(self, scope: Scope) -> Any:
        """The tool's input without what a harness tells only the person: equal for request and call."""
        asked = self.input(scope)
        if self.unasked and isinstance(asked, dict):
            return {key: inner for key, inner in asked.items() if key not in self.unasked}
        return asked

    def _ask(self, scope: Scope, name: str) -> str | None:
        """``$ask.id`` and ``$ask.message`` of a permission request."""
        tool, asked = self.tool.find(scope), self.input(scope)
        if name == "id":
            return attention_id(self.turn_id.find(scope), tool, asked)
        if tool is None:
            return None
        members = (asked.get(key) for key in SHOWN) if isinstance(asked, dict) else ()
        shown = next((member for member in members if isinstance(member, str)), None)
        return tool if shown is None else f"{tool} {shown}"


def _under(path: str, cwd: str) -> str:
    """``path`` as the tool meant it: seen from ``cwd`` unless it is absolute or below the home."""
    path = local(path)
    if not cwd or path.startswith("~/") or _ABSOLUTE.match(path):
        return path
    if cwd.startswith("/"):
        return posixpath.normpath(posixpath.join(cwd, path))
    return ntpath.normpath(ntpath.join(cwd, path))


# From a table to an adapter.

_TABLES = frozenset(
    {"harness", "recorded", "version", "at", "ignore"}
    | {"hook", "claim", "session", "fields", "ask", "transcript", "events", "install"}
)
_STANDINGS = frozenset({"recorded", "documented"})
#: What a session's id may be asked to be: a UUID, words with dashes between them, or any.
_FORMS: Mapping[str, str] = {form: form for form in ("any", "uuid", "words")}
_RESERVED = frozenset({"type", "when", "unless", "memo"})
_MEMO: Mapping[str, Fit] = {
    "echo": boolean,
    "only_known": boolean,
    "only_new": boolean,
    "only_running": boolean,
    "kind": text,
    "prompt": text,
    "said": text,
}


def _block_text(found: Any) -> str | None:
    # Smoothed because it may come from the environment or a path, which need not be text.
    return (
        _SURROGATES.sub("\ufffd", found)
        if isinstance(found, str) and 0 < len(found) <= _BLOCK_LIMIT
        else None
    )


def _folder(found: Any) -> str | None:
    """A folder is absolute, or nobody knows which one it is."""
    folder = _block_text(local(found) if isinstance(found, str) else None)
    return folder if folder and _ABSOLUTE.match(folder) else None


_SESSION: Mapping[str, Fit] = {
    "cwd": _folder,
    "model": _block_text,
    "title": _block_text,
    "title_source": matching("^custom|harness|first-ask$"),
    "url": _block_text,
    "account_id": _block_text,
    "attended": boolean,
    "parent_id": lambda found: found if is_session_id(found) else None,
}


@cache
def _fits(event_type: str) -> dict[str, tuple[Fit, bool]]:
    fits = fits_of(VOCABULARY[event_type])
    if event_type == "session.ended":
        reason, required = fits["reason"]
        # Claude Code's word, and of those who took its hooks over: the person left at the prompt.
        fits["reason"] = (lambda found: reason("exit" if found == "prompt_input_exit" else found)), required
    return fits


def compile_adapter(name: str, table: Mapping[str, Any]) -> Adapter:
    """Compile one harness's table. Raises :class:`Mistake` for what the language does not have."""
    unknown = table.keys() - _TABLES
    if unknown:
        raise Mistake(f"{name}: there is no {', '.join(sorted(unknown))} in an adapter")
    if table.get("harness") != name:
        raise Mistake(f"{name}: harness must be the file's name")
    try:
        return _compile(name, table)
    except Mistake:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, re.error) as problem:
        raise Mistake(f"{name}: {type(problem).__name__}: {problem}") from problem


def _compile(name: str, table: Mapping[str, Any]) -> Adapter:
    session = dict(table["session"])
    names = table.get("fields", {})
    claim = table.get("claim", {})
    transcript = table.get("transcript", {})
    return Adapter(
        name=name,
        claim=Claim(
            foreign=tuple(
                Foreign(item["harness"], condition(item["when"], f"{name}, claim.foreign"))
                for item in claim.get("foreign", [])
            ),
            has=tuple((_called(path), value(path, f"{name}, claim.has")) for path in claim.get("has", [])),
            id=_FORMS[claim.get("id", "any")],
        ),
        session_id=value(session.pop("id"), f"{name}, session.id"),
        session=tuple(_field(key, spec, _SESSION[key], f"{name}, session") for key, spec in session.items()),
        version=_field("version", table.get("version", []), _block_text, name),
        at=value(table.get("at", []), f"{name}, at"),
        thread=_field("thread", names.get("thread", names.get("agent_id", [])), opaque, name),
        turn_id=_field("turn_id", names.get("turn_id", []), opaque, name),
        tool=_field("tool", names.get("tool", []), _fits("tool.started")["tool"][0], name),
        input=value(names.get("input", []), f"{name}, fields.input"),
        unasked=frozenset(table.get("ask", {}).get("without", [])),
        file=_field("file", transcript.get("path", []), _block_text, f"{name}, transcript"),
        events=_events(name, table["events"], names),
        ignored=frozenset(table.get("ignore", [])),
    )


def _called(path: Any) -> str:
    """What is missing where nothing is found at ``path``, for the reason of a refusal."""
    return " or ".join(map(str, path)) if isinstance(path, list) else str(path)


def _field(name: str, spec: Any, fit: Fit, where: str, required: bool = False) -> Field:
    """A field whose alternatives are tried one by one: the first that is found *and fits* is taken."""
    specs = spec if isinstance(spec, list) else [spec]
    return Field(name, tuple(value(item, f"{where}.{name}") for item in specs), fit, required)


def _events(name: str, specs: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Event]:
    """Every event by its name, and by the others that it goes by."""
    found: dict[str, Event] = {}
    for key, spec in specs.items():
        event = _event(f"{name}, {key}", spec, names)
        for called in (key, *spec.get("also", [])):
            if called in found:
                raise Mistake(f"{name}: two events are called {called}")
            found[called] = event
    return found


def _event(where: str, spec: Mapping[str, Any], names: Mapping[str, Any]) -> Event:
    unknown = spec.keys() - {"standing", "also", "payload", "emit"}
    if (
        unknown
        or spec["standing"] not in _STANDINGS
        or spec.get("payload", "stdin") not in ("stdin", "argument")
    ):
        raise Mistake(f"{where}: an event has standing, emit and maybe payload and also, and nothing else")
    emissions = tuple(_emission(where, item, names) for item in spec["emit"])
    return Event(spec["standing"], spec.get("payload") == "argument", emissions)


def _emission(where: str, spec: Mapping[str, Any], names: Mapping[str, Any]) -> Emission:
    event_type = spec["type"]
    where = f"{where}, {event_type}"
    fits = _fits(event_type)
    said = {**{key: names[key] for key in fits if key in names}}
    said |= {key: item for key, item in spec.items() if key not in _RESERVED}
    unknown = said.keys() - fits.keys()
    if unknown:
        raise Mistake(f"{where}: it has no field {', '.join(sorted(unknown))}")
    # Filled in where the harness gives none: by the engine, or from the attention it clears by fold.
    supplied = {"attention_id"}
    missing = {key for key, (_, required) in fits.items() if required} - said.keys() - supplied
    if missing:
        raise Mistake(f"{where}: nothing says its {', '.join(sorted(missing))}")
    return Emission(
        type=event_type,
        test=conditions({key: spec[key] for key in ("when", "unless") if key in spec}, where),
        fields=tuple(
            _field(key, item, fits[key][0], where, fits[key][1] and key not in supplied)
            for key, item in said.items()
        ),
        memo=tuple(_field(key, item, _MEMO[key], where) for key, item in spec.get("memo", {}).items()),
        made_message=said.get("message") == "$ask.message",
    )
