"""Pi's ``--mode json`` stream as normalized harness events: what the agent said and did, and no more.

>>> for event in parse(open("run.ndjson", "rb")):
...     print(event.to_dict())

A tool's execution is told by two lines, its start with the arguments and its end with the result;
they become one event, at the end. What carries no activity of the agent (lifecycle, deltas, what the user
said) becomes none. Nothing else is lost: a line of another type, one that can't be read, an end without
its start, a start without its end and a tool that is none of the known ones become :class:`Unknown`
events, with the line.

Pure, and of bounded memory: a line, and the starts that are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from sessionpipe.harnesses import pi_lines
from sessionpipe.harnesses.pi_shell import FileOperation, recognize

#: How many executions may be open at once; the oldest beyond is told as unfinished.
MAX_OPEN = 1024

# --- events ---------------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event has: a ``type``, and :meth:`to_dict`."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-able values; what isn't known is left out."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Session(Event, frozen=True, tag="session"):
    """The stream's first line. ``started_at`` is when the session began, which may be long ago.

    ``parent`` names the session it was forked from, as Pi does: by its file.
    """

    session_id: str
    cwd: str | None = None
    started_at: str | None = None
    parent: str | None = None


class AgentMessage(Event, frozen=True, tag="agent_message"):
    """What the agent said in one message: its text parts, a blank line between them."""

    text: str
    model: str | None = None
    stop_reason: str | None = None


class Reasoning(Event, frozen=True, tag="reasoning"):
    """What the agent thought before it said something; told before its :class:`AgentMessage`."""

    text: str
    model: str | None = None


class Operation(Event, frozen=True):
    """Something the agent did with a tool, and how that went.

    ``tool`` as the stream spells it. ``ok`` is None where the stream doesn't say. ``input`` holds the
    arguments, ``output`` the text the agent got back, ``extra`` what else the result held, ``error`` the
    text of a failure. ``ms`` is how long it took. ``command`` is there where a shell did it.
    """

    tool: str
    ok: bool | None
    call_id: str
    parent_call_id: str | None = None
    ms: float | None = None
    command: str | None = None
    input: Any = None
    output: str | None = None
    extra: Any = None
    error: str | None = None


class Read(Operation, frozen=True, tag="read"):
    """A file was read."""

    path: str | None = None


class Write(Operation, frozen=True, tag="write"):
    """A file was written or edited."""

    path: str | None = None


class Search(Operation, frozen=True, tag="search"):
    """Files or their contents were searched."""

    pattern: str | None = None
    path: str | None = None


class List(Operation, frozen=True, tag="list"):
    """A folder was listed."""

    path: str | None = None


class Command(Operation, frozen=True, tag="command"):
    """A shell command was run."""

    exit_code: int | None = None


class Unknown(Event, frozen=True, tag="unknown"):
    """A line nothing else was made of: ``raw``, without its end. ``reason`` says why:

    ``type`` (not one this reads), ``unreadable`` (no JSON object with a type), ``no start``, ``unfinished``,
    ``tool`` (not one of the known tools; ``tool`` and ``input`` are of the start), ``no id``.
    """

    reason: str
    raw: bytes
    tool: str | None = None
    input: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`Event.to_dict`; ``raw`` as text, in which a byte that is no UTF-8 is written ``\\\\xNN``."""
        return super().to_dict() | {"raw": self.raw.decode("utf-8", "backslashreplace")}


class Usage(msgspec.Struct, kw_only=True):
    """What the model's calls that were told of used, in tokens; ``cost`` in the provider's currency."""

    turns: int = 0
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The totals as JSON-able values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def add(self, turn: Any) -> None:
        """Count one call of the model, as its ``turn_end`` tells it; what is no number counts nothing."""
        self.turns += 1
        told = turn if isinstance(turn, dict) else {}
        for name, spelled in _COUNTED.items():
            setattr(self, name, getattr(self, name) + int(_number(told.get(spelled))))
        cost = told.get("cost")
        self.cost += _number(cost.get("total") if isinstance(cost, dict) else cost)


_COUNTED = {
    "input": "input",
    "output": "output",
    "reasoning": "reasoning",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
    "total_tokens": "totalTokens",
}


def _number(value: Any) -> float:
    return value if type(value) in (int, float) and 0 <= value < 2**53 else 0


# --- the stream -----------------------------------------------------------------------------------


def parse(stream: bytes | str | Iterable[bytes | str]) -> Iterator[Event]:
    """The events of a whole stream: its content, or its lines, with their ends or without; an open file will do."""
    if isinstance(stream, str):
        stream = stream.encode("utf-8", "replace")
    normalizer = Normalizer()
    for line in stream.split(b"\n") if isinstance(stream, bytes) else stream:
        yield from normalizer.feed(line)
    yield from normalizer.finish()


class Normalizer:
    """Lines in, events out, as they happen."""

    #: Lines that carry no activity of the agent's.
    CONSUMED: ClassVar = frozenset(
        {"agent_start", "agent_end", "turn_start", "message_start", "message_update", "tool_execution_update"}
    )

    def __init__(self) -> None:
        #: The session's id, once the stream has said it.
        self.session_id: str | None = None
        #: What was used so far.
        self.usage = Usage()
        # The line of each start; what it holds is needed only once.
        self._open: dict[str, bytes] = {}

    def feed(self, line: bytes | str) -> list[Event]:
        """The events that one line makes, most often none. Its end may be there or not."""
        if isinstance(line, str):
            line = line.encode("utf-8", "replace")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not line.strip():
            return []
        kind = pi_lines.checked_kind(line)
        if kind in self.CONSUMED:
            return []
        if kind == "turn_end":
            self.usage.add(_usage(line))
            return []
        value = None if kind is None else pi_lines.read(line)
        match kind:
            case _ if value is None:
                return [Unknown(reason="unreadable", raw=line)]
            case "session":
                return self._session(value, line)
            case "message_end":
                return _said(value.get("message"))
            case "tool_execution_start":
                return self._started(value, line)
            case "tool_execution_end":
                return self._ended(value, line)
            case _:
                return [Unknown(reason="type", raw=line)]

    def finish(self) -> list[Event]:
        """The stream has ended: what was begun and not ended."""
        lines = list(self._open.values())
        self._open.clear()
        return [_unfinished(line) for line in lines]

    def _session(self, value: Mapping[str, Any], line: bytes) -> list[Event]:
        session_id = _text(value, "id", "sessionId", "session_id")
        if session_id is None:
            return [Unknown(reason="no id", raw=line)]
        self.session_id = session_id
        return [
            Session(
                session_id=session_id,
                cwd=_text(value, "cwd"),
                started_at=_text(value, "timestamp"),
                parent=_text(value, "parentSession"),
            )
        ]

    def _started(self, value: Mapping[str, Any], line: bytes) -> list[Event]:
        call_id = _text(value, "toolCallId")
        if call_id is None:
            return [Unknown(reason="no id", raw=line)]
        lost = [self._open.pop(call_id)] if call_id in self._open else []
        self._open[call_id] = line
        if len(self._open) > MAX_OPEN:
            lost.append(self._open.pop(next(iter(self._open))))
        return [_unfinished(one) for one in lost]

    def _ended(self, value: Mapping[str, Any], line: bytes) -> list[Event]:
        call_id = _text(value, "toolCallId")
        if call_id is None:
            return [Unknown(reason="no id", raw=line)]
        started = self._open.pop(call_id, None)
        if started is None:
            return [Unknown(reason="no start", raw=line)]
        return [_operation(call_id, pi_lines.read(started) or {}, value, line)]


def _unfinished(line: bytes) -> Unknown:
    start = pi_lines.read(line) or {}
    return Unknown(reason="unfinished", raw=line, tool=tool_of(start))


# --- messages -------------------------------------------------------------------------------------


def _said(message: Any) -> list[Event]:
    """What an assistant's message says; other messages echo what is known already."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return []
    content, model = message.get("content"), _text(message, "model")
    events: list[Event] = []
    if thought := "\n\n".join(_parts(content, "thinking")):
        events.append(Reasoning(text=thought, model=model))
    text = content if isinstance(content, str) else "\n\n".join(_parts(content, "text"))
    if text.strip():
        events.append(AgentMessage(text=text, model=model, stop_reason=_text(message, "stopReason")))
    return events


def _parts(content: Any, kind: str) -> Iterator[str]:
    """The texts of a content's parts of one kind, blank ones left out."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == kind:
            text = part.get(kind, part.get("text"))
            if isinstance(text, str) and text.strip():
                yield text


class _Message(msgspec.Struct, frozen=True):
    usage: Any = None


class _TurnEnd(msgspec.Struct):
    message: _Message = _Message()


_TURN_ENDS = msgspec.json.Decoder(_TurnEnd)


def _usage(line: bytes) -> Any:
    # Only this of a line that repeats the message and every result.
    try:
        return _TURN_ENDS.decode(line).message.usage
    except (msgspec.DecodeError, RecursionError):
        return None


# --- tools ----------------------------------------------------------------------------------------


def tool_of(value: Mapping[str, Any]) -> str | None:
    """The tool a start names, under any of the names that versions of the stream have for it."""
    return _text(value, "toolName", "tool_name", "tool", "name")


def args_of(value: Mapping[str, Any]) -> Any:
    """The arguments a start holds, under any of the names that versions of the stream have for them."""
    return next((value[name] for name in ("args", "input", "arguments", "toolInput") if name in value), None)


def success(end: Mapping[str, Any]) -> bool | None:
    """How an end says that it went: by ``isError``, else an ``error``, a ``status`` that is known, or a result."""
    if isinstance(failed := end.get("isError"), bool):
        return not failed
    if end.get("error") not in (None, False, ""):
        return False
    if isinstance(status := end.get("status"), str) and (known := _STATUSES.get(status.lower())) is not None:
        return known
    return True if end.get("result") is not None else None


_STATUSES: Mapping[str, bool] = {
    **dict.fromkeys(("ok", "success", "successful", "succeeded", "completed", "complete", "done"), True),
    **dict.fromkeys(("error", "failed", "failure", "aborted", "cancelled", "canceled", "timeout"), False),
}


def _operation(call_id: str, start: Mapping[str, Any], end: Mapping[str, Any], line: bytes) -> Event:
    tool, args = tool_of(start) or tool_of(end), args_of(start)
    told = args if isinstance(args, dict) else {}
    kind = _TOOLS.get((tool or "").lower())
    if tool is None or kind is None:
        return Unknown(reason="tool", raw=line, tool=tool, input=args)
    ok = success(end)
    output, extra = _result(end.get("result"))
    ms = end.get("durationMs")
    common: dict[str, Any] = {
        "tool": tool,
        "ok": ok,
        "call_id": call_id,
        "parent_call_id": _text(end, "parentToolCallId") or _text(start, "parentToolCallId"),
        "ms": ms if type(ms) in (int, float) else None,
        "input": args,
        "output": output,
        "extra": extra,
        "error": (_text(end, "error") or output) if ok is False else None,
    }
    if kind == "command":
        return _shell(_text(told, "command", "cmd"), common)
    path = _text(told, "path", "file_path", "filePath", "file")
    return _on_files(FileOperation(kind, path, _text(told, "pattern", "query", "glob")), common)


_TOOLS: Mapping[str, Literal["read", "write", "search", "list", "command"]] = {
    "read": "read",
    "write": "write",
    "edit": "write",
    "search": "search",
    "grep": "search",
    "glob": "search",
    "list": "list",
    "bash": "command",
    "shell": "command",
}


def _shell(command: str | None, common: dict[str, Any]) -> Operation:
    """A command, or what it does to files where it does nothing else."""
    common["command"] = command
    if done := recognize(command or ""):
        return _on_files(done, common)
    extra = common["extra"] if isinstance(common["extra"], dict) else {}
    told = extra.get("structuredContent")
    exit_code = told.get("exit_code") if isinstance(told, dict) else None
    return Command(exit_code=exit_code if type(exit_code) is int else None, **common)


def _on_files(done: FileOperation, common: dict[str, Any]) -> Operation:
    match done.kind:
        case "read":
            return Read(path=done.path, **common)
        case "write":
            return Write(path=done.path, **common)
        case "search":
            return Search(path=done.path, pattern=done.pattern, **common)
        case "list":
            return List(path=done.path, **common)


def _result(result: Any) -> tuple[str | None, Any]:
    """A result's text, and what else it holds."""
    if isinstance(result, str):
        return result, None
    if not isinstance(result, dict):
        return None, result
    content = result.get("content")
    if isinstance(content, str):
        texts, others = [content], []
    elif isinstance(content, list):
        texts = [part["text"] for part in content if _is_text(part)]
        others = [part for part in content if not _is_text(part)]
    else:
        return None, result
    extra = {name: value for name, value in result.items() if name != "content"}
    if others:
        extra["content"] = others
    return "\n".join(texts), extra or None


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _text(value: Mapping[str, Any], *names: str) -> str | None:
    """The first of these members that is a string with something in it."""
    return next((found for name in names if isinstance(found := value.get(name), str) and found), None)
