"""Pi's events as the journal's: correlated, owned, without what repeats itself. Pure.

The events are those an extension's hooks are given and a ``pi --mode json`` stream prints; of each
only what the format keeps is looked at. Cumulative snapshots (``partial``, ``message`` and ``error`` of
an update, ``partialResult``) are never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from sessionpipe.journal.format import ASSISTANT_EVENTS, misfits

#: Bytes a record is counted with beside its payload: its ids, its time, its place in memory.
OVERHEAD = 256


class Owner(NamedTuple):
    """The workflow node and attempt that an event belongs to."""

    node: str
    attempt: str


@dataclass(slots=True)
class Record:
    """An event of the journal before it has its place. ``at``: epoch seconds of its receipt.

    ``size``: bytes it is counted with while it waits. ``of``: what it finishes or changes, for those
    who link and redact (a message's own content, as the source told it).
    """

    at: float
    owner: Owner
    type: str
    payload: dict[str, Any]
    turn: str
    message: str | None = None
    tool: str | None = None
    size: int = OVERHEAD
    of: Any = None
    waiting: bool = False


class Mismatch(Exception):
    """An event that the format can't hold: it ends or changes what never began, or isn't Pi's."""


@dataclass(slots=True)
class _Turn:
    id: str
    index: int
    owner: Owner
    answer: str | None = None  # the assistant message


@dataclass(slots=True)
class _Message:
    id: str
    turn: str
    owner: Owner
    role: str


@dataclass(slots=True)
class _Tool:
    message: str
    turn: str
    owner: Owner
    name: str


@dataclass
class Normalizer:
    """Folds Pi's events, in order, into records. One for a whole run: its ids are unique in it."""

    turns: int = 0
    messages: int = 0
    #: Whether Pi works on something: from ``agent_start`` or ``turn_start`` to the end of it.
    running: bool = False
    _index: int = 0
    _turn: _Turn | None = None
    _open: list[_Message] = field(default_factory=list)
    _outside: list[str] = field(default_factory=list)  # roles of messages of no turn
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)  # tool call: message, turn
    _tools: dict[str, _Tool] = field(default_factory=dict)

    @property
    def in_turn(self) -> bool:
        """Whether a turn is open."""
        return self._turn is not None

    @property
    def unfinished(self) -> bool:
        """Whether something that was begun has not ended: if nothing follows, it is not all of it."""
        return self.running or self._turn is not None

    def leave(self) -> None:
        """Forget what is open: the conversation is another one now. Ids go on counting."""
        self.running, self._turn, self._index = False, None, 0
        for open_ones in (self._open, self._outside, self._calls, self._tools):
            open_ones.clear()

    def feed(self, event: Mapping[str, Any], at: float, owner: Owner, size: int = 0) -> Iterator[Record]:
        """The records of one event received at ``at``; none for one the journal has no type for.

        ``owner`` is who owns what begins now; what began earlier keeps its own. ``size`` is the bytes
        that the event came in. Raises :class:`Mismatch`.
        """
        kind = event.get("type")
        if isinstance(kind, str) and (fold := _FOLDS.get(kind)):
            yield from fold(self, event, at, owner, size)

    # -- Runs and turns --

    def _agent_start(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        self.running, self._index = True, 0
        yield from ()

    def _agent_end(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        self.running = False
        yield from ()

    def _turn_start(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        self.turns += 1
        # The stream leaves the index out; Pi counts thus.
        index = event.get("turnIndex")
        index = index if type(index) is int and index >= 0 else self._index
        self._turn = _Turn(f"t{self.turns}", index, owner)
        self._open.clear()
        self._calls.clear()
        yield Record(at, owner, "turn_started", {"turnIndex": index}, self._turn.id)

    def _turn_end(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        if (turn := self._turn) is None:
            raise Mismatch("turn_end without its turn_start")
        self._turn, self._index = None, turn.index + 1
        payload: dict[str, Any] = {"turnIndex": turn.index}
        if turn.answer is not None:
            payload["messageId"] = turn.answer
        payload["toolCallIds"] = [
            result["toolCallId"]
            for result in _objects(event.get("toolResults"))
            if _is_id(result.get("toolCallId"))
        ]
        yield Record(at, turn.owner, "turn_finished", payload, turn.id)

    # -- Messages --

    def _message_start(
        self, event: Mapping[str, Any], at: float, owner: Owner, size: int
    ) -> Iterator[Record]:
        role = _role(event)
        if (turn := self._turn) is None:
            # What an extension says while Pi is idle belongs to no turn, and the format knows no other
            # message. Its entry is recorded all the same.
            self._outside.append(role)
            return
        self.messages += 1
        message = _Message(f"m{self.messages}", turn.id, owner, role)
        self._open.append(message)
        if role == "assistant":
            turn.answer = message.id
        yield Record(at, owner, "message_started", {"role": role}, turn.id, message.id)

    def _message_update(
        self, event: Mapping[str, Any], at: float, owner: Owner, size: int
    ) -> Iterator[Record]:
        message = self._latest("assistant")
        told = event.get("assistantMessageEvent")
        if message is None or not isinstance(told, Mapping):
            raise Mismatch("message_update without its message_start")
        kind = told.get("type")
        # Of a kind that is not known only that it happened: which of its fields are cumulative is not known.
        fields = ASSISTANT_EVENTS.get(kind, {}) if isinstance(kind, str) else {}
        payload = {"type": kind} | {name: told[name] for name in fields if name in told}
        if not _is_id(kind) or misfits(fields, payload):
            raise Mismatch("message_update is not what Pi writes")
        if kind == "toolcall_end":
            self._holds(message, [payload.get("toolCall")])
            length = size
        else:
            length = sum(len(value) for value in payload.values() if isinstance(value, str))
        yield Record(
            at, message.owner, "assistant_event", payload, message.turn, message.id, size=OVERHEAD + length
        )

    def _message_end(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        role = _role(event)
        message = self._latest(role)
        if message is None:
            if role in self._outside:
                self._outside.remove(role)
                return
            raise Mismatch("message_end without its message_start")
        self._open.remove(message)
        content = event["message"].get("content")
        if role == "assistant":
            self._holds(message, content if isinstance(content, list) else [])
        yield Record(
            at,
            message.owner,
            "message_finished",
            {"role": role, "settled": False},
            message.turn,
            message.id,
            size=OVERHEAD + size,
            of=event,
        )

    def _latest(self, role: str) -> _Message | None:
        return next((message for message in reversed(self._open) if message.role == role), None)

    def _holds(self, message: _Message, blocks: list[Any]) -> None:
        for block in _objects(blocks):
            if block.get("type") == "toolCall" and _is_id(block.get("id")):
                self._calls[block["id"]] = (message.id, message.turn)

    # -- Tools --

    def _tool_start(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        call = _call(event)
        if call in self._tools:
            raise Mismatch("tool_execution_start of a call that is running already")
        place = self._calls.get(call) or self._around(event.get("parentToolCallId"))
        if place is None and self._turn is not None and self._turn.answer is not None:
            # A turn has one assistant message, and what runs in it was called there.
            place = (self._turn.answer, self._turn.id)
        if place is None:
            raise Mismatch("tool_execution_start without the message that called the tool")
        name = event.get("toolName")
        tool = _Tool(*place, owner, name if _is_id(name) else "unknown")
        self._tools[call] = tool
        payload: dict[str, Any] = {"toolName": tool.name}
        if "args" in event:
            payload["args"] = event["args"]
        yield Record(
            at, owner, "tool_execution_started", payload, tool.turn, tool.message, call, OVERHEAD + size
        )

    def _around(self, parent: Any) -> tuple[str, str] | None:
        """Where the call is that a nested one is part of."""
        if not _is_id(parent):
            return None
        if tool := self._tools.get(parent):
            return tool.message, tool.turn
        return self._calls.get(parent)

    def _tool_update(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        call = _call(event)
        if (tool := self._tools.get(call)) is None:
            raise Mismatch("tool_execution_update without its tool_execution_start")
        yield Record(at, tool.owner, "tool_execution_updated", {}, tool.turn, tool.message, call)

    def _tool_end(self, event: Mapping[str, Any], at: float, owner: Owner, size: int) -> Iterator[Record]:
        call = _call(event)
        if (tool := self._tools.pop(call, None)) is None:
            raise Mismatch("tool_execution_end without its tool_execution_start")
        name = event.get("toolName")
        payload: dict[str, Any] = {
            "toolName": name if _is_id(name) else tool.name,
            "isError": event.get("isError") is True,
        }
        if "result" in event:
            payload["result"] = event["result"]
        yield Record(
            at, tool.owner, "tool_execution_finished", payload, tool.turn, tool.message, call, OVERHEAD + size
        )


_FOLDS = {
    "agent_start": Normalizer._agent_start,
    "agent_end": Normalizer._agent_end,
    "turn_start": Normalizer._turn_start,
    "turn_end": Normalizer._turn_end,
    "message_start": Normalizer._message_start,
    "message_update": Normalizer._message_update,
    "message_end": Normalizer._message_end,
    "tool_execution_start": Normalizer._tool_start,
    "tool_execution_update": Normalizer._tool_update,
    "tool_execution_end": Normalizer._tool_end,
}


def _is_id(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _objects(values: Any) -> Iterator[Mapping[str, Any]]:
    return (value for value in (values if isinstance(values, list) else ()) if isinstance(value, Mapping))


def _role(event: Mapping[str, Any]) -> str:
    message = event.get("message")
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str) or not role:
        raise Mismatch(f"{event.get('type')} without a message")
    return role


def _call(event: Mapping[str, Any]) -> str:
    call = event.get("toolCallId")
    if not isinstance(call, str) or not call:
        raise Mismatch(f"{event.get('type')} without a toolCallId")
    return call
