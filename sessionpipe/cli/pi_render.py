"""A Pi session as a person reads it: the conversation of a branch, a context, the tree. Pure: entries in, lines out.

Whatever an entry holds was written by somebody else. Every line that leaves here went through
:func:`~sessionpipe.cli.common.printable`; what is shown of an entry went through the ``redact`` that was
given before anything was cut, because half a credential is one no rule knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sessionpipe.cli.common import printable
from sessionpipe.cli.render import TELLING, Tone, cut, duration
from sessionpipe.harnesses.pi_exchanges import asked, texts
from sessionpipe.harnesses.pi_session import Model, Node, Row, Session, Usage

Entry = Mapping[str, Any]
#: Gives back what it is given, of the same shape, without what nobody should see.
Redact = Callable[[Any], Any]

#: The longest line of what stands on one line: a call, an entry in the tree.
ONE_LINE = 160
#: How many asks at each end of a long chain the tree shows.
ENDS = 4
#: How deep side branches are drawn within each other.
DEEPEST = 12


class Line(NamedTuple):
    """A line, safe for a terminal, and how it should look."""

    text: str
    tone: Tone = "plain"


# --- amounts --------------------------------------------------------------------------------------


def tokens(count: int) -> str:
    """A number of tokens in at most five characters: ``812``, ``12.3k``, ``4.5M``."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            number = count / size
            return f"{number:.0f}{unit}" if number >= 100 else f"{number:.1f}{unit}"
    return str(count)


def cost(dollars: float) -> str:
    """An amount of dollars, to the cent, or to what is left of it."""
    if dollars <= 0:
        return ""
    return f"${dollars:.2f}" if dollars >= 0.1 else f"${dollars:.4f}".rstrip("0")


def totals(usage: Usage) -> str:
    """What a session used, in words."""
    parts = [
        f"{tokens(count)} {what}"
        for count, what in (
            (usage.input, "in"),
            (usage.output, "out"),
            (usage.cache_read, "read from cache"),
            (usage.cache_write, "written to cache"),
        )
        if count
    ]
    told = f"{tokens(usage.tokens)} tokens" + (f": {', '.join(parts)}" if parts else "")
    return told + (f"; {cost(usage.cost)}" if cost(usage.cost) else "")


def model_name(model: Model | None) -> str:
    return "/".join(part for part in model if part) if model else ""


# --- what is shown of an entry --------------------------------------------------------------------

_OF_AN_ENTRY = ("name", "summary", "tokensBefore", "customType", "content", "display", "targetId")
_OF_A_MESSAGE = (
    *("content", "toolName", "customType", "display", "isError", "durationMs", "command", "exitCode"),
    *("cancelled", "excludeFromContext", "stopReason", "errorMessage"),
)


def _shown(row: Row, entry: Entry, redact: Redact) -> Entry:
    """The members of an entry, or of its message, that are shown, redacted.

    Most of an entry is what a tool put out or a picture: none of it is shown, so no rule is run over it.
    """
    message = entry.get("message")
    if row.kind != "message" or not isinstance(message, dict):
        kept = {name: entry[name] for name in _OF_AN_ENTRY if name in entry}
    else:
        kept = {name: message[name] for name in _OF_A_MESSAGE if name in message}
        if row.role == "toolResult" and message.get("isError") is not True:
            kept.pop("content", None)
    if isinstance(content := kept.get("content"), list):
        kept["content"] = [
            {"type": "image", "text": _picture(block)}
            if isinstance(block, dict) and block.get("type") == "image"
            else block
            for block in content
        ]
    shown: Entry = redact(kept)
    return shown


def _blocks(content: object) -> list[Entry]:
    """A content's blocks; a string is one of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


# --- a conversation -------------------------------------------------------------------------------


def conversation(
    session: Session, rows: Iterable[Row], redact: Redact, *, thinking: bool = False
) -> Iterator[Line]:
    """The entries of a branch, from its beginning. ``thinking``: what the model thought is unfolded."""
    blank = True
    for line in _Teller(session, redact, thinking).tell(rows):
        # One empty line between two paragraphs, whatever stands between them.
        if line.text or not blank:
            yield line
        blank = not line.text


class _Teller:
    def __init__(self, session: Session, redact: Redact, thinking: bool) -> None:
        self._session = session
        self._redact = redact
        self._thinking = thinking
        self._calls: dict[str, str] = {}  # Those that have not ended yet, in the order of the file.
        self._model = ""
        self._speaking = False  # The model, and nobody has come between.

    def tell(self, rows: Iterable[Row]) -> Iterator[Line]:
        for row in rows:
            entry = self._session.load(row)
            shown = _shown(row, entry, self._redact)
            message = entry.get("message")
            if row.kind == "message" and isinstance(message, dict):
                yield from self._message(row, message, shown)
            else:
                yield from self._event(row, entry, shown)
            if (label := self._session.label(row.id)) is not None:
                yield _note(f"bookmark: {self._redact(label)}")
        yield from self._unended()

    def _message(self, row: Row, message: Entry, shown: Entry) -> Iterator[Line]:
        match row.role:
            case "user":
                yield from self._unended()
                yield from self._head("you", row, "good")
                yield from _block(asked(shown.get("content")))
                for block in _blocks(shown.get("content")):
                    if block.get("type") == "image":
                        yield Line(printable(f"  ({block.get('text')})"), "quiet")
                yield Line("")
            case "assistant":
                yield from self._unended()
                yield from self._answer(row, message, shown)
            case "toolResult":
                yield self._result(message, shown)
            case "bashExecution":
                yield from self._command(row, shown)
            case "custom" | "hookMessage":
                yield from self._extension(row, shown)
            case "system":
                yield _note("rules and tools told to the model")
            case other:
                yield _note(f"a message of {other or 'nobody'}")

    def _head(self, who: str, row: Row, tone: Tone) -> Iterator[Line]:
        self._speaking = False
        yield Line("")
        yield Line(printable(who + (f" · {clock(row.ms)}" if row.ms is not None else "")), tone)

    def _answer(self, row: Row, message: Entry, shown: Entry) -> Iterator[Line]:
        name = model_name(row.model)
        if not self._speaking or name != self._model:
            yield from self._head(name or "the model", row, "needs")
        self._model, self._speaking = name, True
        calls = [
            str(block.get("id"))
            for block in _blocks(message.get("content"))
            if block.get("type") == "toolCall"
        ]
        for block in _blocks(shown.get("content")):
            match block.get("type"):
                case "text" if (text := _string(block.get("text"))).strip():
                    yield from _block(text)
                case "thinking" if (thought := _string(block.get("thinking"))).strip():
                    if self._thinking:
                        yield from _block(thought, "quiet")
                    else:
                        yield Line(f"  (thought, {len(thought)} characters)", "quiet")
                case "toolCall" if calls:
                    self._calls[calls.pop(0)] = _call(block)
        match message.get("stopReason"):
            case "aborted":
                yield Line("  (stopped)", "bad")
            case "length":
                yield Line("  (cut at the limit of its length)", "bad")
            case "error":
                yield _one(f"  failed: {shown.get('errorMessage') or 'no reason given'}", "bad")

    def _result(self, message: Entry, shown: Entry) -> Line:
        call = self._calls.pop(str(message.get("toolCallId")), None) or str(shown.get("toolName") or "?")
        took = duration(message.get("durationMs"))
        if message.get("isError") is not True:
            return _ended(call, "ok" + (f" {took}" if took else ""), "quiet")
        words = next((text for text in texts(shown.get("content")) if text.strip()), "")
        told = "failed" + (f" {took}" if took else "") + (f": {words}" if words else "")
        return _ended(call, told, "bad")

    def _unended(self) -> Iterator[Line]:
        """The calls that no result ended: the run was stopped in them, or goes on."""
        for call in self._calls.values():
            yield _ended(call, "no result", "bad")
        self._calls.clear()

    def _command(self, row: Row, shown: Entry) -> Iterator[Line]:
        code = shown.get("exitCode")
        ended = "cancelled" if shown.get("cancelled") is True else f"exit {code}" if code else "ok"
        kept = ", kept from the model" if shown.get("excludeFromContext") is True else ""
        yield from self._head("you ran", row, "good")
        yield _one(f"  ! {shown.get('command')} · {ended}{kept}", "bad" if code else "plain")
        yield Line("")

    def _extension(self, row: Row, shown: Entry) -> Iterator[Line]:
        name = _string(shown.get("customType")) or "an extension"
        if shown.get("display") is False:
            yield _note(f"a message of {name}, hidden")
            return
        yield from self._head(name, row, "needs")
        yield from _block("\n".join(texts(shown.get("content"))))
        yield Line("")

    def _event(self, row: Row, entry: Entry, shown: Entry) -> Iterator[Line]:
        match row.kind:
            case "model_change":
                if (name := model_name(row.model)) != self._model:
                    self._model, self._speaking = name, False
                    yield _note(f"model: {name}")
            case "thinking_level_change":
                yield _note(f"thinking level: {row.thinking}")
            case "session_info":
                yield _note(f"named: {shown['name']}" if shown.get("name") else "its name was taken away")
            case "compaction":
                count = entry.get("tokensBefore")
                size = f" ({tokens(count)} tokens)" if type(count) is int else ""
                yield from _summary(f"the conversation so far was compacted{size}", shown)
            case "branch_summary":
                yield from _summary("back from another branch", shown)
            case "custom_message":
                yield from self._extension(row, shown)
            case "context_edit":
                how = "taken out of" if entry.get("replacement") is None else "changed in"
                yield _note(f"{shown.get('targetId')} was {how} the context")
            case "label" | "custom" | "usage":
                return
            case other:
                yield _note(other or "an entry without a type")


def _call(block: Entry) -> str:
    given = block.get("arguments")
    arguments: Entry = given if isinstance(given, dict) else {}
    telling = next((arguments[name] for name in TELLING if isinstance(arguments.get(name), str)), None)
    what = telling if telling is not None else _compact(arguments) if arguments else ""
    return f"{block.get('name') or '?'} {what}".rstrip()


def _ended(call: str, how: str, tone: Tone) -> Line:
    how = printable(" ".join(how.split()))
    return Line(f"{_one(f'  ↳ {call}').text} · {cut(how, ONE_LINE)}", tone)


def _summary(what: str, shown: Entry) -> Iterator[Line]:
    yield Line("")
    yield Line(f"── {what} ──", "needs")
    yield from _block(_string(shown.get("summary")), "quiet")
    yield Line("")


def _note(text: str) -> Line:
    return _one(f"· {text}", "quiet")


def _one(text: str, tone: Tone = "plain", most: int = ONE_LINE) -> Line:
    lead = text[: len(text) - len(text.lstrip())]
    return Line(cut(lead + printable(" ".join(text.split())), most), tone)


# --- a context ------------------------------------------------------------------------------------


def context(messages: Iterable[Any]) -> Iterator[Line]:
    """What a model would be given, which was redacted before: every message with all of its text."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        name = _string(message.get("toolName")) or _string(message.get("customType"))
        failed = " failed" if message.get("isError") is True else ""
        yield Line(printable(f"{message.get('role')} {name}".rstrip() + failed), "good")
        for text in _read_by_a_model(message):
            if text:
                yield from _block(text)
        yield Line("")


def _read_by_a_model(message: Entry) -> Iterator[str]:
    """Everything of a message that a model reads, in words where it is no text."""
    sections, added = message.get("sections"), message.get("toolsAdded")
    for name, section in sections.items() if isinstance(sections, dict) else ():
        yield f"[{name}] {'(taken back)' if section is None else section}"
    if names := [str(tool.get("name")) for tool in _blocks(added)]:
        yield f"tools: {', '.join(names)}"
    if isinstance(message.get("summary"), str):
        yield message["summary"]
    if isinstance(message.get("command"), str):
        yield f"$ {message['command']}\n{_string(message.get('output'))}".rstrip()
    for block in _blocks(message.get("content")):
        match block.get("type"):
            case "text":
                yield _string(block.get("text"))
            case "thinking":
                yield f"(thinking) {_string(block.get('thinking'))}"
            case "image":
                yield f"({_picture(block)})"
            case "toolCall":
                yield f"→ {block.get('name')} {_compact(block.get('arguments'))}"
            case other:
                yield f"({other})"


# --- the tree -------------------------------------------------------------------------------------


def tree(session: Session, redact: Redact) -> Iterator[Line]:
    """The tree: the branch that goes on as a trunk, others beside it where they left it.

    What was asked, summaries, bookmarks and the ends of branches stand on a line; what is between them is
    counted. Without recursion, because a chain may be as long as a file.
    """
    return _Drawing(session, redact).draw()


class _Branch(NamedTuple):
    """A branch to be drawn: what its first line begins with, what the others do, how deep it is."""

    node: Node
    first: str
    rest: str
    depth: int


class _Drawing:
    def __init__(self, session: Session, redact: Redact) -> None:
        self._session = session
        self._redact = redact
        self._active = {row.id for row in session.path()}

    def draw(self) -> Iterator[Line]:
        waiting = self._fork(self._session.tree(), "", 0)
        while waiting:
            branch = waiting.pop()
            if branch.depth > DEEPEST:
                yield Line(
                    f"{branch.first}┆ {_size(branch.node)} entries in branches of this branch", "quiet"
                )
                continue
            chain = [branch.node]
            while len(chain[-1].children) == 1:
                chain += chain[-1].children
            lead = branch.first
            for line in self._chain([node.row for node in chain], tip=not chain[-1].children):
                yield line._replace(text=lead + line.text)
                lead = branch.rest
            waiting += self._fork(chain[-1].children, branch.rest, branch.depth)

    def _fork(self, nodes: list[Node], lead: str, depth: int) -> list[_Branch]:
        """What goes on from one entry, the last to be drawn first: the active branch is the trunk, else the newest."""
        trunk = next((node for node in nodes if node.row.id in self._active), nodes[-1] if nodes else None)
        beside = [_Branch(node, f"{lead}├─", f"{lead}│ ", depth + 1) for node in nodes if node is not trunk]
        return [*([_Branch(trunk, lead, lead, depth)] if trunk else []), *reversed(beside)]

    def _chain(self, rows: list[Row], *, tip: bool) -> Iterator[Line]:
        stands = [place for place, row in enumerate(rows) if self._stands(row) or (tip and row is rows[-1])]
        asks = [place for place in stands if rows[place].role == "user" and not self._is_marked(rows[place])]
        stands = sorted(set(stands) - set(asks[ENDS : len(asks) - ENDS]))
        if passed := _counted(rows[: stands[0]] if stands else rows):
            yield Line(f"┆ {passed}", "quiet")
        for place, following in zip(stands, [*stands[1:], len(rows)], strict=True):
            line, between = self._entry(rows[place]), rows[place + 1 : following]
            if any(row.role == "user" for row in between):
                yield line
                yield Line(f"┆ {_counted(between)}", "quiet")
            else:
                yield line._replace(text=f"{line.text}  ({_counted(between)})" if between else line.text)

    def _stands(self, row: Row) -> bool:
        return row.role == "user" or row.kind in ("compaction", "branch_summary") or self._is_marked(row)

    def _is_marked(self, row: Row) -> bool:
        return row.id == self._session.leaf or self._session.label(row.id) is not None

    def _entry(self, row: Row) -> Line:
        active = row.id in self._active
        label = self._session.label(row.id)
        parts = [
            "●" if active else "○",
            row.id,
            self._says(row),
            f"[{self._redact(label)}]" if label is not None else "",
            "← here" if row.id == self._session.leaf else "",
        ]
        line = printable(" ".join(" ".join(part.split()) for part in parts if part))
        return Line(line, "good" if row.id == self._session.leaf else "plain" if active else "quiet")

    def _says(self, row: Row) -> str:
        shown = _shown(row, self._session.load(row), self._redact)
        match row.role or row.kind:
            case "user":
                who, text = "you", asked(shown.get("content")) or "(a picture)"
            case "assistant":
                said = " ".join(texts(shown.get("content"))).strip()
                calls = [
                    _call(block) for block in _blocks(shown.get("content")) if block.get("type") == "toolCall"
                ]
                who, text = (
                    "model",
                    said or ", ".join(calls) or _string(shown.get("errorMessage")) or "(nothing)",
                )
            case "toolResult":
                who, text = "call", _string(shown.get("toolName"))
            case "compaction":
                who, text = "compacted", _string(shown.get("summary"))
            case "branch_summary":
                who, text = "summary of another branch", _string(shown.get("summary"))
            case "bashExecution":
                who, text = "you ran", _string(shown.get("command"))
            case "custom" | "custom_message":
                who, text = _string(shown.get("customType")), " ".join(texts(shown.get("content")))
            case "model_change":
                who, text = "model", model_name(row.model)
            case "thinking_level_change":
                who, text = "thinking level", row.thinking or ""
            case "session_info":
                who, text = "named", _string(shown.get("name"))
            case other:
                who, text = other, ""
        return _one(f"{who}: {text}" if text else who, most=80).text


_COUNTED = {"user": "ask", "assistant": "answer", "toolResult": "call"}


def _counted(rows: list[Row]) -> str:
    """What is between two lines of the tree, in numbers."""
    counts = dict.fromkeys([*_COUNTED.values(), "other"], 0)
    for row in rows:
        counts[_COUNTED.get(row.role or "", "other")] += 1
    plural = {"other": "others"}
    return ", ".join(
        f"{count} {what if count == 1 else plural.get(what, what + 's')}"
        for what, count in counts.items()
        if count
    )


def _size(root: Node) -> int:
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        count += 1
        waiting += node.children
    return count


# --- text -----------------------------------------------------------------------------------------


def _block(text: str, tone: Tone = "plain") -> Iterator[Line]:
    """Text of many lines, set in by two columns; without the empty lines around it."""
    for line in text.expandtabs(4).strip("\n").split("\n"):
        yield Line(f"  {printable(line)}".rstrip(), tone)


def _picture(block: Entry) -> str:
    kind, data = block.get("mimeType"), block.get("data")
    size = f", {len(data) * 3 // 4 // 1024} KB" if isinstance(data, str) else ""
    return f"picture{f' {kind}' if isinstance(kind, str) else ''}{size}"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def clock(ms: int) -> str:
    """A time in this machine's own zone, to be read once."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone():%d %b %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "?"
