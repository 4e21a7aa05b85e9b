"""Pi's session files: versions 1, 2 and 3, the tree they hold, and what a model would be given of it.

One line is an entry; each names the one it goes on from, so that a file holds a tree with the branch that
goes on at its end. Version 1 had no such names, its order was the conversation; version 2 called an
extension's messages ``hookMessage``. Older versions are read as if Pi had migrated them.

A file is read once, line by line, and only an index of it is kept; an entry is read again when somebody
asks for it, so that a file of any size can be looked at. Nothing here raises on any file, and nothing runs
in circles or recursively, whatever the entries say.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple, Self

import msgspec

from sessionpipe.harnesses import jsonl

Entry = dict[str, Any]

#: Longer lines are passed over. Pictures are in the lines, so they are allowed to be longer than others'.
MAX_LINE = 64 << 20

# --- lines ----------------------------------------------------------------------------------------


class Message(msgspec.Struct):
    """What matters of a message; each field may be anything at all. ``content`` is not decoded."""

    role: Any = None
    content: msgspec.Raw = msgspec.Raw(b"null")
    stopReason: Any = None
    provider: Any = None
    model: Any = None
    usage: Any = None


class Record(msgspec.Struct):
    """What matters of a line, a header's too; each field may be anything at all.

    Most of a file is tools' output, so ``message`` is not decoded unless asked for.
    """

    type: Any = None
    id: Any = None
    parentId: Any = None
    timestamp: Any = None
    version: Any = None
    parentSession: Any = None
    message: msgspec.Raw = msgspec.Raw(b"null")
    targetId: Any = None
    replacement: Any = None
    label: Any = None
    name: Any = None
    provider: Any = None
    modelId: Any = None
    thinkingLevel: Any = None
    usage: Any = None

    @property
    def ms(self) -> int | None:
        """When it was written, epoch milliseconds."""
        return jsonl.epoch_ms(self.timestamp)

    def read_message(self) -> Message | None:
        """The message of a ``message`` entry."""
        return jsonl.decode(bytes(self.message), _MESSAGES) if self.type == "message" else None


_RECORDS = msgspec.json.Decoder(Record)
_MESSAGES = msgspec.json.Decoder(Message)
_ANYTHING = msgspec.json.Decoder(Any)


def read_record(line: bytes) -> Record | None:
    """A line of a session file; None when it isn't a JSON object."""
    return jsonl.decode(line, _RECORDS)


def read_content(message: Message) -> Any:
    """A message's content, decoded: a string or a list of blocks, if it is what it should be."""
    return jsonl.decode(bytes(message.content), _ANYTHING)


# --- what an entry costs --------------------------------------------------------------------------


class Usage(NamedTuple):
    """Tokens and their cost in US dollars, as Pi counted them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cost + other.cost,
        )

    @classmethod
    def of(cls, usage: object) -> Self | None:
        """A ``usage`` member; None when there is none. What is no amount in it counts nothing."""
        if not isinstance(usage, dict):
            return None
        cost = usage.get("cost")
        return cls(
            int(_amount(usage.get("input"))),
            int(_amount(usage.get("output"))),
            int(_amount(usage.get("cacheRead"))),
            int(_amount(usage.get("cacheWrite"))),
            _amount(cost.get("total")) if isinstance(cost, dict) else 0.0,
        )


# More than this is no amount; a file may say anything.
_MOST = 1e15


def _amount(value: Any) -> float:
    return value if type(value) in (int, float) and 0 < value < _MOST else 0


class Model(NamedTuple):
    """A model as Pi names it: the provider's name and the model's own id."""

    provider: str | None
    id: str | None


# --- the session ----------------------------------------------------------------------------------


class Row(NamedTuple):
    """An entry in the index: where its line is, and what is asked for again and again.

    ``number``: its place among the file's readable lines, the header's being 0. ``kind``: its type.
    ``role``: of a message. ``model``, ``thinking``: what is in effect from here on, where it says.
    """

    id: str
    parent: str | None
    kind: str
    role: str | None
    start: int
    end: int
    number: int
    ms: int | None
    usage: Usage | None
    model: Model | None
    thinking: str | None


class Node(NamedTuple):
    """An entry in the tree; children are in the order of their times."""

    row: Row
    children: list[Node]


class Context(NamedTuple):
    """What a model is given on a branch: its messages, and the settings in effect there."""

    messages: list[dict[str, Any]]
    thinking_level: str
    model: Model | None


class Bytes:
    """A file's bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def read_at(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Session:
    """A session file's index. Usable as long as its source is open.

    ``header``: the first line. ``version``: the file's own; entries are given as version 3 has them.
    ``rows``: the entries by id, in the order of the file; of two with one id the later one counts.
    ``leaf``: the entry the session goes on from. ``labels``: the bookmarks by the entry they are on.
    ``name``: the person's name for the session. ``skipped``: how many lines could not be read.
    ``torn``: the last line is still being written, or was never finished.
    """

    def __init__(self, source: jsonl.Source, header: Entry) -> None:
        self._source = source
        self.header = header
        self.version = _version(header)
        self.rows: dict[str, Row] = {}
        self.leaf: str | None = None
        self.labels: dict[str, str] = {}
        self.name: str | None = None
        self.skipped = 0
        self.torn = False
        self._children: dict[str | None, list[Row]] | None = None
        # Version 1 names entries by their place, bad lines not counted: the ids given to them.
        self._given: list[str | None] = [None]

    @classmethod
    def read(cls, source: jsonl.Source) -> Self | None:
        """The session of a file; None when it isn't one: its first readable line has to be a header."""
        session: Self | None = None
        skipped, torn = 0, False
        for line in _lines(source):
            record = read_record(line.data)
            if record is None:
                torn = line.end - line.start == len(line.data)
                skipped += not torn and not _is_blank(line)
            elif session is None:
                header = jsonl.decode(line.data, _ANYTHING)
                if record.type != "session" or not isinstance(record.id, str) or header is None:
                    return None
                session = cls(source, header)
            else:
                skipped += not session._take(record, line)
        if session:
            session.skipped, session.torn = skipped, torn
        return session

    def _take(self, record: Record, line: jsonl.Line) -> bool:
        """Index the next line; whether it is an entry, or a header once more."""
        number = len(self._given)
        if record.type == "session":
            self._given.append(None)
            return True
        if self.version < 2:
            name, parent = f"{number:08x}", self.leaf
        elif isinstance(record.id, str) and record.id:
            name, parent = record.id, _text(record.parentId)
        else:
            return False
        if record.type == "session_info":
            self.name = (_text(record.name) or "").strip() or None
        elif record.type == "label" and isinstance(record.targetId, str):
            self.labels.pop(record.targetId, None)
            if label := _text(record.label):
                self.labels[record.targetId] = label
        self._given.append(name)
        self.rows[name] = _row(name, parent, number, record, line)
        self.leaf = name
        return True

    # --- entries ---

    def entries(self) -> Iterator[Entry]:
        """Every entry, in the order of the file, as version 3 has it."""
        return (self.load(row) for row in self.rows.values())

    def entry(self, name: str | None) -> Entry | None:
        """The entry of that id; None when there is none."""
        row = self.rows.get(name) if name is not None else None
        return self.load(row) if row else None

    def load(self, row: Row) -> Entry:
        """An entry of the index, migrated."""
        read = jsonl.decode(self._source.read_at(row.start, row.end - row.start), _ANYTHING)
        # The file may have been written over since it was indexed.
        entry: Entry = (
            read if isinstance(read, dict) else {"type": row.kind, "id": row.id, "parentId": row.parent}
        )
        if self.version < 2:
            entry |= {"id": row.id, "parentId": row.parent}
            first = entry.get("firstKeptEntryIndex")
            if row.kind == "compaction" and type(first) in (int, float):
                del entry["firstKeptEntryIndex"]
                if kept := self._given_to(first, row.number):
                    entry["firstKeptEntryId"] = kept
        message = entry.get("message")
        if self.version < 3 and row.role == "hookMessage" and isinstance(message, dict):
            message["role"] = "custom"
        return entry

    def _given_to(self, place: Any, own: int) -> str | None:
        return self._given[int(place)] if 0 <= place <= own and place == int(place) else None

    # --- the tree ---

    def path(self, from_id: str | None = None) -> list[Row]:
        """The rows from the root to an entry, the leaf unless another is named; empty when there is none."""
        found: list[Row] = []
        seen: set[str] = set()
        at = self.leaf if from_id is None else from_id
        while at is not None and at not in seen and (row := self.rows.get(at)):
            seen.add(at)
            found.append(row)
            at = row.parent
        return found[::-1]

    def branch(self, from_id: str | None = None) -> list[Entry]:
        """The entries from the root to an entry, the leaf unless another is named."""
        return [self.load(row) for row in self.path(from_id)]

    def children(self, name: str | None) -> list[Row]:
        """What goes on from an entry, in the order of the file; from None, what begins anew."""
        if self._children is None:
            self._children = {}
            for row in self.rows.values():
                self._children.setdefault(row.parent, []).append(row)
        return self._children.get(name, [])

    def label(self, name: str) -> str | None:
        """The person's bookmark on an entry."""
        return self.labels.get(name)

    def tree(self) -> list[Node]:
        """The roots: entries that begin anew, or go on from one that isn't there.

        Of entries that go on from each other in a circle the first one in the file is taken for a root.
        """
        placed: set[str] = set()
        roots: list[Node] = []
        for row in self.rows.values():
            if row.parent is None or row.parent == row.id or row.parent not in self.rows:
                roots.append(self._below(row, placed))
        for row in self.rows.values():
            if row.id not in placed:
                roots.append(self._below(row, placed))
        return roots

    def _below(self, row: Row, placed: set[str]) -> Node:
        root = Node(row, [])
        placed.add(row.id)
        waiting = [root]
        while waiting:
            node = waiting.pop()
            for child in sorted(self.children(node.row.id), key=lambda each: each.ms or 0):
                if child.id not in placed:
                    placed.add(child.id)
                    node.children.append(Node(child, []))
            waiting += node.children
        return root

    # --- what is in effect, and what it cost ---

    def model(self, from_id: str | None = None) -> Model | None:
        """The model in effect at an entry, the leaf unless another is named."""
        return next((row.model for row in reversed(self.path(from_id)) if row.model), None)

    def thinking_level(self, from_id: str | None = None) -> str:
        """The thinking level in effect at an entry, the leaf unless another is named."""
        return next((row.thinking for row in reversed(self.path(from_id)) if row.thinking is not None), "off")

    def usage(self, without: Container[str] = ()) -> Usage:
        """What all entries cost, on every branch, summaries and tools' own work with them.

        ``without``: entries that are not counted, as those a fork copied (:meth:`copied`).
        """
        total = Usage()
        for row in self.rows.values():
            if row.usage and row.id not in without:
                total = total.plus(row.usage)
        return total

    # --- forks ---

    @property
    def parent(self) -> str | None:
        """The path of the session this one was forked from, as it says itself."""
        return _text(self.header.get("parentSession"))

    @property
    def created_ms(self) -> int | None:
        return jsonl.epoch_ms(self.header.get("timestamp"))

    def copied(self, parents: Container[str] | None = None) -> set[str]:
        """The entries a fork copied from its parent, which has the same ids; none when it is no fork.

        ``parents``: the ids in the parent's file. Without it what is older than the header is a copy.
        """
        if self.parent is None:
            return set()
        if parents is not None:
            return {name for name in self.rows if name in parents}
        born = self.created_ms or 0
        return {row.id for row in self.rows.values() if row.ms is not None and row.ms < born}

    # --- what a model is given ---

    def build_context_entries(self, from_id: str | None = None) -> list[Entry]:
        """The entries of a branch that its context is made of.

        Behind a compaction that is the compaction first, then what it kept of the entries before it, then
        what came after it. A compaction that carries what it kept (``retainedTail``) needs nothing of
        what was before.
        """
        path = self.path(from_id)
        at = max((place for place, row in enumerate(path) if row.kind == "compaction"), default=None)
        if at is None:
            return [self.load(row) for row in path]
        compaction = self.load(path[at])
        chosen = [compaction]
        if not isinstance(compaction.get("retainedTail"), list):
            first = compaction.get("firstKeptEntryId")
            kept = next((place for place, row in enumerate(path[:at]) if row.id == first), at)
            chosen += [self.load(row) for row in path[kept:at] if row.role != "system"]
        return chosen + [self.load(row) for row in path[at + 1 :]]

    def build_session_context(self, from_id: str | None = None) -> Context:
        """What a model would be given on a branch."""
        entries = self.build_context_entries(from_id)
        edits = {
            entry["targetId"]: entry["replacement"]
            for entry in entries
            if entry.get("type") == "context_edit"
            and isinstance(entry.get("targetId"), str)
            and "replacement" in entry
        }
        messages: list[dict[str, Any]] = []
        for place, entry in enumerate(entries):
            # An older compaction may be among what a newer one kept; its summary is in the newer one's.
            if entry.get("type") != "compaction" or place == 0:
                messages += _edited(context_messages(entry), edits.get(entry.get("id"), _UNEDITED))
        return Context(messages, self.thinking_level(from_id), self.model(from_id))


def _lines(source: jsonl.Source) -> Iterator[jsonl.Line]:
    """Every line, the last one without its end too: not every program ends its last line."""
    end = 0
    for line in jsonl.forward(source, longest=MAX_LINE):
        end = line.end
        yield line
    if 0 < source.size - end <= MAX_LINE and (rest := source.read_at(end, source.size - end)).strip():
        yield jsonl.Line(end, end + len(rest), rest)


def _is_blank(line: jsonl.Line) -> bool:
    return not line.data.strip() and line.end - line.start <= MAX_LINE


def _row(name: str, parent: str | None, number: int, record: Record, line: jsonl.Line) -> Row:
    message = record.read_message()
    role = message.role if message and isinstance(message.role, str) else None
    kind = record.type if isinstance(record.type, str) else ""
    usage, model, thinking = None, None, None
    if message and role in ("assistant", "toolResult"):
        usage = Usage.of(message.usage)
    elif kind in ("usage", "compaction", "branch_summary"):
        usage = Usage.of(record.usage)
    if message and role == "assistant":
        model = Model(_text(message.provider), _text(message.model))
    elif kind == "model_change":
        model = Model(_text(record.provider), _text(record.modelId))
    elif kind == "thinking_level_change":
        thinking = _text(record.thinkingLevel) or ""
    return Row(name, parent, kind, role, line.start, line.end, number, record.ms, usage, model, thinking)


def _version(header: Entry) -> float:
    version: Any = header.get("version")
    return version if type(version) in (int, float) and version == version else 1


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def context_messages(entry: Entry) -> list[dict[str, Any]]:
    """The messages an entry stands for in a context, none for most kinds."""
    match entry.get("type"):
        case "message" if isinstance(message := entry.get("message"), dict):
            role = message.get("role")
            if message.get("content") is None and role in ("system", "user", "assistant", "toolResult"):
                # Old and edited files have messages without any.
                return [{**message, "content": "" if role == "system" else []}]
            return [message]
        case "custom_message":
            content = entry.get("content")
            message = _stamped("custom", entry, "customType", "display", "details")
            return [{**message, "content": [] if content is None else content}]
        case "branch_summary" if entry.get("summary"):
            return [_stamped("branchSummary", entry, "summary", "fromId")]
        case "compaction":
            system, tail = entry.get("systemMessage"), entry.get("retainedTail")
            kept = tail if isinstance(tail, list) else []
            summary = _stamped("compactionSummary", entry, "summary", "tokensBefore")
            return [each for each in (system, summary, *kept) if isinstance(each, dict)]
    return []


def _stamped(role: str, entry: Entry, *names: str) -> dict[str, Any]:
    """A message made of an entry's own members."""
    given = {name: entry[name] for name in names if name in entry}
    return {"role": role, **given, "timestamp": jsonl.epoch_ms(entry.get("timestamp"))}


_UNEDITED = object()
_EDITABLE = ("user", "assistant", "toolResult", "custom")


def _edited(messages: list[dict[str, Any]], replacement: object) -> list[dict[str, Any]]:
    """An entry's messages as the last edit of it left them: gone, or with another content."""
    if replacement is None:
        return []
    if not isinstance(replacement, dict):
        return messages
    edited = []
    for message in messages:
        content = replacement.get("content")
        if message.get("role") in ("assistant", "toolResult") and isinstance(content, str):
            content = [{"type": "text", "text": content}]
        edited.append({**message, "content": content} if message.get("role") in _EDITABLE else message)
    return edited
