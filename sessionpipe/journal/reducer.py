"""The journal folded into the state of the conversation at one position: live view and replay use it alike.

A :class:`Reducer` takes events in the order of their ``seq`` and keeps running what is open: turns,
messages with their blocks, tool executions. What has ended never changes again, so a snapshot holds
copies of what is open and, of everything else, only how much of it there was: that makes seeking cheap.

Implements "Deterministic reduction" of the session event journal. Nothing in an event makes it raise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from sessionpipe.journal.format import ASSISTANT_EVENTS, EVENT_TYPES, SEQ, misfits

State = dict[str, Any]
Payload = Mapping[str, Any]

#: What a diagnostic's code means.
DIAGNOSTICS: Mapping[str, str] = {
    "record_invalid": "it is no event: a field that every event has is missing or of another kind",
    "sequence_gap": "the events before it are missing",
    "sequence_order": "its sequence number repeats or goes back; it is not applied",
    "id_missing": "a correlation id that its type requires is missing; it is not applied",
    "payload_invalid": "a field of its payload is missing or of another kind; it is not applied",
    "not_started": "what it is about was not started, or has ended; it is not applied",
    "start_repeated": "what it starts was started before and goes on; it is not applied",
    "block_not_started": "it is the first of its block without being its start; the block begins here",
    "block_kind": "its block is of another kind, or has ended; it is not applied",
    "content_mismatch": "the content at the end is not what the deltas came to; the content counts",
    "entry_missing": "the message's entry is not in entries.ndjson",
}


def reduce(entries: Iterable[Any], events: Iterable[Any], through_seq: int | None = None) -> State:
    """The state after every event up to ``through_seq`` (None: all of them).

    ``entries`` and ``events`` are the records of ``entries.ndjson`` and ``events.ndjson``; of the entries
    it matters only which there are. Events are taken in the order of their ``seq``; what has none is a
    diagnostic where it stands. The state is::

        {"throughSeq": int,
         "messages": [{"messageId", "role", "status", "entryId"?,
                       "blocks": [{"contentIndex", "kind", "text", "value"?}]}],
         "tools": [{"toolCallId", "messageId", "toolName", "status", "updates", "args"?, "result"?}],
         "settledEntryIds": [str],
         "diagnostics": [{"seq": int, "code": str, "message": str}]}

    A message's ``status`` is ``streaming``, ``finished``, ``error``, ``settled`` or ``unsettled``, a
    tool's ``running``, ``finished`` or ``failed``. A diagnostic's ``code`` is one of
    :data:`DIAGNOSTICS`, its ``seq`` that of the event it is about, or of the one before it if that
    has none. Messages and tools are in the order of their starts, tool executions too where a provider
    used an id again: the last one of an id is the one it means.
    """
    reducer = Reducer({known for entry in entries if (known := entry_id(entry)) is not None})
    position = 0
    placed: list[tuple[int, Any]] = []
    for event in events:
        seq = seq_of(event)
        placed.append((position if seq is None else seq, event))
        position = max(position, seq or 0)
    placed.sort(key=lambda item: item[0])
    for seq, event in placed:
        if through_seq is not None and seq > through_seq:
            break
        reducer.apply(event)
    return reducer.state()


def entry_id(record: object) -> str | None:
    """The id of the Pi entry that a record of ``entries.ndjson`` has, or that ``record`` is; else None."""
    entry = record.get("entry", record) if isinstance(record, Mapping) else None
    found = entry.get("id") if isinstance(entry, Mapping) else None
    return found if isinstance(found, str) else None


def seq_of(event: Any) -> int | None:
    """An event's place in the order; None when it has none."""
    seq = event.get("seq") if isinstance(event, Mapping) else None
    return seq if SEQ.accepts(seq) else None


# -- What is folded --


class Text:
    """A text that only grows. Adding costs what is added, and every earlier length stays a prefix."""

    __slots__ = ("_chunks", "_pieces", "halves", "length")

    def __init__(self, text: str = "", *, halves: bool = False) -> None:
        self._chunks = [text]
        self._pieces: list[str] = []
        self.length = len(text)
        #: Whether half a surrogate pair is in it, which the next piece may complete.
        self.halves = halves

    def add(self, piece: str) -> None:
        """Append ``piece``."""
        self._pieces.append(piece)
        self.length += len(piece)
        if not piece.isascii() and not self.halves:
            self.halves = has_halves(piece)
        if len(self._pieces) == 4096:  # A piece of its own costs ten times a short delta's bytes.
            self._chunks.append("".join(self._pieces))
            self._pieces.clear()

    def prefix(self, length: int) -> str:
        """Its first ``length`` characters."""
        self._chunks = ["".join((*self._chunks, *self._pieces))]
        self._pieces.clear()
        return self._chunks[0][:length]


def has_halves(text: str) -> bool:
    """Whether there is a surrogate in ``text``, which is a character's half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def whole(text: str) -> str:
    """``text`` with surrogate pairs that came in two deltas made characters; a lone half stays one."""
    if has_halves(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


@dataclass(slots=True)
class Block:
    """A content block of an open message."""

    index: int
    kind: str
    _deltas: Text = field(default_factory=Text)
    _length: int = 0
    #: Of its end: the content, or the tool call.
    content: str | None = None
    value: Mapping[str, Any] | None = None
    ended: bool = False

    def add(self, delta: str) -> None:
        """Append a delta."""
        if self._deltas.length != self._length:  # Somebody who shares it went on from here.
            self._deltas = Text(self._deltas.prefix(self._length), halves=self._deltas.halves)
        self._deltas.add(delta)
        self._length = self._deltas.length

    @property
    def streamed(self) -> bool:
        """Whether any text came before its end."""
        return self._length > 0

    @property
    def text(self) -> str:
        """What the deltas came to, or the end's content."""
        if self.content is not None:
            return whole(self.content)
        text = self._deltas.prefix(self._length)
        return whole(text) if self._deltas.halves else text

    def view(self) -> dict[str, Any]:
        """The block as the state has it."""
        return {"contentIndex": self.index, "kind": self.kind, "text": self.text, **(self.value or {})}


@dataclass(slots=True, kw_only=True)
class Span:
    """A turn, a message or a tool execution: what it is, whose, and from when to when."""

    id: str
    #: Its place among its kind.
    row: int
    turn_id: str
    owner: tuple[str, str]
    #: ``seq`` and ``at`` of its start and, once it has ended, of its end.
    start: tuple[int, str]
    end: tuple[int, str] | None = None
    #: What the state has of it once it has ended, which is for good.
    final: dict[str, Any] | None = None

    def view(self) -> dict[str, Any]:
        """It as the state has it."""
        return {}

    def copied(self) -> Span:
        """A copy that what happens to this one doesn't touch."""
        return replace(self)


@dataclass(slots=True, kw_only=True)
class Turn(Span):
    """One call of the model and the tools it asks for. The state has none of it."""

    index: int


@dataclass(slots=True, kw_only=True)
class Message(Span):
    """A message, its blocks by their ``contentIndex``."""

    role: str
    status: str = "streaming"
    entry_id: str | None = None
    blocks: dict[int, Block] = field(default_factory=dict)

    def view(self) -> dict[str, Any]:
        view: dict[str, Any] = {"messageId": self.id, "role": self.role, "status": self.status}
        if self.entry_id is not None:
            view["entryId"] = self.entry_id
        view["blocks"] = [self.blocks[index].view() for index in sorted(self.blocks)]
        return view

    def copied(self) -> Message:
        return replace(self, blocks={index: replace(block) for index, block in self.blocks.items()})


@dataclass(slots=True, kw_only=True)
class Tool(Span):
    """A tool execution."""

    message_id: str
    name: str
    status: str = "running"
    updates: int = 0
    #: ``args`` and ``result``, as far as there are any.
    values: Mapping[str, Any] = field(default_factory=dict)

    def view(self) -> dict[str, Any]:
        return {
            "toolCallId": self.id,
            "messageId": self.message_id,
            "toolName": self.name,
            "status": self.status,
            "updates": self.updates,
            **self.values,
        }


T = TypeVar("T")
S = TypeVar("S", bound=Span)


class Log(Generic[T]):
    """A list that only grows; one that begins with another's past shares it without a copy.

    What is replaced in it was open before. In the other's past it is replaced too, so whoever keeps to
    that past keeps what was open then apart.
    """

    __slots__ = ("_length", "_past", "_replaced", "_since")

    def __init__(self, past: tuple[list[T], int] | None = None) -> None:
        self._past, self._length = past or ([], 0)
        self._since: list[T] = []
        self._replaced: dict[int, T] = {}

    def __len__(self) -> int:
        return self._length + len(self._since)

    def append(self, item: T) -> None:
        """Add ``item``."""
        self._since.append(item)

    def replace(self, row: int, item: T) -> None:
        """Put ``item`` in the place of the one at ``row``."""
        if row < self._length:
            self._replaced[row] = item
        else:
            self._since[row - self._length] = item

    def items(self) -> list[T]:
        """All of it, as a list of the caller's own."""
        items = self._past[: self._length]
        for row, item in self._replaced.items():
            items[row] = item
        items += self._since
        return items

    def mark(self) -> tuple[list[T], int]:
        """The past that this is now."""
        if self._length:
            self._since = self.items()
            self._past, self._length, self._replaced = [], 0, {}
        return self._since, len(self._since)


class Snapshot(NamedTuple):
    """A reducer's past: copies of what was open then, and how much there was of what only grows."""

    through_seq: int
    entries: Container[str]
    logs: tuple[tuple[list[Any], int], ...]
    open: tuple[Span, ...]


# -- The fold --


class Change(NamedTuple):
    """What an event did: ``what`` is its type, of an assistant event ``start``, ``done``, ``error``, or with
    a ``block`` that block's ``start``, ``delta`` (of ``text``) or ``end``; ``span`` is what it did it to.
    """

    what: str
    span: Span
    block: Block | None = None
    text: str = ""


class Reducer:
    """The fold. ``entries`` is asked which entries there are, at last when a state is wanted."""

    def __init__(self, entries: Container[str] = frozenset()) -> None:
        self.through_seq = 0
        self._entries = entries
        self._turns: Log[Turn] = Log()
        self._messages: Log[Message] = Log()
        self._tools: Log[Tool] = Log()
        # What the state has of the messages and tools, once they have ended.
        self._message_views: Log[Any] = Log()
        self._tool_views: Log[Any] = Log()
        self._settled: Log[str] = Log()
        # With the entry without which a diagnostic holds.
        self._diagnostics: Log[tuple[dict[str, Any], str | None]] = Log()
        self._open_turns: dict[str, Turn] = {}
        self._open_messages: dict[str, Message] = {}
        self._open_tools: dict[str, Tool] = {}

    # -- For those who look --

    @property
    def open(self) -> int:
        """How many turns, messages and tool executions have not ended."""
        return len(self._open_turns) + len(self._open_messages) + len(self._open_tools)

    def state(self) -> State:
        """The state at this position, as :func:`reduce` describes it.

        What has ended is shared by all states of this reducer and those restored from it: look, but
        do not change it.
        """
        messages, tools = self._message_views.items(), self._tool_views.items()
        for message in self._open_messages.values():
            messages[message.row] = message.view()
        for tool in self._open_tools.values():
            tools[tool.row] = tool.view()
        return {
            "throughSeq": self.through_seq,
            "messages": messages,
            "tools": tools,
            "settledEntryIds": self._settled.items(),
            "diagnostics": self.diagnostics(),
        }

    def turns(self) -> list[Turn]:
        """The turns so far, in the order of their starts."""
        return _with(self._turns, self._open_turns)

    def messages(self) -> list[Message]:
        """The messages so far, in the order of their starts."""
        return _with(self._messages, self._open_messages)

    def tools(self) -> list[Tool]:
        """The tool executions so far, in the order of their starts."""
        return _with(self._tools, self._open_tools)

    def diagnostics(self) -> list[dict[str, Any]]:
        """The diagnostics so far."""
        return [
            item for item, entry in self._diagnostics.items() if entry is None or entry not in self._entries
        ]

    def snapshot(self) -> Snapshot:
        """This position, to come back to; what it costs goes by what is open."""
        spans = (*self._open_turns.values(), *self._open_messages.values(), *self._open_tools.values())
        marks = tuple(getattr(self, name).mark() for name in _LOGS)
        return Snapshot(self.through_seq, self._entries, marks, tuple(span.copied() for span in spans))

    @classmethod
    def restore(cls, snapshot: Snapshot) -> Reducer:
        """A reducer at a snapshot's position, which goes its own way from there."""
        reducer = cls(snapshot.entries)
        reducer.through_seq = snapshot.through_seq
        for name, past in zip(_LOGS, snapshot.logs, strict=True):
            setattr(reducer, name, Log(past))
        for kept in snapshot.open:
            span = kept.copied()
            if isinstance(span, Turn):
                reducer._open_turns[span.id] = span
            elif isinstance(span, Message):
                reducer._open_messages[span.id] = span
            elif isinstance(span, Tool):
                reducer._open_tools[span.id] = span
        return reducer

    # -- Events --

    def apply(self, event: Any) -> Change | None:
        """Take the next event, any JSON value: what it changed, or None. Damage is a diagnostic."""
        if (seq := seq_of(event)) is None:
            return self._note("record_invalid", "an event without a sequence number")
        if seq <= self.through_seq:
            return self._note("sequence_order", f"it comes after {self.through_seq}", seq)
        if seq > (first := self.through_seq + 1):
            missing = f"event {first} is" if seq == first + 1 else f"events {first} to {seq - 1} are"
            self._note("sequence_gap", f"{missing} missing", seq)
        self.through_seq = seq
        kind, payload = event.get("type"), event.get("payload")
        if not isinstance(kind, str) or not isinstance(payload, Mapping):
            return self._note("record_invalid", "an event without a type or a payload")
        if (handler := _HANDLERS.get(kind)) is None:
            return None
        for name in EVENT_TYPES[kind].ids:
            if not isinstance(event.get(name), str):
                return self._note("id_missing", f"{kind} without {name}")
        if wrong := misfits(EVENT_TYPES[kind].payload, payload):
            return self._note("payload_invalid", f"{kind}: {'; '.join(wrong)}")
        return handler(self, event, payload)

    def _note(
        self, code: str, message: str, seq: int | None = None, entry: str | None = None
    ) -> Change | None:
        """Add a diagnostic, which holds as long as ``entry`` is missing; None, which is what it changed."""
        seq = self.through_seq if seq is None else seq
        self._diagnostics.append(({"seq": seq, "code": code, "message": message}, entry))
        return None

    def _turn_started(self, event: Any, payload: Payload) -> Change | None:
        if not self._free(self._open_turns, "turn", event["turnId"]):
            return None
        turn = Turn(**_whose(event, "turnId", len(self._turns)), index=payload["turnIndex"])
        self._open_turns[turn.id] = turn
        self._turns.append(turn)
        return Change("turn_started", turn)

    def _turn_finished(self, event: Any, payload: Payload) -> Change | None:
        if (turn := self._ended(self._open_turns, "turn", event["turnId"])) is None:
            return None
        turn.end = _when(event)
        self._turns.replace(turn.row, turn)
        return Change("turn_finished", turn)

    def _message_started(self, event: Any, payload: Payload) -> Change | None:
        if not self._free(self._open_messages, "message", event["messageId"]):
            return None
        message = Message(**_whose(event, "messageId", len(self._messages)), role=payload["role"])
        self._open_messages[message.id] = message
        self._messages.append(message)
        self._message_views.append(None)
        return Change("message_started", message)

    def _message_finished(self, event: Any, payload: Payload) -> Change | None:
        if (message := self._ended(self._open_messages, "message", event["messageId"])) is None:
            return None
        message.end, message.status = _when(event), "unsettled"
        entry = payload.get("entryId")
        if payload["settled"] and entry is None:
            self._note("id_missing", "a settled message without an entryId")
        elif not payload["settled"] and entry is not None:
            self._note("payload_invalid", "an unsettled message with an entryId")
        elif entry is not None:
            message.status, message.entry_id = "settled", entry
            self._settled.append(entry)
            if entry not in self._entries:
                self._note("entry_missing", f"entry {entry} is missing", entry=entry)
        message.final = message.view()
        message.blocks = {}
        self._messages.replace(message.row, message)
        self._message_views.replace(message.row, message.final)
        return Change("message_finished", message)

    def _tool_started(self, event: Any, payload: Payload) -> Change | None:
        if not self._free(self._open_tools, "tool call", event["toolCallId"]):
            return None
        tool = Tool(
            **_whose(event, "toolCallId", len(self._tools)),
            message_id=event["messageId"],
            name=payload["toolName"],
            values={"args": payload["args"]} if "args" in payload else {},
        )
        self._open_tools[tool.id] = tool
        self._tools.append(tool)
        self._tool_views.append(None)
        return Change("tool_execution_started", tool)

    def _tool_updated(self, event: Any, payload: Payload) -> Change | None:
        if (tool := self._running(self._open_tools, "tool call", event["toolCallId"])) is None:
            return None
        tool.updates += 1
        return Change("tool_execution_updated", tool)

    def _tool_finished(self, event: Any, payload: Payload) -> Change | None:
        if (tool := self._ended(self._open_tools, "tool call", event["toolCallId"])) is None:
            return None
        tool.end, tool.status = _when(event), "failed" if payload["isError"] else "finished"
        if "result" in payload:
            tool.values = {**tool.values, "result": payload["result"]}
        tool.final = tool.view()
        self._tools.replace(tool.row, tool)
        self._tool_views.replace(tool.row, tool.final)
        return Change("tool_execution_finished", tool)

    def _assistant_event(self, event: Any, payload: Payload) -> Change | None:
        kind = payload["type"]
        if (fields := ASSISTANT_EVENTS.get(kind)) is None:
            return None  # One of a later version is passed over, as an event type is.
        if wrong := misfits(fields, payload):
            return self._note("payload_invalid", f"{kind}: {'; '.join(wrong)}")
        if (message := self._running(self._open_messages, "message", event["messageId"])) is None:
            return None
        about, _, step = kind.partition("_")
        if step:
            return self._block_event(message, _BLOCKS[about], step, payload)
        message.status = _STREAM_ENDS.get(kind, message.status)
        return Change(kind, message)

    def _block_event(self, message: Message, kind: str, step: str, payload: Payload) -> Change | None:
        index = payload["contentIndex"]
        block = message.blocks.get(index)
        if block is None:
            block = message.blocks[index] = Block(index, kind)
            if step != "start":
                self._note("block_not_started", f"block {index} of message {message.id} has no start")
        elif step == "start":
            return self._note("start_repeated", f"block {index} of message {message.id} starts again")
        if block.kind != kind or block.ended:
            state = "has ended" if block.ended else f"is {block.kind}, not {kind}"
            return self._note("block_kind", f"block {index} of message {message.id} {state}")
        if step == "delta":
            block.add(payload["delta"])
        elif step == "end":
            block.ended = True
            if "content" in payload:
                if block.text != whole(payload["content"]):
                    self._note(
                        "content_mismatch", f"block {index} of message {message.id} ends as another text"
                    )
                block.content = payload["content"]
            elif "toolCall" in payload:
                block.value = {"value": payload["toolCall"]}
        return Change(step, message, block, payload.get("delta", "") if step == "delta" else "")

    # -- What is open --

    def _free(self, spans: Mapping[str, Span], what: str, id_: str) -> bool:
        if id_ in spans:
            self._note("start_repeated", f"{what} {id_} starts again")
            return False
        return True

    def _running(self, spans: Mapping[str, S], what: str, id_: str) -> S | None:
        if (span := spans.get(id_)) is None:
            self._note("not_started", f"{what} {id_} was not started, or has ended")
        return span

    def _ended(self, spans: dict[str, S], what: str, id_: str) -> S | None:
        if span := self._running(spans, what, id_):
            del spans[id_]
        return span


_HANDLERS: Mapping[str, Callable[[Reducer, Any, Payload], Change | None]] = {
    "turn_started": Reducer._turn_started,
    "turn_finished": Reducer._turn_finished,
    "message_started": Reducer._message_started,
    "assistant_event": Reducer._assistant_event,
    "message_finished": Reducer._message_finished,
    "tool_execution_started": Reducer._tool_started,
    "tool_execution_updated": Reducer._tool_updated,
    "tool_execution_finished": Reducer._tool_finished,
}
#: A block's kind by what the type of its events begins with.
_BLOCKS = {"text": "text", "thinking": "thinking", "toolcall": "toolCall"}
#: What of a reducer only grows.
_LOGS = ("_turns", "_messages", "_tools", "_message_views", "_tool_views", "_settled", "_diagnostics")
_STREAM_ENDS = {"done": "finished", "error": "error"}


def _with(log: Log[S], spans: Mapping[str, S]) -> list[S]:
    items = log.items()
    for span in spans.values():
        items[span.row] = span
    return items


def _when(event: Any) -> tuple[int, str]:
    at = event.get("at")
    return event["seq"], at if isinstance(at, str) else ""


def _whose(event: Any, id_: str, row: int) -> dict[str, Any]:
    node, attempt = event.get("nodeId"), event.get("attemptId")
    return {
        "id": event[id_],
        "row": row,
        "turn_id": event["turnId"],
        "owner": (
            node if isinstance(node, str) else "",
            attempt if isinstance(attempt, str) else "",
        ),
        "start": _when(event),
    }
